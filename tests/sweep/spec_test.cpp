#include "bench/sweep/spec.h"

#include <ctime>

#include "bench/sweep/results/trials.h"
#include "model/base/error.h"
#include "support.h"

namespace isobar::sweep {
namespace {

class SpecTest : public SweepTest {
 protected:
  // The error message of a sweep file that must be rejected.
  std::string refusal(const std::string& text) {
    write("bad.yaml", text);
    try {
      expand(load_sweep_spec((scratch_ / "bad.yaml").string()));
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "(accepted)";
  }
};

TEST_F(SpecTest, RefusalsNameFileKeyAndMend) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"axes: {gpus: [1]}", {"bad.yaml", "'base'", "->"}},
      {"base: nowhere.yaml", {"bad.yaml", "'base'", "nowhere.yaml", "->"}},
      {"base: base.yaml\naxis: {gpus: [1]}", {"'axis'", "'axes'"}},
      {"base: base.yaml\naxes: {policy.ampp: [none]}", {"bad.yaml", "axes", "policy.ampp", "policy.amp"}},
      {"base: base.yaml\naxes: {policy.micro_batch: [one]}",
       {"bad.yaml", "policy.micro_batch", "whole number"}},
      {"base: base.yaml\naxes: {gpus: [0]}", {"axes.gpus", "give 1 to 1048576"}},
      {"base: base.yaml\naxes: {gpus: []}", {"axes.gpus", "empty"}},
      {"base: base.yaml\naxes: {gpus: [2, 2]}", {"axes.gpus", "twice"}},
      {"base: base.yaml\naxes: {speed: [2]}", {"axes.speed", "not a key of a run"}},
      {"base: base.yaml\naxes: {run.out: [a]}", {"run.out", "directory of its own"}},
      {"base: base.yaml\naxes: {gpus: [1], layout.dp: [1]}", {"layout.dp", "keep one"}},
      {"base: base.yaml\naxes: {gpus: [4], dp: any}", {"axes.layout.dp", "leave it out"}},
      {"base: base.yaml\nset: {amp: bf16}\naxes: {policy.amp: [none]}", {"set.policy.amp", "axis"}},
      {"base: base.yaml\nsteps: 2", {"steps", "warmup"}},
      {"base: base.yaml\nsteps: many", {"steps", "whole number"}},
      {"base: base.yaml\nrepetitions: 0", {"repetitions"}},
      {"base: base.yaml\norder: shuffled", {"order", "random or listed"}},
      {"base: base.yaml\ntimeout_s: -1", {"timeout_s"}},
      {"base: base.yaml\nmemory_limit_mb: lots", {"memory_limit_mb"}},
      {"base: base.yaml\nconstraints: {max_gpus: 1}", {"constraints.max_gpus", "max_ranks"}},
      {"base: base.yaml\nexclude: {gpus: 1}", {"exclude", "list"}},
      {"base: base.yaml\nexclude: [{gpuss: 1}]", {"exclude[0]", "gpuss"}},
      {"base: base.yaml\ninclude: [1]", {"include[0]", "map"}},
      {"base: base.yaml\naxes: {policy.amp: [fp8]}", {"no combination", "fp8"}},
      {"[1, 2]", {"bad.yaml"}},
      // A value that is invalid in every combination, beside an `any` axis
      {"base: base.yaml\naxes: {gpus: [4], tp: any, policy.amp: [none, bfloat16]}",
       {"bad.yaml", "axes", "'policy.amp'", "'bfloat16' is unknown", "bf16"}},
      {"base: base.yaml\naxes: {gpus: [4], tp: any, policy.zero: [0, 4]}",
       {"axes", "'policy.zero'", "0 to 3"}},
      {"base: base.yaml\naxes: {gpus: [4], tp: any, layout.order: [tp-dp, tp-xp]}", {"layout.order", "xp"}},
      {"base: base.yaml\naxes: {gpus: [4, -4], tp: any}", {"axes.gpus", "-4"}},
      {"base: base.yaml\naxes: {gpus: [4, 2000000], tp: any}", {"axes.gpus", "1048576"}},
      {"base: base.yaml\naxes: {tp: [1, 0]}", {"axes", "'layout.tp'", "is 0"}},
      {"base: base.yaml\naxes: {train.lr: [0.1, -0.1]}", {"axes", "'train.lr'", "not positive"}},
      {"base: base.yaml\nset: {amp: bfloat16}", {"set", "'policy.amp'", "bfloat16"}},
      {"base: base.yaml\ninclude: [{amp: bfloat16}]", {"include[0]", "'policy.amp'"}},
      {"base: base.yaml\nbaselines: [{amp: bfloat16}]", {"baselines[0]", "'policy.amp'"}},
      {"base: base.yaml\nexclude: [{amp: bfloat16}]", {"exclude[0]", "'policy.amp'"}},
      {"base: base.yaml\nweak_scaling: [1, 4000000]", {"weak_scaling", "1048576"}},
  };
  for (const auto& [text, words] : cases)
    for (const std::string& word : words)
      EXPECT_NE(refusal(text).find(word), std::string::npos)
          << text << "\n  said: " << refusal(text) << "\n  without: " << word;
}

