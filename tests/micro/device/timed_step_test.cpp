// A step's ops timed within it, on a GPU or in the emulator.
#include "bench/micro/device/timed_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace isobar::micro {
namespace {

RunSpec small_net() {
  RunSpec spec;
  spec.file = "test";
  spec.net.vit().embed_dim = 32;
  spec.net.vit().depth = 2;
  spec.net.vit().num_heads = 2;
  spec.net.vit().patch_size = 4;
  spec.net.vit().img_height = 8;
  spec.net.vit().img_width = 16;
  spec.net.vit().in_channels = spec.net.vit().out_channels = 2;
  spec.train.global_batch = spec.policy.micro_batch = 1;
  spec.policy.amp = Amp::bf16;
  return spec;
}

TEST(DeviceTimedStep, TimesEachOpOfAStepWithinIt) {
  const cuda::Devices found = cuda::find_devices();
  if (found.all.empty()) GTEST_SKIP() << found.why_none;
  cuda::use_device("", 0);
  const DeviceTimer timer;
  DeviceTimedStep step(small_net(), timer);
  std::set<std::string> timed;
  for (const plan::Op* op : step.distinct()) EXPECT_TRUE(timed.insert(step.name(*op)).second);
  const DeviceTimedStep::Repetition& r = step.repetition(0);
  std::map<std::string, int> times;
  double sections = 0;
  size_t at = 0;
  for (const plan::Invocation& i : step.plan().train)
    for (int32_t o = 0; o < step.plan().routines[i.routine].count; ++o) {
      const plan::Op& op = step.plan().ops[step.plan().routines[i.routine].first + o];
      const double section = r.timing.seconds.at(at++);
      if (op.kind == plan::OpKind::fetch) continue;
      ++times[step.name(op)];
      sections += section;
    }
  EXPECT_EQ(times.size(), timed.size());
  double all = 0;
  for (const auto& [name, count] : times) {
    ASSERT_TRUE(r.seconds.contains(name)) << name;
    EXPECT_GT(r.seconds.at(name), 0) << name;
    EXPECT_LT(r.seconds.at(name), 1e-2) << name;
    all += count * r.seconds.at(name);
  }
  EXPECT_NEAR(all, sections, 1e-9 * sections) << "a name's time is the mean of its ops, the batch's aside";
  EXPECT_EQ(r.timing.mhz > 0, timer.clocks().why().empty());
  EXPECT_TRUE(std::isfinite(step.loss()) && step.loss() > 0) << step.loss();
  EXPECT_EQ(&r, &step.repetition(0)) << "timed once";
}

}  // namespace
}  // namespace isobar::micro
