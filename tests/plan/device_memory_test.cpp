// A run's memory on a GPU, and the chosen micro-batch against all legal ones.
#include "model/nets/layout/device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "model/base/error.h"
#include "model/nets/layout/legal_layout.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

// A run without a given micro-batch, with or without a pipeline.
RunSpec drawn(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<const char*> list) {
    return std::string(*(list.begin() + random() % list.size()));
  };
  const std::string kind = one_of({"", "pp", "vpp", "zero", "tp", "cp", "gpipe"});
  std::vector<std::string> set = {"net.depth=8",
                                  "net.embed_dim=32",
                                  "net.num_heads=4",
                                  "net.img_height=32",
                                  "net.img_width=64",
                                  "policy.micro_batch=0",
                                  "policy.amp=" + one_of({"none", "bf16"}),
                                  "train.global_batch=" + one_of({"8", "12", "16", "24", "32"}),
                                  "policy.recompute=" + one_of({"none", "full"})};
  const auto add = [&](std::initializer_list<std::string> more) { set.insert(set.end(), more); };
  if (kind == "pp") add({"layout.pp=" + one_of({"2", "4"})});
  if (kind == "gpipe") add({"layout.pp=2", "policy.schedule=gpipe"});
  if (kind == "vpp") add({"layout.pp=2", "layout.vpp=" + one_of({"2", "4"}), "policy.schedule=interleaved"});
  if (kind == "zero") add({"layout.dp=4", "policy.zero=" + one_of({"1", "2", "3"})});
  if (kind == "tp")
    add({"layout.tp=2", "layout.dp=2", "policy.sequence_parallel=" + one_of({"false", "true"})});
  if (kind == "cp") add({"layout.cp=3"});
  return spec_of("vit-tiny", set);
}

RunSpec with_micro_batch(RunSpec s, int64_t b) {
  s.policy.micro_batch = b;
  return s;
}

// The same from every rank's whole plan.
double needed(const RunSpec& spec, const nets::DeviceRoom& room) {
  double most = 0;
  for (int rank = 0; rank < spec.layout.world(); ++rank) {
    const Plan plan = nets::build_plan(spec, rank, odd_workspace);
    most = std::max(most, static_cast<double>(plan.memory.arena) +
                              static_cast<double>(plan.groups.size() * room.nccl_channels) *
                                  static_cast<double>(kNcclChannelBytes) +
                              room.process);
  }
  return most;
}

TEST(MicroBatch, TheLargestThatFitsIsTaken) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 40; ++i) {
    const RunSpec spec = drawn(random);
    const LayoutSpec& l = spec.layout;
    SCOPED_TRACE(to_json(spec).dump());
    nets::DeviceRoom room{.process = static_cast<double>(random() % 1000000)};
    // All sizes that the checks of plans accept.
    const int64_t samples = spec.train.global_batch / l.dp;
    std::vector<int64_t> legal;
    for (int64_t b = 1; b <= samples; ++b) try {
        if (samples % b != 0) continue;
        nets::check_layout(with_micro_batch(spec, b));
        legal.push_back(b);
      } catch (const ConfigError&) {
      }
    ASSERT_FALSE(legal.empty());
    // A pipeline has as many micro-batches as virtual stages, or as many as possible.
    const int64_t stages = l.pp > 1 ? std::min(l.pp * l.vpp, samples / legal.front()) : 1;
    std::vector<double> need;
    std::vector<int64_t> sizes;
    for (const int64_t b : legal)
      if (samples / b >= stages) {
        sizes.push_back(b);
        need.push_back(needed(with_micro_batch(spec, b), room));
      }
    int64_t before = 0;
    std::vector<double> rooms = need;  // at the limits, just below them, and beyond both ends
    for (const double n : need) rooms.push_back(n - 1);
    rooms.push_back(1);
    rooms.push_back(std::numeric_limits<double>::infinity());
    std::sort(rooms.begin(), rooms.end());
    for (const double bytes : rooms) {
      room.bytes = bytes;
      int64_t want = 0;
      double want_need = 0;
      for (size_t k = 0; k < sizes.size(); ++k)
        if (need[k] <= bytes) want = sizes[k], want_need = need[k];
      const nets::MicroBatchChoice c = nets::largest_micro_batch(spec, odd_workspace, room);
      EXPECT_TRUE(c.chosen);
      EXPECT_EQ(c.fits, want > 0) << bytes;
      EXPECT_EQ(c.spec.policy.micro_batch, want > 0 ? want : sizes.front()) << bytes;
      if (want > 0) EXPECT_EQ(c.memory.total(), want_need);
      EXPECT_GE(c.spec.policy.micro_batch, before) << "more room, a smaller one";
      before = c.spec.policy.micro_batch;
    }
  }
}

TEST(MicroBatch, AGivenOneStaysAndOneThatNoLayoutTakesIsLeftToThePlan) {
  const nets::DeviceRoom room{.bytes = 1};
  const RunSpec given = spec_of("vit-tiny", {"policy.micro_batch=2"});
  const nets::MicroBatchChoice kept = nets::largest_micro_batch(given, {}, room);
  EXPECT_FALSE(kept.chosen);
  EXPECT_EQ(kept.spec.policy.micro_batch, 2);
  EXPECT_EQ(kept.text(), "");
  const RunSpec odd =
      spec_of("vit-tiny", {"policy.micro_batch=0", "layout.pp=2", "layout.vpp=2", "net.depth=4",
                           "policy.schedule=interleaved", "train.global_batch=3"});
  const nets::MicroBatchChoice none = nets::largest_micro_batch(odd, {}, room);
  EXPECT_FALSE(none.chosen);
  EXPECT_THROW(nets::build_plan(none.spec, 0, {}), ConfigError);
}

}  // namespace
}  // namespace isobar::plan