TEST_F(SpecTest, BrokenBaseIsToldOnceUnderItsOwnName) {
  write("base.yaml", "net: {embed_dimm: 64}\n");
  EXPECT_NE(refusal("base: base.yaml\naxes: {gpus: [1, 2]}").find("base.yaml: 'net.embed_dimm'"),
            std::string::npos);
}

TEST_F(SpecTest, EveryCombinationIsThereOnceAndResolved) {
  const Matrix m =
      expand(sweep("axes: {gpus: [1, 2], amp: [none, bf16], data: {workers: [0, 1, 2]}}\nrepetitions: 2"));
  ASSERT_EQ(m.trials.size(), 24u);
  std::set<std::string> ids, contents;
  for (const Trial& t : m.trials) {
    ids.insert(t.id);
    contents.insert(std::to_string(t.spec.layout.dp) + name_of(t.spec.policy.amp) +
                    std::to_string(t.spec.data.workers) + "r" + std::to_string(t.repetition));
    EXPECT_EQ(t.spec.train.steps, 4);
    EXPECT_EQ(t.spec.net.vit().embed_dim, 64);
    EXPECT_EQ(t.id.size(), 16u);
  }
  EXPECT_EQ(ids.size(), 24u);
  EXPECT_EQ(contents.size(), 24u);
}

TEST_F(SpecTest, RepetitionsAreInterleavedInOrdersOfTheirOwn) {
  const Matrix m = expand(sweep("axes: {data.workers: [0, 1, 2, 3, 4, 5, 6, 7]}\nrepetitions: 2\nseed: 7"));
  ASSERT_EQ(m.trials.size(), 16u);
  std::vector<int64_t> first, second;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(m.trials[i].repetition, 0);
    EXPECT_EQ(m.trials[8 + i].repetition, 1);
    first.push_back(m.trials[i].spec.data.workers);
    second.push_back(m.trials[8 + i].spec.data.workers);
  }
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  const Matrix listed = expand(sweep("axes: {data.workers: [0, 1, 2, 3]}\norder: listed"));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(listed.trials[i].spec.data.workers, i);
}

TEST_F(SpecTest, WhatCannotRunIsSkippedWithItsReasonAndExclusionsAreCounted) {
  const Matrix m =
      expand(sweep("axes: {gpus: [1, 2, 3, 16], policy.micro_batch: [1, 8]}\nconstraints: {max_ranks: 4}\n"
                   "exclude: [{gpus: [1, 2], policy.micro_batch: 1}]"));
  // 8 samples: 3 ranks do not divide them (2 combinations), micro-batches of 8 do not fit 2 ranks (1), nor 16
  // ranks (2).
  ASSERT_EQ(m.trials.size(), 1u);
  EXPECT_EQ(m.trials[0].spec.policy.micro_batch, 8);
  EXPECT_EQ(m.excluded, 2);
  ASSERT_EQ(m.skipped.size(), 5u);
  for (const Skipped& s : m.skipped) EXPECT_FALSE(s.reason.empty());
}

