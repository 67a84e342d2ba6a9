// The draws of a replay buffer, checked against each of its rules.
#include "model/data/choice/replay_schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace isobar::data {
namespace {

// Ten segments of ten times each.
class Stretches : public Dataset {
 public:
  int64_t size() const override { return 100; }
  SampleShape shape() const override { return SampleShape({1, 1, 1}); }
  ChannelNames channels() const override { return {}; }
  void read(int64_t, float*, float*) const override {}
  int64_t one_later(int64_t i) const override { return i % 10 == 9 ? -1 : i + 1; }
};

RunSpec spec_of(int64_t capacity, int64_t refresh, int64_t lead) {
  RunSpec spec;
  spec.train.global_batch = 4;
  spec.train.seed = 11;
  spec.train.replay_capacity = capacity;
  spec.train.replay_refresh = refresh;
  spec.train.replay_max_lead = lead;
  return spec;
}

bool same(const ReplayDraw& a, const ReplayDraw& b) {
  return a.sample == b.sample && a.lead == b.lead && a.from == b.from && a.to == b.to;
}

TEST(ReplaySchedule, EveryDrawIsOfTheDataOrOfWhatAStepHasPutThere) {
  const Stretches set;
  for (const auto& [capacity, refresh, lead] :
       {std::tuple{1, 3, 8}, {2, 1, 8}, {5, 10, 3}, {20, 4, 40}, {7, 1000, 2}}) {
    ReplaySchedule schedule(spec_of(capacity, refresh, lead), set, 0, 4);
    std::vector<std::map<int64_t, std::pair<int64_t, int64_t>>> put(4);  // by place and entry: sample, lead
    int64_t longest = 0;
    for (int64_t step = 0; step < 400; ++step)
      for (int64_t i = 0; i < 4; ++i) {
        const ReplayDraw d = schedule.at(step, i);
        ASSERT_TRUE(0 <= d.from && d.from < capacity);
        longest = std::max(longest, d.lead + 1);
        if (d.lead > 0) ASSERT_EQ(put[i].at(d.from), (std::pair{d.sample, d.lead})) << step;
        const bool goes_on = set.one_later(d.sample) >= 0 && d.lead + 2 <= lead;
        ASSERT_EQ(d.to >= 0, goes_on) << step;
        if (goes_on) put[i][d.to] = {d.sample + 1, d.lead + 1};
      }
    EXPECT_LE(longest, lead);
    if (capacity == 20) EXPECT_GT(longest, 4);
    if (capacity == 7) EXPECT_EQ(longest, 2);
  }
}

TEST(ReplaySchedule, TheOldestMakesRoomAndFreshOnesComeInTheOrderOfTheSet) {
  const Stretches set;
  const int64_t capacity = 6, refresh = 5;
  const RunSpec spec = spec_of(capacity, refresh, 40);
  ReplaySchedule schedule(spec, set, 1, 1);
  SampleOrder order(set.size(), 4, 11, true);
  std::vector<std::pair<int64_t, int64_t>> ring;
  int64_t fresh = 0, oldest = 0;
  for (; fresh < capacity; ++fresh) ring.emplace_back(order.at(fresh, 1), 0);
  const auto put = [&](int64_t sample, int64_t lead) {
    ring[oldest] = {sample, lead};
    return std::exchange(oldest, (oldest + 1) % capacity);
  };
  std::vector<int64_t> drawn(capacity);
  for (int64_t step = 0; step < 3000; ++step) {
    if (step > 0 && step % refresh == 0) put(order.at(fresh++, 1), 0);
    const ReplayDraw& d = schedule.at(step, 0);
    ++drawn[d.from];
    ASSERT_EQ(ring[d.from], (std::pair{d.sample, d.lead})) << step;
    if (d.to >= 0) ASSERT_EQ(put(d.sample + 1, d.lead + 1), d.to) << step;
  }
  for (const int64_t n : drawn) EXPECT_NEAR(static_cast<double>(n), 500, 5 * std::sqrt(500.0));
}

TEST(ReplaySchedule, DependsOnNothingButTheStepAndThePlace) {
  const Stretches set;
  RunSpec spec = spec_of(5, 4, 6);
  ReplaySchedule all(spec, set, 0, 4), last(spec, set, 3, 1), later(spec, set, 2, 2);
  for (const int64_t step : {0, 1, 2, 3, 17, 18, 90, 5, 60}) {
    EXPECT_TRUE(same(all.at(step, 3), last.at(step, 0))) << step;
    EXPECT_TRUE(same(all.at(step, 2), ReplaySchedule(spec, set, 2, 2).at(step, 0))) << step;
    EXPECT_TRUE(same(later.at(step, 1), last.at(step, 0))) << step;
  }
  spec.train.seed = 12;
  ReplaySchedule other(spec, set, 0, 4);
  int64_t differ = 0;
  for (int64_t step = 0; step < 50; ++step) differ += !same(all.at(step, 0), other.at(step, 0));
  EXPECT_GT(differ, 25);
}

TEST(ReplaySchedule, LeadsAreShorterWhileItWarmsUp) {
  const Stretches set;
  RunSpec spec = spec_of(3, 7, 8);
  spec.train.replay_warmup_steps = 100, spec.train.replay_warmup_lead = 2;
  ReplaySchedule schedule(spec, set, 0, 4);
  int64_t first = 0, then = 0;
  for (int64_t step = 0; step < 400; ++step)
    for (int64_t i = 0; i < 4; ++i) {
      int64_t& longest = step < 100 ? first : then;
      longest = std::max(longest, schedule.at(step, i).lead + 1);
    }
  EXPECT_EQ(first, 2);
  EXPECT_GT(then, 2);
  EXPECT_LE(then, 8);
}

}  // namespace
}  // namespace isobar::data
