// Closed forms over runs of equal parts against a plain loop over the parts, for nets of any shape.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "perfmodel/layouts/layout_units.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/cost.h"
#include "tests/perfmodel/support.h"

namespace isobar::perf {
namespace {

// A U-Net: an end, two narrow parts, a merge, three wide ones, a split, two narrow ones, an end
const std::vector<int32_t> kUNet{0, 1, 1, 2, 3, 3, 3, 4, 1, 1, 5};

NetParts net_of(const std::vector<int32_t>& parts) {
  NetParts net;
  net.part = parts;
  net.cut_like.resize(parts.size());
  std::iota(net.cut_like.begin(), net.cut_like.end(), 0);
  net.counts = count_parts(parts);
  for (PartCount& c : net.counts)
    for (size_t i = 0; i < parts.size(); ++i)
      c.inner += parts[i] == c.part && net.inner(static_cast<int64_t>(i));
  return net;
}

// Random lists of parts in runs, and random cuts of them
struct Case {
  NetParts net;
  std::vector<int32_t> cuts;
  int32_t pp, vpp;
};

Case random_case(std::mt19937_64& random) {
  std::vector<int32_t> parts{0};
  const int runs = 1 + static_cast<int>(random() % 5);
  for (int r = 0; r < runs; ++r)
    for (int n = 1 + static_cast<int>(random() % 9), part = 1 + static_cast<int>(random() % 4); n > 0; --n)
      parts.push_back(part);
  parts.push_back(5);
  std::vector<int32_t> order;  // numbered by first occurrence
  for (int32_t& p : parts) {
    auto at = std::find(order.begin(), order.end(), p);
    if (at == order.end()) at = order.insert(order.end(), p);
    p = static_cast<int32_t>(at - order.begin());
  }
  Case c{net_of(parts),
         {},
         test::one_of<int32_t>(random, {1, 2, 3, 4}),
         test::one_of<int32_t>(random, {1, 1, 2})};
  if (c.pp == 1) c.vpp = 1;
  while (c.pp * c.vpp > static_cast<int32_t>(parts.size())) c.pp = 1, c.vpp = 1;
  std::vector<int32_t> inside(parts.size() - 1);
  std::iota(inside.begin(), inside.end(), 1);
  std::shuffle(inside.begin(), inside.end(), random);
  c.cuts.assign(inside.begin(), inside.begin() + c.pp * c.vpp - 1);
  c.cuts.push_back(0), c.cuts.push_back(static_cast<int32_t>(parts.size()));
  std::sort(c.cuts.begin(), c.cuts.end());
  return c;
}

// Its parts in order
std::vector<int32_t> parts_of_chunk(const StageChunk& c) {
  std::vector<int32_t> out;
  for (const PartRun& r : c.runs) out.insert(out.end(), static_cast<size_t>(r.count), r.part);
  return out;
}

TEST(StageKinds, AreTheStagesOfTheNet) {
  std::mt19937_64 random(1);
  PolicySpec policy;
  for (int i = 0; i < 300; ++i) {
    const Case c = random_case(random);
    const StageKinds s = cut_stages(c.net, c.cuts, c.pp, c.vpp, policy);
    double stages = 0;
    std::vector<double> counts(c.net.distinct());
    for (const StageKind& k : s.kinds) {
      stages += k.times;
      for (const PartCount& p : k.counts) counts[p.part] += k.times * p.count;
      for (const StageChunk& chunk : k.chunks) {
        const int32_t v = chunk.chunk * c.pp + k.stage;
        const std::vector<int32_t> parts(c.net.part.begin() + c.cuts[v], c.net.part.begin() + c.cuts[v + 1]);
        EXPECT_EQ(parts_of_chunk(chunk), parts);
        EXPECT_EQ(chunk.enters < 0, v == 0);
        if (chunk.enters >= 0) {
          EXPECT_EQ(s.cuts[chunk.enters].like, c.cuts[v]);
        }
      }
      double before = 0;
      for (const double b : k.before) before += b;
      EXPECT_EQ(before, k.stage);
    }
    EXPECT_EQ(stages, c.pp);
    for (const PartCount& p : c.net.counts) EXPECT_EQ(counts[p.part], p.count);
  }
}

TEST(StageKinds, OfEqualPartsAreFewHoweverManyThereAre) {
  std::vector<int32_t> parts(98, 1);
  parts.front() = 0, parts.back() = 2;
  const NetParts net = net_of(parts);
  std::vector<int32_t> cuts{0};
  for (int32_t v = 1; v < 32; ++v) cuts.push_back(1 + 3 * v);
  cuts.push_back(98);
  NetParts alike = net;
  std::fill(alike.cut_like.begin(), alike.cut_like.end(), 2);
  const StageKinds s = cut_stages(alike, cuts, 16, 2, {});
  ASSERT_EQ(s.kinds.size(), 3U);
  EXPECT_EQ(s.kinds[1].times, 14);
  EXPECT_EQ(s.kinds[1].chunks.size(), 1U);
  EXPECT_EQ(s.cuts.size(), 1U);
}

TEST(StageKinds, KnowWhatIsRecomputedTogether) {
  PolicySpec policy;
  policy.recompute_num_layers = 4;
  const NetParts net = net_of(kUNet);
  const StageKinds s = cut_stages(net, {0, 11}, 1, 1, policy);
  // 1 1 2 3 | 3 3 4 1 | 1: the first of each group keeps its input
  EXPECT_EQ(s.otherwise, (std::vector<double>{0, 2.0 / 4, 1, 2.0 / 3, 1, 0}));
  EXPECT_EQ(s.largest, (std::vector<std::vector<double>>{{0, 2, 1, 1, 0, 0}, {0, 1, 0, 2, 1, 0}}));
  policy.recompute_method = RecomputeMethod::block;
  const StageKinds some = cut_stages(net, {0, 11}, 1, 1, policy);
  EXPECT_EQ(some.otherwise, (std::vector<double>{0, 2.0 / 4, 0, 2.0 / 3, 1, 0}));
}

class Units : public ::testing::Test {
 protected:
  // Parts of any size, some without cut or without whole parameters
  void draw(const Case& c) {
    sections_.parts.assign(c.net.distinct(), {});
    times_.assign(c.net.distinct(), {});
    std::uniform_real_distribution<double> of(0, 1);
    for (PartSections& p : sections_.parts) {
      p.parameters = {std::floor(of(random_) * 4e6), std::floor(of(random_) * 2e5), 0, 0};
      if (random_() % 4 == 0) p.parameters.cut = 0;
      p.parameters.cut_matrix = std::floor(of(random_) * p.parameters.cut);
      p.parameters.whole_matrix = random_() % 2 ? 0 : std::floor(of(random_) * p.parameters.whole);
      p.read_again = p.parameters;
    }
    for (PartTime& t : times_)
      t.forward.seconds = 1e-4 * of(random_), t.backward.seconds = 3e-4 * of(random_);
    policy_ = {.zero = static_cast<int>(random_() % 4),
               .by_reader = random_() % 2 == 0,
               .matrix = 2,
               .bucket = test::one_of(random_, {1e5, 3e6, 2e7}),
               .cut = {8, 4},
               .whole = {32, 8}};
  }

