// Executor calls as a profiler sees them, launched op by op or replayed as a graph: a CUPTI stand-in makes
// one activity for each enqueue, and they must join to every op of every step.
#include <gtest/gtest.h>

#include <set>

#include "model/backend/cuda/executor.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/nets/build.h"
#include "model/trace/device_records.h"
#include "tests/cuda/kernels/kernel_check.h"

namespace isobar::cuda::testing {
namespace {

class StandIn : public OpObserver {
 public:
  void begin_op(const plan::Program&, int32_t instr, int32_t step, cudaStream_t) override {
    EXPECT_FALSE(open_) << "an op begins inside another";
    open_ = true;
    enqueued_.push_back({step, instr});
  }
  void end_op(const plan::Program&, int32_t instr, int32_t, cudaStream_t) override {
    EXPECT_TRUE(open_);
    EXPECT_EQ(enqueued_.back().instr, instr);
    open_ = false;
  }
  void begin_ahead(const plan::Program&, int32_t instr, int32_t step) override {
    EXPECT_FALSE(open_);
    ran(announce({step, instr, true}), 0);
  }
  void captured(const plan::Program&, cudaGraph_t, cudaGraphExec_t) override {
    nodes_.clear();                            // both landing sets have graphs of the same ops
    for (const trace::OpKey& k : enqueued_) {  // they became nodes, and nothing ran
      records.node_instr[next_node_] = k.instr;
      nodes_.push_back(next_node_++);
    }
    enqueued_.clear();
  }
  void begin_graph(const plan::Program&, int32_t step, cudaStream_t) override {
    const uint32_t call = announce({step, 0});
    for (const uint64_t node : nodes_) ran(call, node);
    ++graphs;
  }
  void ended() {  // what was enqueued and not captured was launched
    EXPECT_FALSE(open_);
    for (const trace::OpKey& k : enqueued_) ran(announce(k), 0);
    enqueued_.clear();
  }
  trace::DeviceRecords records;
  int graphs = 0;

 private:
  uint32_t announce(trace::OpKey k) {
    records.links.push_back({++call_, trace::external_id(k)});
    return call_;
  }
  void ran(uint32_t call, uint64_t node) {
    clock_ += 10;
    records.activities.push_back(
        {trace::DeviceActivity::Kind::kernel, call, node, clock_, clock_ + 5, "kernel"});
  }
  bool open_ = false;
  std::vector<trace::OpKey> enqueued_;
  std::vector<uint64_t> nodes_;
  uint64_t next_node_ = 1000;
  uint32_t call_ = 0;
  int64_t clock_ = 1;
};

/// Steps of a small net on the device, with or without graphs.
class ObservedSteps {
 public:
  explicit ObservedSteps(bool graphs) : graphs_(graphs) {}
  /// Steps with samples fetched when an op asks for them, or `ahead`.
  void run(bool ahead) {
    backend_.prepare();
    run_.keep(program_, ahead);
    backend_.on_fetch(sample, ahead);
    run_(plan::link(plan_, plan_.init), 0);
    run_.observe(&device_);
    for (int step = 0; step < kSteps; ++step) {
      run_(program_, step);
      device_.ended();
    }
    EXPECT_EQ(device_.graphs, graphs_ ? kSteps - 1 : 0);
  }
  trace::DeviceJoin joined() const { return trace::join(device_.records, program_, 0); }
  size_t instrs() const { return program_.instrs.size(); }
  bool fetches(const trace::Span& s) const {
    return plan_.ops[static_cast<size_t>(s.op)].kind == plan::OpKind::fetch;
  }
  static constexpr int kSteps = 4;

 private:
  static RunSpec spec() {
    RunSpec spec;
    spec.file = "test";
    spec.net.vit().embed_dim = 32;
    spec.net.vit().depth = 1;
    spec.net.vit().num_heads = 2;
    spec.net.vit().patch_size = 4;
    spec.net.vit().img_height = 8;
    spec.net.vit().img_width = 8;
    spec.net.vit().in_channels = spec.net.vit().out_channels = 2;
    spec.train.global_batch = 2;
    spec.policy.micro_batch = 1;  // the same ops twice a step
    return spec;
  }
  static void sample(int32_t, const BatchPlaces& to) {
    float *input = to.floats("input"), *target = to.floats("target");
    for (float* x : {input, target})
      for (int i = 0; x && i < 2 * 8 * 8; ++i) x[i] = static_cast<float>(i % 5) - 2;
  }

  const bool graphs_;
  const RunSpec spec_ = spec();
  const plan::Plan plan_ = nets::build_plan(spec_, 0, cuda_workspace());
  const plan::Program program_ = plan::link(plan_, plan_.train);
  const Streams streams_;
  const DeviceArena arena_{plan_.memory.arena};
  const PinnedMemory host_{plan_.memory.host};
  CudaBackend backend_{plan_, arena_.data(), host_.data(), streams_, {}};
  DeviceExecutor run_{plan_, backend_, nullptr, streams_, {.graphs = graphs_}};
  StandIn device_;
};

class Observer : public ::testing::TestWithParam<bool> {};

TEST_P(Observer, HearsOfEveryOpOfEveryStepOnce) {
  ISOBAR_NEEDS_KERNELS();
  ObservedSteps steps(GetParam());
  steps.run(false);
  const trace::DeviceJoin j = steps.joined();
  EXPECT_EQ(j.share.joined_share(), 1) << trace::to_text(j.share);
  std::set<std::pair<int32_t, int32_t>> seen;
  for (const trace::Span& s : j.spans) EXPECT_TRUE(seen.insert({s.step, s.instr}).second);
  EXPECT_EQ(seen.size(), steps.kSteps * steps.instrs());
}

TEST_P(Observer, CopiesAheadBelongToTheirFetchesOnTheLinksLane) {
  ISOBAR_NEEDS_KERNELS();
  ObservedSteps steps(GetParam());
  steps.run(true);
  const trace::DeviceJoin j = steps.joined();
  EXPECT_EQ(j.share.joined_share(), 1) << trace::to_text(j.share);
  std::set<std::pair<int32_t, int32_t>> own, ahead;
  for (const trace::Span& s : j.spans) {
    EXPECT_TRUE(s.lane != plan::Lane::h2d || steps.fetches(s));
    EXPECT_TRUE((s.lane == plan::Lane::h2d ? ahead : own).insert({s.step, s.instr}).second);
  }
  EXPECT_EQ(own.size(), steps.kSteps * steps.instrs());
  EXPECT_EQ(ahead.size(), 2u * steps.kSteps);  // two micro-batches for each following step
}

INSTANTIATE_TEST_SUITE_P(Modes, Observer, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Graphs") : std::string("Launches");
});

}  // namespace
}  // namespace isobar::cuda::testing
