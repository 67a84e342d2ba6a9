// Shared rows and timeline marks against independent brute-force definitions.
#include "reports/figures/chart_data.h"

#include <gtest/gtest.h>

#include "reports/figures/figures.h"
#include "reports/timeline.h"
#include "tests/reports/fixture.h"

namespace isobar::report {
namespace {

using nlohmann::json;

TEST(ChartData, FrontHoldsExactlyTheRunsThatNothingBeats) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  ReportData d;
  d.sets = {"only"};
  for (int i = 0; i < 300; ++i) {
    ReportRun r;
    r.set = "only";
    r.run.id = std::to_string(i);
    r.run.run_class = records::RunClass::ok;
    r.run.ranks = 1 << (rng() % 4);
    r.run.step_s.median = 0.01 + 0.001 * static_cast<double>(rng() % 50);  // ties happen
    r.run.spec.train.global_batch = 8;
    r.run.peak_rss_bytes = static_cast<int64_t>(1'000'000 * (50 + rng() % 40));
    d.runs.push_back(r);
  }
  const json rows = chart_data(d).rows;
  ASSERT_EQ(rows.size(), 300u);
  size_t on_front = 0;
  for (size_t i = 0; i < 300; ++i) {
    const auto values = [&](size_t k) {
      const records::RunRecord& r = d.runs[k].run;
      return std::array<double, 3>{1 / r.rate(kStatistic), static_cast<double>(r.peak_rss_bytes),
                                   static_cast<double>(r.ranks) / r.rate(kStatistic)};
    };
    bool beaten = false;
    for (size_t k = 0; k < 300; ++k) {
      const auto a = values(k), b = values(i);
      beaten = beaten || (a != b && a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2]);
    }
    if (!beaten) ++on_front;
    // At least one of several runs with equal time, memory and cost is on the front.
    if (rows[i]["front"] == "on the front") {
      EXPECT_FALSE(beaten) << i;
    }
  }
  size_t said = 0;
  for (const json& row : rows) said += row["front"] == "on the front";
  EXPECT_GE(said, 1u);
  EXPECT_LE(said, on_front);
}

// Effects compare only runs that agree in all other settings. Averaging over precisions would show an effect
// here, because one value has an additional run.
TEST(ChartData, EffectsCompareRunsThatDifferInOneSettingAlone) {
  ReportData d;
  d.sets = {"only"};
  const auto add = [&](const char* amp, const char* workers, double step) {
    ReportRun r;
    r.set = "only";
    r.run.id = std::to_string(d.runs.size());
    r.run.run_class = records::RunClass::ok;
    r.run.step_s.median = step;
    r.run.spec.train.global_batch = 8;
    r.axes = {{"policy.amp", amp}, {"data.workers", workers}};
    r.prediction = RunPrediction{};
    r.prediction->step_s = 2 * step;
    d.runs.push_back(r);
  };
  add("none", "10", 0.08);
  add("none", "2", 0.10);
  add("none", "2", 0.12);  // a repetition: the mean is 0.11
  add("bf16", "2", 0.05);
  add("bf16", "10", 0.04);
  add("tf32", "10", 0.07);  // no run to compare with
  EXPECT_EQ(values_of(d, "data.workers"), (std::vector<std::string>{"2", "10"}));
  EXPECT_EQ(values_of(d, "policy.amp"), (std::vector<std::string>{"none", "tf32", "bf16"}));
  const json rows = chart_data(d).rows;
  const double expected[] = {0.11 / 0.08, 0.11 / 0.10, 0.11 / 0.12, 1, 0.05 / 0.04};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(rows[i]["gain_workers"].get<double>(), expected[i], 1e-5) << i;
    EXPECT_NEAR(rows[i]["predicted_gain_workers"].get<double>(), expected[i], 1e-5) << i;
  }
  EXPECT_FALSE(rows[5].contains("gain_workers"));
  EXPECT_EQ(rows[0]["line_workers"], rows[2]["line_workers"]);
  EXPECT_NE(rows[0]["line_workers"], rows[3]["line_workers"]);
  EXPECT_NEAR(rows[4]["gain_amp"].get<double>(), 0.08 / 0.04, 1e-5);
  d.runs[2].run.contention.scattered = true;  // a contended repetition is excluded
  EXPECT_NEAR(chart_data(d).rows[0]["gain_workers"].get<double>(), 0.10 / 0.08, 1e-5);
}

