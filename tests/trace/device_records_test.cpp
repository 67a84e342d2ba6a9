// The join against random streams of records with known truth: shuffled, with foreign work, lost links and
// activities, clock offset and drift.
#include "model/trace/device_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/trace/fixture.h"

namespace isobar::trace {
namespace {

struct Truth {
  plan::Program program;
  DeviceRecords records;
  std::map<std::pair<int32_t, int32_t>, std::pair<int64_t, int64_t>> spans;  // (step, instr) -> device times
  int64_t joined_ns = 0, other_ns = 0;
};

class Streams : public testing::TestWithParam<bool> {  // parameter: the steps are replays of a graph
 protected:
  void SetUp() override {
    seed_ = std::random_device{}();
    random_.seed(seed_);
    RecordProperty("seed", std::to_string(seed_));
  }
  int64_t any(int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }

  // `lose_links`, `lose_nodes`: shares lost; the affected activities count as `other`.
  Truth make(double lose_links, double lose_nodes, double foreign) {
    Truth t;
    const auto instrs = static_cast<int32_t>(any(5, 60)), steps = static_cast<int32_t>(any(1, 6));
    for (int32_t i = 0; i < instrs; ++i)
      t.program.instrs.push_back({static_cast<int32_t>(any(0, 20)),
                                  static_cast<int32_t>(any(0, 3)),
                                  0,
                                  0,
                                  static_cast<plan::Lane>(any(0, plan::kLanes - 1)),
                                  {}});
    std::set<uint64_t> taken{0};
    const auto fresh_node = [&] {
      uint64_t node;
      do node = static_cast<uint64_t>(any(1, int64_t{1} << 62));
      while (!taken.insert(node).second);
      return node;
    };
    // A program is captured as graphs of runs of instrs; each node has its index in its graph.
    struct Node {
      int32_t instr;
      uint64_t id;
      bool known;
    };
    std::vector<int32_t> graph_first;
    std::map<int32_t, std::vector<Node>> graphs;  // by first instr
    for (int32_t i = 0, first = 0; i < instrs; ++i) {
      if (i == 0 || chance(0.1)) first = i;
      for (int64_t n = any(0, 3); n > 0; --n) {
        const Node node{i, fresh_node(), !chance(lose_nodes)};
        graphs[first].push_back(node);
        if (node.known) t.records.node_instr[node.id] = i - first;
      }
    }
    uint32_t correlation = static_cast<uint32_t>(any(1, 1 << 30));
    int64_t clock = any(0, int64_t{1} << 60);
    const auto run = [&](uint32_t call, uint64_t node, const char* name) {
      const int64_t begin = clock + any(0, 3000), end = begin + any(1, 50000);
      clock = chance(0.7) ? end : begin;  // some are concurrent
      const auto kind = static_cast<DeviceActivity::Kind>(any(0, 2));
      t.records.activities.push_back({kind, call, node, begin, end, name});
      return std::pair{begin, end};
    };
    const auto belongs = [&](int32_t step, int32_t instr, std::pair<int64_t, int64_t> time, bool seen) {
      const int64_t ns = time.second - time.first;
      if (!seen) {
        t.other_ns += ns;
        return;
      }
      t.joined_ns += ns;
      const auto [at, fresh] = t.spans.try_emplace({step, instr}, time);
      if (fresh) return;
      at->second.first = std::min(at->second.first, time.first);
      at->second.second = std::max(at->second.second, time.second);
    };
    const auto announce = [&](uint32_t call, OpKey key) {  // returns whether it arrives
      if (chance(lose_links)) return false;
      for (int64_t n = any(1, 2); n > 0; --n) t.records.links.push_back({call, external_id(key)});
      return true;
    };
    for (int32_t step = 3; step < 3 + steps; ++step) {
      if (GetParam()) {
        for (const auto& [first, nodes] : graphs) {
          const uint32_t call = correlation++;
          const bool seen = announce(call, {step, first});
          for (const Node& n : nodes) belongs(step, n.instr, run(call, n.id, "same name"), seen && n.known);
        }
      } else {
        for (int32_t i = 0; i < instrs; ++i)
          for (int64_t n = any(0, 3); n > 0; --n) {
            const uint32_t call = correlation++;
            const bool seen = announce(call, {step, i});
            belongs(step, i, run(call, 0, "same name"), seen);
          }
      }
      while (chance(foreign)) {  // not announced; a node of a foreign graph
        const auto time = run(correlation++, chance(0.3) ? fresh_node() : 0, "foreign");
        t.other_ns += time.second - time.first;
      }
    }
    std::shuffle(t.records.activities.begin(), t.records.activities.end(), random_);
    std::shuffle(t.records.links.begin(), t.records.links.end(), random_);
    return t;
  }