TEST_F(SpecTest, LayoutsThatTheNetCannotTakeAreSkippedWithTheReason) {
  const Matrix m = expand(sweep("axes: {tp: [1, 16], pp: [1, 2]}"));  // 8 heads, one block
  ASSERT_EQ(m.trials.size(), 1U);
  ASSERT_EQ(m.skipped.size(), 3U);
  for (const Skipped& s : m.skipped) {
    const bool heads = s.reason.find("layout.tp") != std::string::npos;
    EXPECT_TRUE(heads || s.reason.find("layout.pp") != std::string::npos) << s.reason;
    EXPECT_NE(s.reason.find("the nearest that can be run"), std::string::npos) << s.reason;
  }
}

TEST_F(SpecTest, TooManyRanksAreSkippedByTheConstraint) {
  const Matrix m = expand(sweep("axes: {gpus: [1, 2, 4, 8]}\nconstraints: {max_ranks: 2}"));
  EXPECT_EQ(m.trials.size(), 2u);
  ASSERT_EQ(m.skipped.size(), 2u);
  EXPECT_NE(m.skipped[0].reason.find("max_ranks"), std::string::npos);
}

TEST_F(SpecTest, WorldSizeIsSharedAmongTheOtherAxes) {
  const Matrix m = expand(sweep("set: {tp: 2}\naxes: {gpus: [2, 4, 5]}\norder: listed"));
  ASSERT_EQ(m.trials.size(), 2u);
  EXPECT_EQ(m.trials[0].spec.layout.dp, 1);
  EXPECT_EQ(m.trials[1].spec.layout.dp, 2);
  EXPECT_EQ(m.trials[1].ranks(), 4);
  ASSERT_EQ(m.skipped.size(), 1u);
  EXPECT_NE(m.skipped[0].reason.find("tp * cp * pp"), std::string::npos);
}

TEST_F(SpecTest, IncludedCombinationsComeOnTopAndDoublesRunOnce) {
  const Matrix m =
      expand(sweep("axes: {gpus: [1, 2]}\ninclude: [{gpus: 2, policy.bucket_mb: 1}, {gpus: 1}]"));
  EXPECT_EQ(m.trials.size(), 3u);
  EXPECT_EQ(m.duplicates, 1);
}

TEST_F(SpecTest, TrialIdDependsOnContentAloneAndNotOnWhereResultsGo) {
  RunSpec a = load_run_spec((scratch_ / "base.yaml").string());
  RunSpec b = a;
  b.file = "elsewhere.yaml";
  b.run.out = "/somewhere";
  EXPECT_EQ(trial_id(a, 0), trial_id(b, 0));
  EXPECT_NE(trial_id(a, 0), trial_id(a, 1));
  b.train.lr *= 2;
  EXPECT_NE(trial_id(a, 0), trial_id(b, 0));
}