  double collective(plan::OpKind kind, double bytes, double element, const Placement& group) const {
    return seconds(count_collective(kind, bytes, element, group, rates_, where_), rates_);
  }

  struct Unit {
    size_t part;  // part of the chunk where it begins
    double elements, reduce, gather;
  };
  // As in model/plan/parameters.cpp: a unit closes when it is full and another part follows; at stage 3 with
  // each part.
  std::vector<Unit> cut(const std::vector<int32_t>& parts) const {
    std::vector<Unit> out;
    for (const bool cut : {true, false})
      for (const bool matrix : {true, false}) {
        if (!matrix && !policy_.by_reader) continue;
        std::vector<Unit> units;
        for (size_t i = 0; i < parts.size(); ++i) {
          const ParameterCounts& p = sections_.parts[parts[i]].parameters;
          const double all = cut ? p.cut : p.whole, read = cut ? p.cut_matrix : p.whole_matrix;
          const bool full = !units.empty() && units.back().elements >= policy_.bucket;
          if (units.empty() || full || policy_.zero == 3) units.push_back({i, 0, 0, 0});
          units.back().elements += !policy_.by_reader ? all : matrix ? read : all - read;
        }
        for (Unit& u : units) {
          if (u.elements == 0) continue;
          const Placement& group = cut ? policy_.cut : policy_.whole;
          const double bytes = matrix ? policy_.matrix : 4;
          u.reduce = collective(policy_.zero > 0 ? plan::OpKind::reduce_scatter : plan::OpKind::all_reduce,
                                4 * u.elements, 4, group);
          if (policy_.zero > 0)
            u.gather = collective(plan::OpKind::all_gather, bytes * u.elements, bytes, group);
          out.push_back(u);
        }
      }
    return out;
  }

