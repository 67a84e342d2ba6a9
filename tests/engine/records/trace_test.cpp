// Trace of a real run of two ranks: valid Chrome trace JSON, every op of the traced steps once, and at least
// 98 % of the step attributed, by the analyser and by an independent count.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "model/backend/cpu/cpu_backend.h"
#include "model/nets/build.h"
#include "tests/engine/command.h"
#include "tests/paths.h"
#include "tests/trace/analyse.h"

namespace isobar::engine {
namespace {

double median_of(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

constexpr int kSteps = 14, kTraced = 10;
const std::string kDemo = source_dir() + "/configs/models/vit-demo.yaml";
const Words kSet = {"train.steps=14", "run.threads=1", "policy.bucket_mb=0.5", "policy.micro_batch=2"};

json trace_of_two_ranks() {
  const Folder dir;
  const Ended e = Child(train_words(kDemo, kSet, {"--ranks", "2", "--trace", dir / "trace.json"})).wait();
  EXPECT_EQ(e.code, 0) << e.text;
  return json::parse(text_of(dir / "trace.json"), nullptr, false);
}

// The Trace Event Format as Perfetto's importer reads it.
TEST(TraceOfTwoRanks, PassesAnIndependentSchemaCheck) {
  const json trace = trace_of_two_ranks();
  ASSERT_TRUE(trace.is_object());
  ASSERT_TRUE(trace["traceEvents"].is_array());
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> slices;
  std::map<int64_t, std::vector<const json*>> flows;
  std::set<std::pair<int, int>> named, used;
  std::set<int> processes;
  for (const json& e : trace["traceEvents"]) {
    ASSERT_TRUE(e.is_object() && e.at("ph").is_string() && e.at("name").is_string()) << e;
    ASSERT_TRUE(e.at("pid").is_number_integer() && e.at("tid").is_number_integer()) << e;
    const std::pair<int, int> thread{e["pid"], e["tid"]};
    const std::string ph = e["ph"];
    if (ph == "M") {
      ASSERT_TRUE(e.at("args").is_object()) << e;
      if (e["name"] == "thread_name") named.insert(thread);
      if (e["name"] == "process_name") processes.insert(thread.first);
      continue;
    }
    used.insert(thread);
    ASSERT_TRUE(e.at("ts").is_number() && e["ts"].get<double>() >= 0) << e;
    ASSERT_TRUE(e.at("cat").is_string()) << e;
    if (ph == "X") {
      ASSERT_TRUE(e.at("dur").is_number() && e["dur"].get<double>() >= 0) << e;
      slices[thread].emplace_back(e["ts"], e["ts"].get<double>() + e["dur"].get<double>());
    } else {
      ASSERT_TRUE(ph == "s" || ph == "f") << e;
      ASSERT_TRUE(e.at("id").is_number_integer()) << e;
      flows[e["id"]].push_back(&e);
    }
  }
  EXPECT_EQ(processes, (std::set<int>{0, 1}));
  EXPECT_EQ(named, used);
  for (auto& [thread, list] : slices) {
    std::sort(list.begin(), list.end());
    for (size_t i = 1; i < list.size(); ++i)
      EXPECT_GE(list[i].first, list[i - 1].second - 2e-3) << "slices of one track overlap";
  }
  EXPECT_FALSE(flows.empty());
  for (const auto& [id, ends] : flows) {
    ASSERT_EQ(ends.size(), 2u) << "flow " << id;
    const bool forward = (*ends[0])["ph"] == "s";
    const json &from = *ends[forward ? 0 : 1], &to = *ends[forward ? 1 : 0];
    EXPECT_EQ(from["ph"], "s");
    EXPECT_EQ(to["ph"], "f");
    EXPECT_EQ(from["pid"], to["pid"]);
    EXPECT_NE(from["tid"], to["tid"]);
    EXPECT_LE(from["ts"].get<double>(), to["ts"].get<double>() + 2e-3);
  }
}

/// Checks that every op of the traced steps occurs once; returns the attributed share of the median step on
/// the rank that has less.
void account(const json& trace, double& analysed_share, double& counted_share) {
  analysed_share = counted_share = 1;
  Words overrides = kSet;
  overrides.emplace_back("layout.dp=2");
  const RunSpec spec = load_run_spec(kDemo, overrides);
  for (int rank = 0; rank < 2; ++rank) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const plan::Plan plan = nets::build_plan(spec, rank, cpu_workspace(1));
    const plan::Program program = plan::link(plan, plan.train);
    // Instruction of a slice: path and micro-batch identify it within a step.
    std::map<std::pair<std::string, int64_t>, int32_t> instr_of;
    for (size_t i = 0; i < program.instrs.size(); ++i)
      ASSERT_TRUE(instr_of
                      .emplace(std::pair(plan.ops[program.instrs[i].op].path, program.instrs[i].micro),
                               static_cast<int32_t>(i))
                      .second);
    trace::Timeline timeline;
    std::map<int64_t, std::set<int32_t>> seen;
    std::map<int64_t, std::vector<std::pair<double, double>>> busy;  // of any lane
    std::map<int64_t, std::pair<double, double>> steps;
    for (const json& e : trace["traceEvents"]) {
      if (e["ph"] != "X" || e["pid"] != rank) continue;
      const double ts = e["ts"], end = ts + e["dur"].get<double>();
      const int32_t step = e["args"]["step"];
      const auto ns = [](double us) { return static_cast<int64_t>(std::llround(us * 1000)); };
      if (e["cat"] == "step") {
        steps[step] = {ts, end};
        timeline.steps.push_back({rank, step, ns(ts), ns(end)});
        continue;
      }
      const auto at = instr_of.find({e["args"]["path"], e["args"]["micro"]});
      ASSERT_NE(at, instr_of.end()) << e;
      const plan::Instr& instr = program.instrs[at->second];
      EXPECT_EQ(e["tid"], static_cast<int>(instr.lane));
      EXPECT_TRUE(seen[step].insert(at->second).second) << "twice: " << e;
      busy[step].emplace_back(ts, end);
      timeline.spans.push_back({rank, step, at->second, instr.op, instr.micro, instr.lane, ns(ts), ns(end)});
    }
    ASSERT_EQ(steps.size(), static_cast<size_t>(kTraced));
    EXPECT_EQ(steps.begin()->first, kSteps - kTraced);
    ASSERT_EQ(seen.size(), steps.size());
    for (const auto& [step, instrs] : seen)
      EXPECT_EQ(instrs.size(), program.instrs.size()) << "step " << step;

    trace::Analyser analyser(plan, program);
    analyser.add(timeline);
    std::vector<double> analysed, counted;
    for (const trace::StepSplit& s : analyser.steps()) {
      analysed.push_back(s.coverage() + s.moving_s / s.step_s);
      EXPECT_EQ(s.too_early, 0) << "an op began before what it must wait for had ended";
    }
    for (auto& [step, intervals] : busy) {  // union of all lanes
      std::sort(intervals.begin(), intervals.end());
      double covered = 0, end = steps[step].first;
      for (auto [a, b] : intervals) {
        a = std::max(a, end);
        b = std::min(b, steps[step].second);
        if (b > a) covered += b - a, end = b;
      }
      counted.push_back(covered / (steps[step].second - steps[step].first));
    }
    ASSERT_EQ(analysed.size(), static_cast<size_t>(kTraced));
    std::printf("rank %d: %.2f %% of the median step accounted for (%.2f %% counted over all lanes)\n", rank,
                100 * median_of(analysed), 100 * median_of(counted));
    analysed_share = std::min(analysed_share, median_of(analysed));
    counted_share = std::min(counted_share, median_of(counted));
  }
}

TEST(TraceOfTwoRanks, HoldsEveryOpOfTheTracedStepsOnceAndAccountsFor98Percent) {
  double analysed = 0, counted = 0;
  // Executor losses occur in every attempt, losses to other load only in some; so the best attempt counts.
  for (int attempt = 0; attempt < (kSanitized ? 1 : 8) && std::min(analysed, counted) < 0.98; ++attempt) {
    const json trace = trace_of_two_ranks();
    ASSERT_TRUE(trace.is_object());
    ASSERT_NO_FATAL_FAILURE(account(trace, analysed, counted));
  }
  if (kSanitized) return;  // sanitizers slow down the executor
  EXPECT_GE(analysed, 0.98);
  EXPECT_GE(counted, 0.98);
}

// Share of the median step that spans cover.
void cover_one_lane(double& share) {
  const Folder dir;
  const Ended e =
      Child(train_words(source_dir() + "/configs/models/vit-demo.yaml",
                        {"train.steps=8", "run.threads=1", "run.serial=true"}, {"--trace", dir / "t.json"}))
          .wait();
  ASSERT_EQ(e.code, 0) << e.text;
  const json trace = json::parse(text_of(dir / "t.json"));
  std::map<int64_t, double> spent, step;
  for (const json& x : trace["traceEvents"]) {
    if (x["ph"] != "X") continue;
    (x["cat"] == "step" ? step : spent)[x["args"]["step"]] += x["dur"].get<double>();
  }
  ASSERT_EQ(step.size(), 8u);
  std::vector<double> shares;
  shares.reserve(step.size());
  for (const auto& [n, us] : step) shares.push_back(spent[n] / us);
  share = median_of(shares);
}

TEST(TraceOfOneRank, CoversTheStepOnOneLane) {
  double share = 0;  // the best attempt counts, as above
  for (int attempt = 0; attempt < (kSanitized ? 1 : 8) && share < 0.98; ++attempt)
    ASSERT_NO_FATAL_FAILURE(cover_one_lane(share));
  if (!kSanitized) EXPECT_GE(share, 0.98);
}

}  // namespace
}  // namespace isobar::engine