  static void expect_truth(const Truth& t, int64_t shift) {
    const DeviceJoin j = join(t.records, t.program, 7, 0);
    ASSERT_EQ(j.spans.size(), t.spans.size());
    EXPECT_TRUE(std::is_sorted(j.spans.begin(), j.spans.end(),
                               [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; }));
    for (const Span& s : j.spans) {
      const auto at = t.spans.find({s.step, s.instr});
      ASSERT_NE(at, t.spans.end()) << "step " << s.step << " instr " << s.instr;
      EXPECT_EQ(s.begin_ns, at->second.first + shift);
      EXPECT_EQ(s.end_ns, at->second.second + shift);
      const plan::Instr& instr = t.program.instrs[static_cast<size_t>(s.instr)];
      EXPECT_EQ(s.rank, 7);
      EXPECT_EQ(s.op, instr.op);
      EXPECT_EQ(s.micro, instr.micro);
      EXPECT_EQ(s.lane, instr.lane);
    }
    EXPECT_EQ(j.share.joined_ns, t.joined_ns);
    EXPECT_EQ(j.share.device_ns, t.joined_ns + t.other_ns);
    int64_t other = 0;
    for (const auto& [name, ns] : j.share.other) other += ns;
    EXPECT_EQ(other, t.other_ns);
  }

  uint32_t seed_ = 0;
  std::mt19937_64 random_;
};

TEST_P(Streams, EveryActivityComesBackUnderTheOpThatLaunchedIt) {
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed_) + " round " + std::to_string(round));
    const Truth t = make(0, 0, 0);
    expect_truth(t, 0);
    EXPECT_EQ(join(t.records, t.program, 7).share.joined_share(), 1.0);
  }
}

TEST_P(Streams, WhatIsLostOrForeignIsOtherAndNobodyElses) {
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed_) + " round " + std::to_string(round));
    expect_truth(make(0.2, 0.2, 0.6), 0);
  }
}

TEST_P(Streams, AShiftOfTheClockMovesSpansAndNothingElse) {
  Truth t = make(0.1, 0.1, 0.5);
  const int64_t shift = any(-1'000'000'000'000, 1'000'000'000'000);
  t.records.clocks = {{any(0, int64_t{1} << 60), 0}};
  t.records.clocks[0].host_ns = t.records.clocks[0].device_ns + shift;
  SCOPED_TRACE("seed " + std::to_string(seed_));
  expect_truth(t, shift);
}

TEST_P(Streams, TheOriginIsTakenOff) {
  const Truth t = make(0, 0, 0.5);
  const int64_t origin = any(1, int64_t{1} << 50);
  const DeviceJoin a = join(t.records, t.program, 0, 0), b = join(t.records, t.program, 0, origin);
  ASSERT_EQ(a.spans.size(), b.spans.size());
  for (size_t i = 0; i < a.spans.size(); ++i) EXPECT_EQ(a.spans[i].begin_ns - origin, b.spans[i].begin_ns);
}

INSTANTIATE_TEST_SUITE_P(Modes, Streams, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Replayed") : std::string("Launched");
});

TEST(DeviceRecords, ExternalIdsGiveBackStepAndInstr) {
  for (const OpKey k : {OpKey{0, 0}, OpKey{1, 2}, OpKey{2147483647, 1073741823}, OpKey{0, 1073741823},
                        OpKey{3, 4, true}, OpKey{2147483647, 1073741823, true}})
    EXPECT_EQ(op_key(external_id(k)), k);
}

TEST(DeviceRecords, ACopyAheadIsASpanBesideTheOpsOwn) {
  const SmallPlan s = small_plan();
  DeviceRecords r;
  r.activities = {{DeviceActivity::Kind::copy, 5, 0, 10, 20, "to the plan's buffers"},
                  {DeviceActivity::Kind::copy, 6, 0, 30, 70, "the next step's inputs"},
                  {DeviceActivity::Kind::copy, 7, 0, 70, 80, "its targets"}};
  r.links = {{5, external_id({4, 0})}, {6, external_id({4, 0, true})}, {7, external_id({4, 0, true})}};
  const DeviceJoin j = join(r, s.program, 0);
  ASSERT_EQ(j.spans.size(), 2u);
  EXPECT_EQ(j.share.joined_share(), 1);
  const Span &own = j.spans[0], &ahead = j.spans[1];
  EXPECT_EQ(own.lane, s.program.instrs[0].lane);
  EXPECT_EQ(std::pair(own.begin_ns, own.end_ns), std::pair(int64_t{10}, int64_t{20}));
  EXPECT_EQ(ahead.lane, plan::Lane::h2d);
  EXPECT_EQ(std::pair(ahead.begin_ns, ahead.end_ns), std::pair(int64_t{30}, int64_t{80}));
  EXPECT_EQ(std::pair(ahead.step, ahead.instr), std::pair(own.step, own.instr));
}

