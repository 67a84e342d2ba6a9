// A measured step and its prediction in one trace, read with a parser that the writer does not use.
#include "reports/comparison/side_by_side.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "model/base/error.h"
#include "model/trace/chrome.h"
#include "perfmodel/fitting/fit.h"
#include "tests/paths.h"
#include "tests/reports/fixture.h"

namespace isobar::report {
namespace {

using nlohmann::json;

const std::string kMachine = source_dir() + "/configs/machines/example-2core.yaml";

// Three steps of all ranks with random op durations; rank r enters each step r * 2 us late.
void write_made_up_trace(const std::filesystem::path& file, const RunSpec& spec, std::mt19937_64& rng) {
  std::vector<plan::Plan> plans;
  std::vector<plan::Program> programs;
  std::vector<trace::Timeline> timelines(static_cast<size_t>(spec.layout.world()));
  for (int rank = 0; rank < spec.layout.world(); ++rank) {
    plans.push_back(nets::build_plan(spec, rank, {}));
    programs.push_back(nets::link_step(spec, plans.back()));
  }
  for (int rank = 0; rank < spec.layout.world(); ++rank) {
    trace::Timeline& t = timelines[static_cast<size_t>(rank)];
    int64_t now = 2'000 * rank;
    for (int32_t step = 0; step < 3; ++step) {
      const int64_t begin = now;
      const plan::Program& program = programs[static_cast<size_t>(rank)];
      for (size_t i = 0; i < program.instrs.size(); ++i) {
        const plan::Instr& instr = program.instrs[i];
        const auto took = static_cast<int64_t>(1 + rng() % 5'000);
        t.spans.push_back(
            {rank, step, static_cast<int32_t>(i), instr.op, instr.micro, instr.lane, now, now + took});
        now += took;
      }
      t.steps.push_back({rank, step, begin, now + 500});
      now += 700;
    }
  }
  std::vector<trace::RankTrace> traces;
  for (size_t r = 0; r < plans.size(); ++r) traces.push_back({&timelines[r], &plans[r], &programs[r]});
  trace::write_chrome_trace(file, traces);
}

class Beside : public testing::Test {
 protected:
  ReportData traced(const RunSpec& spec) {
    MadeUpResults made(dir_.path, seed_);
    made.write_run("run1", spec, {});
    std::mt19937_64 rng(seed_);
    write_made_up_trace(trace(), spec, rng);
    return collect({dir_.path}, {.machine = kMachine});
  }
  std::filesystem::path trace() const { return dir_.path / "trials/run1/trace.json"; }
  json written(const ReportData& d) const {
    side_by_side(d, {}).write(dir_.path / "both.json");
    std::ifstream in(dir_.path / "both.json");
    return json::parse(in);
  }

  TempDir dir_;
  const uint64_t seed_ = std::random_device{}();
};

// Slices by rank and track name ("compute, measured").
std::map<std::pair<int, std::string>, std::vector<json>> slices_of(const json& trace) {
  std::map<std::pair<int, int>, std::string> names;
  for (const json& e : trace.at("traceEvents"))
    if (e.at("name") == "thread_name") names[{e.at("pid"), e.at("tid")}] = e.at("args").at("name");
  std::map<std::pair<int, std::string>, std::vector<json>> out;
  for (const json& e : trace.at("traceEvents"))
    if (e.at("ph") == "X") out[{e.at("pid"), names.at({e.at("pid"), e.at("tid")})}].push_back(e);
  return out;
}

TEST_F(Beside, EveryTrackHasItsTwinWithTheSameOps) {
  SCOPED_TRACE(seed_);
  RunSpec spec = MadeUpResults::spec(2, "none", 0);
  spec.net.vit().depth = 2;
  for (const int64_t pp : {1, 2}) {
    SCOPED_TRACE(pp);
    spec.layout.dp = 2;
    spec.layout.pp = pp;
    spec.policy.micro_batch = 2;
    const ReportData d = traced(spec);
    const json both = written(d);
    const trace::TraceFile was = trace::read_chrome_trace(trace());
    const int32_t step = side_by_side(d, {}).step;
    const auto slices = slices_of(both);
    size_t measured = 0;
    for (const auto& [track, own] : slices) {
      const auto& [rank, name] = track;
      if (!name.ends_with(", measured")) continue;
      measured += own.size();
      const auto twin = slices.find({rank, name.substr(0, name.find(',')) + ", predicted"});
      ASSERT_NE(twin, slices.end()) << rank << " " << name;
      std::multiset<std::string> ours, theirs;
      for (const json& e : own) ours.insert(e.at("name").get<std::string>());
      for (const json& e : twin->second) theirs.insert(e.at("name").get<std::string>());
      EXPECT_EQ(ours, theirs) << rank << " " << name;
      if (name == "step, measured") {
        ASSERT_EQ(own.size(), 1u);
        EXPECT_EQ(own[0].at("name"), "step " + std::to_string(step));
        EXPECT_EQ(own[0].at("ts"), twin->second.at(0).at("ts"));  // relative to the rank's own begin
        EXPECT_NEAR(twin->second[0].at("dur").get<double>(), 1e6 * d.runs[0].prediction->step_s, 2e-3);
        for (const trace::StepTime& s : was.steps)
          if (s.rank == rank && s.step == step) {
            EXPECT_NEAR(own[0].at("dur").get<double>(), 1e-3 * static_cast<double>(s.end_ns - s.begin_ns),
                        1e-6);
          }
      }
    }
    const trace::TraceFile read = trace::read_chrome_trace(dir_.path / "both.json");
    EXPECT_EQ(read.spans.size() + read.steps.size(), measured);  // predicted tracks are left out
    EXPECT_EQ(read.steps.size(), static_cast<size_t>(2 * pp));
    int64_t sum = 0, sum_was = 0;
    for (const trace::OpSpan& s : read.spans) sum += s.end_ns - s.begin_ns;
    for (const trace::OpSpan& s : was.spans)
      if (s.step == step) sum_was += s.end_ns - s.begin_ns;
    EXPECT_EQ(sum, sum_was);
  }
}

// One rank that reads its own data, with zero step overhead: the prediction consists of ops only.
TEST_F(Beside, PredictedSpansAddUpToThePrediction) {
  SCOPED_TRACE(seed_);
  ReportData d = traced(MadeUpResults::spec(1, "none", 0));
  (*d.predictor)[perf::Coef::step].value = 0;
  const double step_s =
      perf::predict(records::spec_as_run(d.runs[0].run), *d.predictor, options_of(d.runs[0])).step_s;
  const auto slices = slices_of(written(d));
  double sum = 0;
  size_t spans = 0;
  for (const auto& [track, own] : slices)
    if (track.second.ends_with(", predicted") && track.second != "step, predicted")
      for (const json& e : own) {
        sum += 1e-6 * e.at("dur").get<double>();
        ++spans;
      }
  ASSERT_GT(spans, 20u);
  EXPECT_NEAR(sum, step_s, 1e-9 * static_cast<double>(spans));  // times of the file are whole nanoseconds
}

// A measured op carries the mean predicted time of that op.
TEST_F(Beside, MeasuredOpsSayWhatWasPredicted) {
  SCOPED_TRACE(seed_);
  const auto slices = slices_of(written(traced(MadeUpResults::spec(2, "none", 0))));
  std::map<std::string, std::pair<double, int>> predicted;
  for (const auto& [track, own] : slices)
    if (track.first == 1 && track.second.ends_with(", predicted"))
      for (const json& e : own) {
        predicted[e.at("name")].first += e.at("dur").get<double>();
        ++predicted[e.at("name")].second;
      }
  int seen = 0;
  for (const auto& [track, own] : slices)
    if (track.first == 1 && track.second.ends_with(", measured") && track.second != "step, measured")
      for (const json& e : own) {
        const auto& [sum, count] = predicted.at(e.at("name"));
        EXPECT_NEAR(e.at("args").at("predicted_us").get<double>(), sum / count, 2e-3) << e;
        ++seen;
      }
  EXPECT_GT(seen, 20);
}

TEST_F(Beside, WhatCannotBeShownIsRefused) {
  const auto refusal = [](const ReportData& d) {
    try {
      side_by_side(d, {});
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  const RunSpec spec = MadeUpResults::spec(1, "none", 0);
  ReportData d = traced(spec);
  EXPECT_EQ(refusal(d), "taken");
  std::string text = read_file(trace());
  const std::string op = "\"path\":\"" + nets::build_plan(spec, 0, {}).ops.at(3).path + "\"";
  const std::string other = "\"path\":\"of/another/net\"";
  for (size_t at = 0; (at = text.find(op, at)) != std::string::npos; at += other.size())
    text.replace(at, op.size(), other);
  write_atomically(trace(), text);
  EXPECT_NE(refusal(d).find("of/another/net of rank 0, which the run's plan does not have"),
            std::string::npos)
      << refusal(d);
  std::filesystem::remove(trace());
  EXPECT_NE(refusal(d).find("no run has a trace.json"), std::string::npos) << refusal(d);
  d.predictor.reset();
  EXPECT_NE(refusal(d).find("--machine"), std::string::npos) << refusal(d);
}

}  // namespace
}  // namespace isobar::report
