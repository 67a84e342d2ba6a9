// Parameters in host memory: bytes of device and host, and transfers in a step.
#include <gtest/gtest.h>

#include "model/base/error.h"
#include "model/plan/ops/work.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

using Words = std::vector<std::string>;

const Words kOffloads = {"layout.dp=2", "policy.zero=3", "policy.offload_parameters=true"};

Words and_more(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

int64_t declared_bytes(const Plan& plan, BufferKind kind) {
  int64_t all = 0;
  for (const Buffer& b : plan.buffers)
    if (b.kind == kind) all += b.bytes();
  return all;
}

double moved(const Plan& plan, Lane lane, const std::string& beginning) {
  double bytes = 0;
  for (const Invocation& i : plan.train) {
    const Routine& r = plan.routines[i.routine];
    for (int32_t o = r.first; o < r.first + r.count; ++o)
      if (plan.ops[o].lane == lane && plan.ops[o].path.starts_with(beginning))
        bytes += work(plan.ops[o], plan).bytes_written;
  }
  return bytes;
}

TEST(OffloadedParameters, LieInHostMemory) {
  for (const bool sixteen : {false, true})
    for (const bool moments : {false, true}) {
      Words words = kOffloads;
      if (sixteen) words.push_back("policy.amp=bf16");
      if (moments) words.push_back("policy.offload_optimizer=true");
      const Plan plan = plan_of("vit-tiny", words);
      const int64_t elements = plan.params_all.count,
                    halves = plan.params16_all ? plan.params16_all.count : 0;
      EXPECT_EQ(declared_bytes(plan, BufferKind::params), 0);
      EXPECT_EQ(declared_bytes(plan, BufferKind::params16), 0);
      EXPECT_EQ(declared_bytes(plan, BufferKind::host),
                4 * elements + 2 * halves + (moments ? 8 * elements : 0));
      EXPECT_EQ(halves > 0, sixteen);
      words.erase(words.begin() + 2);
      const Plan there = plan_of("vit-tiny", words);
      EXPECT_LT(plan.memory.arena, there.memory.arena);
      EXPECT_EQ(there.params_all.count, elements);
    }
}

// A step loads every share for both passes, or for forward only if backward does not read it, and once more
// for its update, after which it is stored.
TEST(OffloadedParameters, GoBetweenForEachUse) {
  const Plan plan = plan_of("vit-tiny", and_more(kOffloads, {"policy.micro_batch=4"}));
  const double all = 4.0 * static_cast<double>(plan.params_all.count);
  EXPECT_EQ(moved(plan, Lane::h2d, "optimizer/params"), all);
  EXPECT_EQ(moved(plan, Lane::d2h, "optimizer/params"), all);
  EXPECT_GT(moved(plan, Lane::h2d, "params/"), 1.5 * all);
  EXPECT_LE(moved(plan, Lane::h2d, "params/"), 2 * all);
}

// Only transfers access the host's buffers.
TEST(OffloadedParameters, NoOtherOpTouchesThem) {
  for (const Words& more :
       {Words{}, {"policy.amp=bf16"}, {"policy.offload_optimizer=true", "train.ema=0.9"}, {"layout.dp=1"}}) {
    const Plan plan = plan_of("vit-tiny", and_more(kOffloads, more));
    for (const Op& op : plan.ops)
      for (const auto* views : {&op.reads, &op.writes})
        for (const View& v : *views)
          if (v && plan.buffers[v.buffer].kind == BufferKind::host)
            EXPECT_TRUE(op.kind == OpKind::copy && (op.lane == Lane::h2d || op.lane == Lane::d2h)) << op.path;
  }
}

TEST(OffloadedParameters, AreOfTheThirdStage) {
  EXPECT_THROW(plan_of("vit-tiny", {"policy.offload_parameters=true"}), ConfigError);
  EXPECT_NO_THROW(nets::check_world(spec_of("vit-tiny", and_more(kOffloads, {"layout.tp=2"})), Workspace()));
}

}  // namespace
}  // namespace isobar::plan