TEST(DeviceRecords, TheEnginesWorkHasANameAndNoSpan) {
  const SmallPlan s = small_plan();
  DeviceRecords r;
  r.activities = {{DeviceActivity::Kind::kernel, 5, 0, 10, 80, "an op's"},
                  {DeviceActivity::Kind::copy, 6, 0, 80, 90, "copy"},
                  {DeviceActivity::Kind::kernel, 7, 77, 90, 105, "of another program's graph"},
                  {DeviceActivity::Kind::copy, 8, 0, 105, 110, "foreign copy"}};
  r.links = {{5, external_id(OpKey{4, 0})},
             {6, external_id(EngineWork::download)},
             {7, external_id(EngineWork::program)},
             {8, kEngineBit | kEngineWorks}};  // no such work
  r.node_instr[77] = 1;
  const DeviceJoin j = join(r, s.program, 0);
  ASSERT_EQ(j.spans.size(), 1u);
  EXPECT_DOUBLE_EQ(j.share.joined_share(), 0.95);
  EXPECT_EQ(to_text(j.share),
            "device time 0.000 ms in 4 activities: 70.00 % joined to ops, 25.00 % of the engine (downloads "
            "10.00 %, other programs 15.00 %), other 5.00 % (foreign copy 5.00 %)");
}

TEST(DeviceRecords, ACallAnnouncedForTwoOpsBelongsToNeither) {
  const SmallPlan s = small_plan();
  DeviceRecords r;
  r.activities = {{DeviceActivity::Kind::kernel, 5, 0, 10, 20, "a"},
                  {DeviceActivity::Kind::kernel, 6, 0, 30, 70, "b"}};
  r.links = {{5, external_id({0, 0})}, {5, external_id({0, 2})}, {6, external_id({0, 2})}};
  const DeviceJoin j = join(r, s.program, 0);
  ASSERT_EQ(j.spans.size(), 1u);
  EXPECT_EQ(j.spans[0].instr, 2);
  EXPECT_EQ(j.share.ambiguous, 1);
  EXPECT_DOUBLE_EQ(j.share.joined_share(), 0.8);
}

TEST(DeviceRecords, IdsBeyondTheProgramAndRecordsWithoutTimesAreCountedNotTrusted) {
  const SmallPlan s = small_plan();
  DeviceRecords r;
  const auto kernel = [](uint32_t call, uint64_t node, int64_t begin, int64_t end) {
    return DeviceActivity{DeviceActivity::Kind::kernel, call, node, begin, end, "k"};
  };
  r.activities = {kernel(1, 0, 10, 20), kernel(2, 0, 30, 40), kernel(3, 9, 50, 60), kernel(4, 0, 0, 0),
                  kernel(5, 0, 90, 80)};
  r.links = {{1, external_id({0, 4})},
             {2, external_id({0, -1})},
             {3, external_id({0, 3})},
             {4, external_id({0, 0})}};
  r.node_instr[9] = 1;  // 3 + 1: one past the end
  r.lost = 17;
  const DeviceJoin j = join(r, s.program, 0);
  EXPECT_TRUE(j.spans.empty());
  EXPECT_EQ(j.share.untimed, 2);
  EXPECT_EQ(j.share.joined_share(), 0);
  const std::string text = to_text(j.share);
  EXPECT_NE(text.find("other 100.00 % (k 100.00 %)"), std::string::npos) << text;
  EXPECT_NE(text.find("2 without times"), std::string::npos) << text;
  EXPECT_NE(text.find("17 records lost"), std::string::npos) << text;
}

TEST(DeviceRecords, NothingRecordedIsNothingUnattributed) {
  const SmallPlan s = small_plan();
  const DeviceJoin j = join({}, s.program, 0);
  EXPECT_TRUE(j.spans.empty());
  EXPECT_EQ(j.share.joined_share(), 1);
  EXPECT_EQ(to_text(j.share), "device time 0.000 ms in 0 activities: 0.00 % joined to ops, other 0.00 %");
}

TEST(ClockMap, MeetsItsReadingsAndFollowsTheDriftBetweenThem) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const int64_t device = static_cast<int64_t>(random() >> 3), host = static_cast<int64_t>(random() >> 3);
    const int64_t span = 1 + static_cast<int64_t>(random() % 100'000'000'000);
    const auto drift = static_cast<int64_t>(random() % 2'000'001) - 1'000'000;  // ns over the span
    const ClockMap map({{device, host}, {device + span / 3, -1}, {device + span, host + span + drift}});
    EXPECT_EQ(map.to_host(device), host);
    EXPECT_EQ(map.to_host(device + span), host + span + drift);
    const int64_t part = static_cast<int64_t>(random() % static_cast<uint64_t>(span));
    const double exact = static_cast<double>(drift) * (static_cast<double>(part) / static_cast<double>(span));
    EXPECT_NEAR(static_cast<double>(map.to_host(device + part) - host - part), exact, 1.0);
  }
  EXPECT_EQ(ClockMap().to_host(42), 42);
  EXPECT_EQ(ClockMap({{100, 250}}).to_host(110), 260);
  EXPECT_EQ(ClockMap({{100, 250}, {100, 900}}).to_host(110),
            260);  // a stopped clock: offset only
}

}  // namespace
}  // namespace isobar::trace
