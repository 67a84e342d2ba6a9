// Constraints of a search: its result is the best of all allowed layouts.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "perfmodel/ask/search.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

RunSpec llama(int64_t gpus, const std::string& batch) {
  RunSpec spec =
      load_run_spec(source_dir() + "/configs/models/llama3-8b.yaml",
                    {"layout.dp=1", "layout.tp=1", "layout.cp=1", "layout.pp=1", "layout.vpp=1",
                     "policy.micro_batch=1", "policy.schedule=1f1b", "policy.recompute=none", "policy.zero=0",
                     "policy.sequence_parallel=false", "net.depth=8", "train.global_batch=" + batch});
  spec.layout = {.dp = gpus};
  spec.policy.micro_batch = 0;
  return spec;
}

const Machine& dgx() {
  static const Machine m = load_machine(source_dir() + "/configs/machines/dgx-h100.yaml");
  return m;
}

bool allowed(const Constraints& keep, const Layout& l) {
  using A = LayoutAxis;
  return keep.allows(A::dp, l.dp) && keep.allows(A::tp, l.tp) && keep.allows(A::cp, l.cp) &&
         keep.allows(A::pp, l.pp) && keep.allows(A::vpp, l.vpp) &&
         keep.allows(A::micro_batch, l.micro_batch) &&
         keep.allows(A::schedule, static_cast<int64_t>(l.schedule)) && keep.allows(A::zero, l.zero) &&
         keep.allows(A::recompute, static_cast<int64_t>(l.recompute)) && keep.allows(A::order, l.order) &&
         (l.cp == 1 || keep.allows(A::cp_kind, static_cast<int64_t>(l.cp_kind))) &&
         (l.tp == 1 || keep.allows(A::sequence_parallel, l.sequence_parallel ? 1 : 0));
}

SearchOptions everything() {
  return {.top = 1000, .variants = 10'000'000, .pareto = true, .confirm = false};
}

// Random constraints on three axes at a time, against every layout of the unconstrained search.
TEST(SearchConstraints, TheBestIsTheBestOfTheExhaustiveListFiltered) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto of = [&](std::initializer_list<const char*> list) {
    return std::string(*(list.begin() + random() % list.size()));
  };
  const RunSpec spec = llama(16, "32");
  SearchOptions all = everything();
  all.space.orders = false;
  const SearchResult every = search(spec, dgx(), all);
  ASSERT_EQ(static_cast<int64_t>(every.variants.size()), every.priced);
  ASSERT_GT(every.priced, 1000);
  int answered = 0, narrowed = 0;
  for (int i = 0; i < 40; ++i) {
    SearchOptions options{.top = 3, .confirm = false, .space = all.space};
    Constraints& keep = options.space.keep;
    keep.fix(of({"tp=1", "tp=2..8", "pp=2", "dp=1..4", "vpp=2..4", "cp=1..2", "micro_batch=2", "pp=2..4"}));
    keep.exclude(of({"zero=3", "zero=0..1", "recompute=none", "recompute=full", "schedule=interleaved",
                     "schedule=zb-h1", "sequence_parallel=true", "cp_kind=ring", "tp=4,dp=2"}));
    if (random() % 2) keep.fix(of({"zero=1", "recompute=selective", "schedule=1f1b", "tp=1..4"}));
    std::vector<double> scores;
    for (const LayoutCandidate& c : every.variants)
      if (allowed(keep, c.layout)) scores.push_back(c.score());
    try {
      const SearchResult r = search(spec, dgx(), options);
      ASSERT_FALSE(scores.empty()) << keep.text();
      EXPECT_EQ(r.best.front().score(), *std::min_element(scores.begin(), scores.end())) << keep.text();
      EXPECT_LT(r.considered, every.considered) << keep.text();
      for (const LayoutCandidate& c : r.best)
        EXPECT_TRUE(allowed(keep, c.layout)) << keep.text() << ": " << text_of(c.layout);
      ++answered;
      narrowed += r.best.front().score() > every.best.front().score();
    } catch (const ConfigError&) {
      EXPECT_TRUE(scores.empty()) << keep.text();
    }
  }
  EXPECT_GE(answered, 10);  // of 40: every pair above has layouts, except for some third axes
  EXPECT_GE(narrowed, 1);
}

TEST(SearchConstraints, WhatNothingSatisfiesNamesTheOneToLeaveOut) {
  const auto refusal = [](const char* fix, const char* exclude, bool large = false) -> std::string {
    SearchOptions options{.top = 1, .confirm = false};
    if (*fix) options.space.keep.fix(fix);
    if (*exclude) options.space.keep.exclude(exclude);
    RunSpec spec = llama(16, "32");
    try {
      search(spec, dgx(), options);
    } catch (const DoesNotFit& e) {
      return large ? e.what() : "";
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  const std::string contradiction = refusal("tp=4,pp=2", "pp=1..64");
  EXPECT_NE(contradiction.find("keeps to --fix tp=4, --fix pp=2, --exclude pp=1..64"), std::string::npos)
      << contradiction;
  EXPECT_NE(contradiction.find("leave out --exclude pp=1..64"), std::string::npos) << contradiction;
  EXPECT_NE(refusal("tp=7", "").find("leave out --fix tp=7"), std::string::npos) << refusal("tp=7", "");
  EXPECT_NE(refusal("tp=7,pp=7", "").find("leave out several"), std::string::npos);
}

TEST(SearchConstraints, WhatDoesNotFitNamesTheOneToLeaveOut) {
  SearchOptions options{.top = 1, .confirm = false};
  options.space.keep.fix("tp=1,pp=1,cp=1");
  options.space.keep.exclude("zero=1..3");
  RunSpec spec = load_run_spec(source_dir() + "/configs/models/llama3-8b.yaml",
                               {"layout.dp=1", "layout.tp=1", "layout.pp=1", "train.global_batch=32",
                                "policy.micro_batch=1", "policy.zero=0", "policy.sequence_parallel=false"});
  spec.layout = {.dp = 16};
  try {
    search(spec, dgx(), options);
    FAIL() << "8 B parameters of 16 bytes each fit nothing of 80 GB";
  } catch (const DoesNotFit& e) {
    EXPECT_NE(std::string(e.what()).find("leave out --fix tp=1"), std::string::npos) << e.what();
  }
}

TEST(SearchConstraints, AreReadToTheirEnd) {
  for (const auto& [text, part] : {std::pair{"tpp=8", "'tpp' is no axis"},
                                   {"tpp=8", "there are dp, tp, cp"},
                                   {"tp", "has no value"},
                                   {"tp=8x", "'8x' is no tp"},
                                   {"tp=0", "'0' is no tp"},
                                   {"tp=8..2", "from more to less"},
                                   {"zero=4", "0 to 3"},
                                   {"recompute=some", "there are none, selective, full"},
                                   {"tp=8,", "'' is no axis"},
                                   {"", "'' is no axis"}}) {
    try {
      Constraints().fix(text);
      ADD_FAILURE() << text;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << text << ": " << e.what();
    }
  }
}

}  // namespace
}  // namespace isobar::perf
