// Steps on a GPU traced by CUPTI: device activities join to the plan's ops. Skipped without a GPU.
#include <gtest/gtest.h>

#include <set>

#include "model/backend/cuda/runtime/device.h"
#include "model/engine/processor.h"
#include "model/nets/build.h"

namespace isobar {
namespace {

class DeviceTrace : public ::testing::TestWithParam<bool> {};

TEST_P(DeviceTrace, TheDevicesTimeBelongsToOps) {
  const cuda::Devices found = cuda::find_devices();
  if (found.all.empty()) GTEST_SKIP() << found.why_none;
  RunSpec spec;
  spec.net.vit().embed_dim = 128;
  spec.net.vit().depth = 2;
  spec.net.vit().num_heads = 4;
  spec.net.vit().img_height = 64;
  spec.net.vit().img_width = 128;
  spec.net.vit().in_channels = spec.net.vit().out_channels = 4;
  spec.train.global_batch = 4;
  spec.policy.micro_batch = 2;  // the same ops twice a step
  spec.policy.amp = Amp::bf16;
  spec.run.device = RunDevice::cuda;
  spec.run.cuda_graphs = GetParam();
  const comm::Mpi mpi;
  const engine::ComputeDevice device = engine::choose_device(spec, 0);
  const plan::Plan plan = nets::build_plan(spec, 0, engine::workspace_of(device, spec, 1));
  const plan::Program program = plan::link(plan, plan.train), init = plan::link(plan, plan.init);
  const auto processor = engine::make_processor(device, spec, plan, mpi, 1, true);
  if (!processor->watch(program)) GTEST_SKIP() << processor->describe().dump();
  processor->stop_watching();
  const auto samples = [&](int32_t, const BatchPlaces& to) {
    float *input = to.floats("input"), *target = to.floats("target");
    const int64_t n = spec.policy.micro_batch * 4 * 64 * 128;
    for (float* x : {input, target})
      for (int64_t i = 0; x && i < n; ++i) x[i] = static_cast<float>(i % 17) - 8;
  };
  processor->backend().on_fetch(samples, true);
  Runner& run = processor->runner();
  run.keep(program, true);
  run(init, 0);
  for (int step = 0; step < 3; ++step) run(program, step);  // the first is enqueued, the second captured
  (void)processor->watched(0);
  ASSERT_TRUE(processor->watch(program));
  constexpr int kSteps = 4;
  for (int step = 3; step < 3 + kSteps; ++step) run(program, step);
  processor->stop_watching();
  const trace::DeviceJoin j = processor->watched(0);
  const std::string text = trace::to_text(j.share);
  EXPECT_EQ(j.share.lost, 0) << text;
  EXPECT_GE(j.share.joined_share(), 0.98) << text;
  std::set<std::pair<int32_t, int32_t>> seen, ahead;  // of ops; of copies for the next step
  for (const trace::Span& s : j.spans) {
    EXPECT_TRUE((s.lane == plan::Lane::h2d ? ahead : seen).insert({s.step, s.instr}).second);
    EXPECT_LT(s.begin_ns, s.end_ns);
    EXPECT_GE(s.step, 3);
    EXPECT_LT(s.step, 3 + kSteps);
  }
  EXPECT_EQ(ahead.size(), 2u * kSteps) << text;  // two micro-batches
  const bool sums_within_products = processor->describe()["fused"].contains("bias_gradient");
  for (int step = 3; step < 3 + kSteps; ++step)
    for (size_t i = 0; i < program.instrs.size(); ++i)
      EXPECT_TRUE((sums_within_products && plan.ops[program.instrs[i].op].kind == plan::OpKind::column_sum) ||
                  seen.count({step, static_cast<int32_t>(i)}))
          << "step " << step << ": nothing ran for " << plan.ops[program.instrs[i].op].path;
}

INSTANTIATE_TEST_SUITE_P(Modes, DeviceTrace, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Graphs") : std::string("Launches");
});

}  // namespace
}  // namespace isobar
