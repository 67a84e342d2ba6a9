// Waiting time of ranks that synchronise between ops (tensor and context parallel): whole steps over MPI
// minus the time of their ops and transfers. Random delays add up, because the slowest rank of each
// synchronisation delays all others.
#include <omp.h>

#include <string>
#include <vector>

#include "bench/micro/cases.h"
#include "bench/micro/inputs.h"
#include "model/backend/cpu/cpu_backend.h"
#include "model/base/step_stats.h"
#include "model/engine/executor.h"
#include "model/engine/host/host.h"
#include "model/inference/arena.h"
#include "model/nets/build.h"
#include "model/plan/ops/work.h"
#include "perfmodel/step/shapes.h"

namespace isobar::micro {
namespace {

constexpr int kUnmeasured = 3, kMeasured = 24;  // steps

// One rank's step with inputs as a loader delivers them
class MeetingRun {
 public:
  MeetingRun(const RunSpec& spec, const comm::Mpi& mpi)
      : mpi_(mpi),
        plan_(nets::build_plan(spec, mpi.rank(), cpu_workspace(1))),
        program_(nets::link_step(spec, plan_)),
        arena_(plan_.memory.arena),
        backend_(plan_, arena_.data()),
        comm_(plan_.groups),
        run_(plan_, backend_, &comm_, waiting(mpi)) {
    omp_set_num_threads(1);
    backend_.load_constants();
    for (const plan::Op& op : plan_.ops)
      if (!plan::is_collective(op.kind))
        fill_inputs(op, plan_, [&](const plan::View& v) { return backend_.at(v); });
    backend_.on_fetch([](int32_t, const BatchPlaces&) {});
  }

  struct Step {
    double waits, computes;  // seconds, averaged over ranks
  };
  Step step() {
    run_.reset_op_times();
    mpi_.barrier();
    const int64_t t0 = engine::now_ns();
    run_(program_, 0);
    const double took = 1e-9 * static_cast<double>(engine::now_ns() - t0);
    double own = 0;
    for (size_t i = 0; i < plan_.ops.size(); ++i)
      if (plan_.ops[i].lane == plan::Lane::compute) own += run_.op_times()[i].seconds;
    const std::vector<double> all = mpi_.sum_of({took, own});
    const double computes = all[1] / mpi_.size();
    return {std::max(1e-9, all[0] / mpi_.size() - computes), computes};
  }
  /// Work of all transfers of a step
  plan::Work transfers() const {
    plan::Work sum;
    for (const plan::Instr& i : program_.instrs)
      if (const plan::Op& op = plan_.ops[static_cast<size_t>(i.op)]; plan::is_collective(op.kind)) {
        const plan::Work w = plan::work(op, plan_);
        sum.messages += w.messages, sum.wire_bytes += w.wire_bytes;
      }
    return sum;
  }

 private:
  // As in the other collective cases, the computing thread moves the data
  static engine::Waiting waiting(const comm::Mpi& mpi) {
    engine::Waiting w = engine::waiting_among(1, mpi.size(), mpi.ranks_on_host(), engine::cores_of(mpi));
    w.comm_thread = false;
    return w;
  }
  const comm::Mpi& mpi_;
  const plan::Plan plan_;
  const plan::Program program_;
  inference::Arena arena_;
  CpuBackend backend_;
  comm::Comm comm_;
  engine::Executor run_;
};

}  // namespace

std::vector<RunSpec> meeting_specimens(int64_t ranks) {
  RunSpec vit, graph;
  for (RunSpec* r : {&vit, &graph}) {
    r->file = "calibrate";
    r->run.threads = 1;
    r->train.global_batch = 4;
    r->policy.micro_batch = 4;
  }
  VitSpec& v = vit.net.vit();
  v.embed_dim = 128, v.num_heads = 4, v.depth = 2, v.img_height = 64, v.img_width = 128;
  v.in_channels = v.out_channels = 4;
  RegionalGnnSpec n;
  n.img_height = 33, n.img_width = 49, n.in_channels = 8, n.north = 58, n.west = -10;
  n.downstream = {51, 55, -4, 1}, n.upstream = {50, 58, -10, -4}, n.boundary_longitude = -3.5;
  n.boundary_neighbors = 16, n.latent_size = n.mlp_hidden_size = 48, n.num_gnn_layers = 4;
  graph.net.set_kind(RegionalGnnSpec::kKind);
  graph.net.regional_gnn() = n;
  graph.train.loss = LossKind::mse;
  vit.layout.tp = graph.layout.cp = ranks;
  std::vector<RunSpec> out{graph};
  if (v.num_heads % ranks == 0) out.push_back(vit);
  return out;
}

bool register_lockstep_case(const RunSpec& spec, const comm::Mpi& mpi, std::set<std::string>& known) {
  const LayoutSpec& l = spec.layout;
  if (mpi.size() == 1 || l.world() != mpi.size() || l.tp * l.cp != l.world() || spec.run.threads > 1)
    return false;
  if (mpi.ranks_on_host() > engine::cores_of(mpi))
    return false;  // oversubscribed ranks wait for cores instead
  const std::string precision = perf::case_precision(spec);
  if (precision.empty()) return false;
  std::string name = "lockstep/" + precision + "/" + spec.net.kind();
  for (const auto& [what, n] : {std::pair{"dim", spec.net.width()},
                                {"tokens", spec.net.tokens()},
                                {"batch", spec.micro_batch()},
                                {"x", spec.micro_batches()},
                                {"tp", l.tp},
                                {"cp", l.cp}})
    name += "/" + std::string(what) + std::to_string(n);
  if (!known.insert(name).second) return false;
  register_case(name,
                [spec, &mpi](benchmark::State& state) {
                  MeetingRun run(spec, mpi);
                  for (int i = 0; i < kUnmeasured; ++i) run.step();
                  std::vector<double> waits, computes;
                  for (int i = 0; i < kMeasured; ++i) {
                    const MeetingRun::Step s = run.step();
                    waits.push_back(s.waits), computes.push_back(s.computes);
                  }
                  for (auto _ : state) state.SetIterationTime(quantile(waits, 0.5));
                  const plan::Work w = run.transfers();
                  state.counters["ops"] = 1;
                  state.counters["compute_s"] = quantile(computes, 0.5);
                  state.counters["wire_bytes"] = w.wire_bytes;
                  state.counters["messages"] = w.messages;
                  state.counters["threads"] = 1;
                  state.counters["ranks"] = mpi.size();
                })
      ->Iterations(1)
      ->UseManualTime();
  return true;
}

}  // namespace isobar::micro
