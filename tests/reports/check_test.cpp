// `isobar check`: verdicts on results with known changes, updates of the reference file, and results that
// cannot be compared.
#include "reports/comparison/check.h"

#include <gtest/gtest.h>

#include <fstream>

#include "model/base/error.h"
#include "tests/reports/fixture.h"

namespace isobar::report {
namespace {

class Check : public ::testing::Test {
 protected:
  // Ten specifications with three repetitions that differ by 1 %; `factors` scale the step times of the first
  // ones.
  ReportData results(const std::string& name, const std::vector<double>& factors, int repetitions = 3) {
    MadeUpResults made(dir_.path / name, rng_());
    std::normal_distribution<double> normal;
    for (int s = 0; s < 10; ++s)
      for (int rep = 0; rep < repetitions; ++rep) {
        RunSpec spec = MadeUpResults::spec(1, "none", s);
        spec.train.seed = rep;
        const double factor = s < static_cast<int>(factors.size()) ? factors[s] : 1;
        made.write_timed("s" + std::to_string(s) + "r" + std::to_string(rep), spec,
                         0.02 * (1 + s) * factor * std::exp(0.005 * normal(rng_)), 0.01);
      }
    return collect({dir_.path / name}, {});
  }
  CheckResult against(const ReportData& d, double tolerance = 0.05) {
    return check(entries_of(d), failed_of(d), read_reference(file_), file_, tolerance);
  }
  template <class Work>
  static std::string refusal(Work work) {
    try {
      work();
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "(accepted)";
  }

  TempDir dir_;
  std::filesystem::path file_ = dir_.path / "reference.jsonl";
  uint64_t seed_ = std::random_device{}();
  std::mt19937_64 rng_{seed_};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, seed_};
};

TEST_F(Check, NamesWhatBecameSlowerAndLeavesTheToleranceAlone) {
  append_reference(file_, entries_of(results("before", {})));
  // 20 % slower, 2 % slower (within the tolerance), 20 % faster
  const CheckResult c = against(results("after", {1.2, 1.02, 1 / 1.2}));
  ASSERT_EQ(c.specifications.size(), 10u);
  EXPECT_TRUE(c.regressed());
  EXPECT_EQ(c.count("slower"), 1u);
  EXPECT_EQ(c.count("faster"), 1u);
  EXPECT_EQ(c.count("as fast") + c.count("cannot tell"), 8u);
  EXPECT_GE(c.count("as fast"), 7u) << "2 % may be too near the tolerance to be told";
  EXPECT_EQ(c.specifications[0].verdict, "slower");  // problems come first
  EXPECT_NEAR(c.specifications[0].change.ratio, 1.2, 0.05);
  EXPECT_FALSE(against(results("same", {1, 1.02})).regressed());
  EXPECT_TRUE(against(results("strict", {1.2}), 0.1).regressed());
  EXPECT_FALSE(against(results("lenient", {1.2}), 0.3).regressed());
}

// The noise between single short runs is assumed: 40 % are seen, 5.5 % are neither slower nor as fast.
TEST_F(Check, OfOneShortRunTheNoiseIsAssumed) {
  const RunSpec spec = MadeUpResults::spec(1, "none", 0);
  MadeUpResults(dir_.path / "before", rng_()).write_timed("a", spec, 0.020, 0.001, 4);
  MadeUpResults(dir_.path / "slow", rng_()).write_timed("a", spec, 0.028, 0.001, 4);
  MadeUpResults(dir_.path / "near", rng_()).write_timed("a", spec, 0.0211, 0.001, 4);
  append_reference(file_, entries_of(collect({dir_.path / "before"}, {})));
  const CheckResult slow = against(collect({dir_.path / "slow"}, {}));
  EXPECT_EQ(slow.count("slower"), 1u);
  EXPECT_NE(to_text(check_table(slow)).find("assumed: there are none"), std::string::npos);
  const CheckResult near = against(collect({dir_.path / "near"}, {}));
  EXPECT_EQ(near.count("cannot tell"), 1u);
  EXPECT_TRUE(near.undecided());
  EXPECT_FALSE(near.regressed());
}

TEST_F(Check, WhatRanBeforeAndFailsIsARegressionAndWhatDidNotRunIsSaid) {
  append_reference(file_, entries_of(results("before", {})));
  const ReportData whole = results("after", {});
  std::vector<ReferenceRun> runs = entries_of(whole);
  const std::string failed = runs[0].experiment, absent = runs[3].experiment;
  std::erase_if(runs,
                [&](const ReferenceRun& r) { return r.experiment == failed || r.experiment == absent; });
  const CheckResult c = check(runs, {{failed, "s0: crash"}}, read_reference(file_), file_, 0.05);
  EXPECT_TRUE(c.regressed());
  EXPECT_EQ(c.count("failed"), 1u);
  EXPECT_EQ(c.specifications[0].change.label, "s0: crash");
  EXPECT_EQ(c.count("not run"), 1u);
  EXPECT_FALSE(check(runs, {}, read_reference(file_), file_, 0.05).regressed());
}

TEST_F(Check, AnUpdateIsWhatCountsAndTheOldOnesAreHistory) {
  append_reference(file_, entries_of(results("one", {})));
  append_reference(file_, entries_of(results("two", {1.5})));
  const Reference r = read_reference(file_);
  EXPECT_EQ(r.updates(), 2);
  EXPECT_EQ(r.runs.size(), 60u);
  EXPECT_FALSE(against(results("three", {1.5})).regressed());
  EXPECT_EQ(against(results("four", {})).count("faster"), 1u);
  const std::string csv = to_csv(history_table(r, entries_of(results("five", {}))));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 60 + 30);
  EXPECT_NE(csv.find("0123abc"), std::string::npos) << csv.substr(0, 300);
  const std::vector<ReferenceRun> now = entries_of(results("seven", {1.5, 1.4}));
  const CheckResult c = check(now, {}, r, file_, 0.05);
  const std::vector<Figure> drawn = history_figures(c, r, now);
  ASSERT_EQ(drawn.size(), 1u);
  const nlohmann::json rows = drawn[0].spec["data"]["values"];
  ASSERT_EQ(rows.size(), 30u);  // ten specifications, three updates: repetitions are merged
  int slower = 0;
  for (const nlohmann::json& row : rows) {
    if (row["verdict"] != "slower" || !row["now"]) continue;
    ++slower;
    EXPECT_NEAR(row["change"].get<double>(), 0.4, 0.05) << row;  // against the first update
  }
  EXPECT_EQ(slower, 1);
  // A specification that the second update left out keeps the first one's times
  MadeUpResults one(dir_.path / "six", rng_());
  one.write_timed("x", MadeUpResults::spec(1, "none", 5), 0.12, 0.01);
  append_reference(file_, entries_of(collect({dir_.path / "six"}, {})));
  EXPECT_EQ(read_reference(file_).latest("Some CPU").size(), 10u);
}

TEST_F(Check, WhatCannotBeComparedIsRefused) {
  const ReportData d = results("before", {});
  append_reference(file_, entries_of(d));
  std::vector<ReferenceRun> runs = entries_of(d);
  for (ReferenceRun& r : runs) r.cpu = "Another CPU";
  const auto checked = [&] { check(runs, {}, read_reference(file_), file_, 0.05); };
  std::string said = refusal(checked);
  EXPECT_NE(said.find("Another CPU"), std::string::npos) << said;
  EXPECT_NE(said.find("it is of Some CPU"), std::string::npos) << said;
  runs[0].cpu = "Some CPU";
  EXPECT_NE(refusal(checked).find("one kind of processor"), std::string::npos);
  runs = entries_of(d);
  for (ReferenceRun& r : runs)
    r.statistic = r.statistic == Statistic::min ? Statistic::median : Statistic::min;
  EXPECT_NE(refusal(checked).find("add --statistic"), std::string::npos) << refusal(checked);

  const std::string whole = read_file(file_);
  for (const auto& [line, words] : std::vector<std::pair<std::string, std::string>>{
           {"{", "line 1"},
           {"[]", "line 1"},
           {R"({"experiment": "x"})", "label"},
           {R"({"experiment":"x","label":"x","step_s":-1,"cpu":"x","statistic":"p10","update":1})", "step_s"},
           {R"({"experiment":"x","label":"x","step_s":1,"cpu":"x","statistic":"p11","update":1})",
            "statistic"},
           {R"({"experiment":"x","label":"x","step_s":1,"cpu":"x","statistic":"p10","update":1,"noise":{}})",
            "variance"}}) {
    write_atomically(file_, line + "\n" + whole);
    said = refusal([&] { read_reference(file_); });
    EXPECT_NE(said.find(words), std::string::npos) << line << ": " << said;
    EXPECT_NE(said.find("reference.jsonl"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace isobar::report