  const Machine machine_ = test::cluster("dgx-h100");
  const Conditions where_ = conditions_of(*machine_.accelerator, 64, 1);
  const Counts rates_ = rates(machine_.values(), where_);
  const uint64_t seed_ = std::random_device{}();
  std::mt19937_64 random_{seed_};
  NetSections sections_;
  std::vector<PartTime> times_;
  UnitPolicy policy_;
};

TEST_F(Units, AreThoseOfALoopOverParts) {
  SCOPED_TRACE(seed_);
  int inexact = 0;  // where units of several sections begin between each other's: one draw in 45,000
  for (int i = 0; i < 500; ++i) {
    const Case c = random_case(random_);
    draw(c);
    const StageKinds s = cut_stages(c.net, c.cuts, c.pp, c.vpp, {});
    for (const StageKind& k : s.kinds) {
      const UnitTimes u = unit_times(sections_, k.chunks, policy_, rates_, where_);
      double count = 0, reduce = 0, gather = 0;
      for (size_t ch = 0; ch < k.chunks.size(); ++ch) {
        const StageChunk& chunk = k.chunks[ch];
        const std::vector<int32_t> parts = parts_of_chunk(chunk);
        const std::vector<Unit> units = cut(parts);
        double left = 0;  // at worst, of units that begin at a part or before it, after the previous parts
        double before = 0;
        for (size_t p = 0; p < parts.size(); ++p) {
          double to_come = 0;
          bool begins = false;
          for (const Unit& x : units) to_come += x.part <= p ? x.reduce : 0, begins = begins || x.part == p;
          if (begins) left = std::max(left, to_come - before);
          before += times_[parts[p]].backward.seconds;
        }
        for (const Unit& x : units)
          count += chunk.times, reduce += chunk.times * x.reduce, gather += chunk.times * x.gather;
        if (policy_.zero < 3) {
          const double missed = left - u.exposed(chunk, static_cast<int32_t>(ch), [&](const PartRun& r) {
            return times_[r.part].backward.seconds;
          });
          double largest = 0;  // of one unit
          for (const Unit& x : units) largest = std::max(largest, x.reduce);
          const double rounding = 1e-9 * reduce + 1e-15;
          EXPECT_GE(missed, -rounding);
          EXPECT_LE(missed, largest + rounding);
          if (missed > rounding) ++inexact;
        }
      }
      EXPECT_EQ(u.units, count);
      EXPECT_NEAR(u.reduce, reduce, 1e-9 * reduce);
      EXPECT_NEAR(u.gather, gather, 1e-9 * gather);
    }
  }
  EXPECT_LE(inexact, 2);
}

// The extension of a part by a concurrent collective
double beside(double compute, double collective, double slowdown) {
  if (collective == 0) return 0;
  const double slow = slowdown * std::min(compute, collective / (1 + slowdown));
  return slow + std::max(0.0, collective - compute - slow);
}

TEST_F(Units, OfStageThreeAreWaitedForAsInALoopOverParts) {
  for (int i = 0; i < 500; ++i) {
    const Case c = random_case(random_);
    draw(c);
    policy_.zero = 3;
    const StageKinds s = cut_stages(c.net, c.cuts, c.pp, c.vpp, {});
    for (const StageKind& k : s.kinds) {
      const UnitTimes u = unit_times(sections_, k.chunks, policy_, rates_, where_);
      const double slowdown = 0.1;
      const UnitWaits w = waits_of(u, k, times_, {.zero = 3, .slowdown = slowdown});
      double forward = 0, last = 0, reduced = 0;
      for (const StageChunk& chunk : k.chunks) {
        const std::vector<int32_t> parts = parts_of_chunk(chunk);
        std::vector<double> gather(parts.size()), reduce(parts.size());
        for (const Unit& x : cut(parts)) gather[x.part] += x.gather, reduce[x.part] += x.reduce;
        double here = gather[0];
        for (size_t p = 0; p + 1 < parts.size(); ++p)
          here += beside(times_[parts[p]].forward.seconds, gather[p + 1], slowdown);
        forward += chunk.times * here;
        last += chunk.times * reduce[0];
        reduced += chunk.times * std::accumulate(reduce.begin(), reduce.end(), 0.0);
      }
      EXPECT_NEAR(w.forward, forward, 1e-9 * forward);
      EXPECT_NEAR(w.behind, last, 1e-9 * last);
      EXPECT_GE(w.backward, last);
      EXPECT_LE(w.backward, (1 + slowdown) * (reduced + u.gather));  // no wait counts twice
    }
  }
}

}  // namespace
}  // namespace isobar::perf