TEST(ChartData, ColumnsAreTheRowsAgain) {
  const json rows = {{{"a", 1}, {"b", "x"}}, {{"b", "y"}}, {{"a", 3}, {"c", true}}};
  const json columns = columns_of(rows);
  EXPECT_EQ(columns,
            (json{{"a", {1, nullptr, 3}}, {"b", {"x", "y", nullptr}}, {"c", {nullptr, nullptr, true}}}));
}

TEST(ChartData, FiguresCarryTheFieldsThatTheySpeakOfAndNoOthers) {
  TempDir dir;
  MadeUpResults(dir.path).write_sweep();
  const ReportData d = collect({dir.path}, {});
  const ChartData s = chart_data(d);
  std::vector<std::string> problems;
  for (const Figure& f : figures(d, s, problems)) {
    const json spec = self_contained(f, s);
    if (!f.of_runs()) continue;
    const std::string text = f.spec.dump();
    for (const json& row : spec["datasets"]["runs"])
      for (const auto& [field, value] : row.items())
        EXPECT_NE(text.find(field), std::string::npos) << f.id << " " << field;
    EXPECT_TRUE(spec["datasets"]["runs"][0].contains("run")) << f.id;
  }
}

TEST(Timeline, MarksAreWhatTheDefinitionsSayAtEveryMoment) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 rng(seed);
  const int kStep = 1000;  // whole milliseconds, so that each can be checked
  for (int round = 0; round < 20; ++round) {
    std::vector<trace::OpSpan> spans;
    const auto add = [&](int rank, plan::Lane lane, const char* kind, int begin, int end) {
      spans.push_back(
          {{rank, 0, -1, -1, 0, lane, begin * int64_t{1000000}, end * int64_t{1000000}}, "op", kind});
    };
    for (int rank = 0; rank < 3; ++rank) {
      for (int at = 0; at < kStep;) {
        const int begin = at + static_cast<int>(rng() % 30),
                  end = std::min<int>(kStep, begin + 1 + rng() % 60);
        if (begin >= kStep) break;
        add(rank, plan::Lane::compute, rng() % 8 == 0 ? "fetch" : "gemm", begin, end);
        at = end;
      }
      for (const plan::Lane lane : {plan::Lane::dp, plan::Lane::tp})
        for (int at = static_cast<int>(rng() % 50); at < kStep;) {
          const int end = std::min<int>(kStep, at + 1 + rng() % 80);
          add(rank, lane, "all_reduce", at, end);
          at = end + static_cast<int>(rng() % 100);
        }
    }
    const StepTimeline t = marked(spans, kStep);
    EXPECT_EQ(t.ranks, 3);
    double exposed = 0, idle = 0;
    for (int rank = 0; rank < 3; ++rank) {
      int gap = 0;
      for (int ms = 0; ms <= kStep; ++ms) {
        bool computing = false, communicating = false, busy = false;
        for (const trace::OpSpan& s : spans)
          if (s.rank == rank && ms < kStep && s.begin_ns <= ms * 1000000l && ms * 1000000l < s.end_ns) {
            computing = computing || s.kind == "gemm";
            communicating = communicating || s.kind == "all_reduce";
            busy = busy || s.lane == plan::Lane::compute;
          }
        if (ms < kStep) exposed += communicating && !computing;
        if (ms < kStep && !busy) {
          ++gap;
        } else {
          idle += gap >= 2 ? gap : 0;  // gaps shorter than 0.2 % of the step are not marked
          gap = 0;
        }
      }
    }
    EXPECT_NEAR(t.exposed_ms, exposed / 3, 1e-6);
    EXPECT_NEAR(t.idle_ms, idle / 3, 1e-6);
    double hidden_and_exposed = 0, of_collectives = 0;
    for (const Segment& s : t.segments)
      if (s.what.starts_with("communication")) hidden_and_exposed += s.end_ms - s.begin_ms;
    for (const trace::OpSpan& s : spans)
      if (s.kind == "all_reduce") of_collectives += 1e-6 * static_cast<double>(s.end_ns - s.begin_ns);
    EXPECT_NEAR(hidden_and_exposed, of_collectives, 1e-6);
  }
}

}  // namespace
}  // namespace isobar::report