// Ten times as many trials take ten times as long, with room for a busy machine: no trial looks at all
// others.
TEST_F(SpecTest, TimeToExpandIsProportionalToTheTrials) {
  const auto seconds = [&](int seeds) {
    std::string values;
    for (int i = 0; i < seeds; ++i) values += (i ? ", " : "") + std::to_string(i);
    const std::clock_t begin = std::clock();  // CPU time, because the machine may be busy
    const Matrix m = expand(sweep("axes: {train.seed: [" + values + "], amp: [none, bf16], gpus: [1, 2]}"));
    EXPECT_EQ(m.trials.size(), 4u * static_cast<size_t>(seeds));
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const double few = seconds(25);
  EXPECT_LT(seconds(250), 30 * few);
}

TEST_F(SpecTest, ScalingIsOneLine) {
  const auto batches = [](const Matrix& m) {
    std::map<int64_t, int64_t> out;
    for (const Trial& t : m.trials) out[t.ranks()] = t.spec.train.global_batch;
    return out;
  };
  EXPECT_EQ(batches(expand(sweep("weak_scaling: [1, 2, 4]"))),
            (std::map<int64_t, int64_t>{{1, 8}, {2, 16}, {4, 32}}));
  EXPECT_EQ(batches(expand(sweep("strong_scaling: [1, 2, 4]"))),
            (std::map<int64_t, int64_t>{{1, 8}, {2, 8}, {4, 8}}));
  EXPECT_EQ(expand(sweep("strong_scaling: [1, 2]\naxes: {amp: [none, bf16]}")).trials.size(), 4u);
  EXPECT_THROW(sweep("weak_scaling: [1, 2]\naxes: {gpus: [1, 2]}"), ConfigError);
  EXPECT_THROW(sweep("weak_scaling: [2, 1]"), ConfigError);
}

TEST_F(SpecTest, AnyStandsForEveryDivisorThatTheNetCanTake) {
  const Matrix m = expand(sweep("axes: {gpus: [4], tp: any, pp: [1]}"));
  std::set<int64_t> tp;
  for (const Trial& t : m.trials) tp.insert(t.spec.layout.tp);
  EXPECT_EQ(tp, (std::set<int64_t>{1, 2, 4}));
  EXPECT_TRUE(m.skipped.empty());
  EXPECT_THROW(sweep("axes: {tp: any}"), ConfigError);
}

TEST_F(SpecTest, ExcludedIsWhatTheFileExcludesAndTheRestIsListedWithItsReason) {
  // 8 heads, one block: of 16 ranks tp 16 is impossible, pp can only be 1, and the remaining dp must divide 8
  // samples.
  const Matrix m = expand(sweep("axes: {gpus: [16], tp: any, pp: any}\nexclude: [{tp: 4}]"));
  std::set<int64_t> tp;
  for (const Trial& t : m.trials) tp.insert(t.spec.layout.tp);
  EXPECT_EQ(tp, (std::set<int64_t>{2, 8}));
  EXPECT_EQ(m.excluded, 1);
  EXPECT_EQ(m.skipped.size(), 22u);
  int64_t counted = 0;
  std::set<std::string> reasons;
  for (const SkipReason& r : skip_reasons(m)) {
    counted += r.count;
    EXPECT_FALSE(r.first.empty());
    EXPECT_TRUE(reasons.insert(r.reason).second);
  }
  EXPECT_EQ(counted, 22);
  EXPECT_GT(reasons.size(), 1u);
  EXPECT_LT(reasons.size(), 8u);
}

TEST_F(SpecTest, ASweepOfTooManyIsRefusedAtOnceWithItsCount) {
  std::string seeds, rates;
  for (int i = 0; i < 1000; ++i) {
    seeds += (i ? ", " : "") + std::to_string(i);
    rates += (i ? ", " : "") + std::to_string(1 + i) + "e-6";
  }
  const std::string both = "base: base.yaml\naxes: {train.seed: [" + seeds + "], train.lr: [" + rates + "]}";
  const std::clock_t begin = std::clock();
  EXPECT_NE(refusal(both).find("make 1000000 combinations, more than 200000 ->"), std::string::npos)
      << refusal(both);
  const std::string often =
      refusal("base: base.yaml\nrepetitions: 10000\naxes: {train.seed: [" + seeds + "]}");
  EXPECT_NE(often.find("more than 100000 trials: 10000 times"), std::string::npos) << often;
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 20);
}

TEST_F(SpecTest, BaselinesRunBesidesAndAreComparedWith) {
  const Matrix m = expand(sweep("baselines: [{amp: none}]\naxes: {amp: [none, bf16], workers: [0, 1]}"));
  EXPECT_EQ(m.trials.size(), 4u);
  EXPECT_EQ(std::count_if(m.trials.begin(), m.trials.end(), [](const Trial& t) { return t.baseline; }), 1);
}

}  // namespace
}  // namespace isobar::sweep
