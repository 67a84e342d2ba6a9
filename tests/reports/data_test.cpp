#include "reports/data.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "model/base/error.h"
#include "perfmodel/machine/machine.h"
#include "reports/figures/figures.h"
#include "reports/story.h"
#include "reports/style/palette.h"
#include "reports/tables/report_tables.h"
#include "tests/paths.h"
#include "tests/reports/fixture.h"

namespace isobar::report {
namespace {

TEST(ReportData, JoinsRunsWithTheirPredictionsById) {
  TempDir dir;
  MadeUpResults(dir.path).write_sweep();
  const ReportData d = collect({dir.path}, {});
  EXPECT_EQ(d.runs.size(), 13u);
  EXPECT_EQ(d.ok().size(), 12u);
  ASSERT_EQ(d.failed().size(), 1u);
  EXPECT_EQ(d.failed()[0]->run.id, "run900");
  EXPECT_EQ(d.machine, "made-up");
  EXPECT_TRUE(d.problems.empty()) << d.problems[0];
  const auto holdout = nlohmann::json::parse(read_file(dir.path / "holdout.json"))["runs"];
  ASSERT_EQ(d.predicted().size(), holdout.size());
  std::vector<double> errors;
  double inside = 0;
  for (const auto& row : holdout) {
    for (const ReportRun* r : d.predicted()) {
      if (r->run.id != row["id"]) continue;
      EXPECT_DOUBLE_EQ(r->prediction->step_s, row["predicted_s"].get<double>());
      EXPECT_EQ(r->prediction->in_fit, row["in_fit"].get<bool>());
      EXPECT_EQ(r->prediction->terms.size(), 4u);
      EXPECT_NEAR(r->measured(), row["measured_s"].get<double>(), 1e-12);
    }
    if (row["in_fit"] == true) continue;
    const double m = row["measured_s"], p = row["predicted_s"];
    errors.push_back(std::abs(p - m) / m);
    inside += row["lo_s"] <= m && m <= row["hi_s"];
  }
  std::sort(errors.begin(), errors.end());
  const Score s = d.score(false);
  EXPECT_EQ(s.runs, 6u);
  EXPECT_NEAR(s.median_error, (errors[2] + errors[3]) / 2, 1e-9);
  EXPECT_NEAR(s.coverage, inside / 6, 1e-9);
}

TEST(ReportData, StoredPredictionsMayUseEarlierNamesOfTerms) {
  TempDir dir;
  write_atomically(dir.path / "holdout.json", R"({"machine": "m", "runs": [{"id": "a", "predicted_s": 2,
    "lo_s": 1, "hi_s": 3, "terms": {"row arithmetic": 0.5, "data parallelism, not hidden": 0.5, "norms": 1}}]})");
  const HoldoutFile stored = read_holdout(dir.path / "holdout.json");
  std::vector<std::string> names;
  for (const auto& [name, seconds] : stored.predictions.at("a").terms) {
    names.push_back(name);
    EXPECT_NE(palette::colour_of(name), palette::colour_of("other")) << name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"exposed DP communication", "norms", "vector arithmetic"}));
}

// The statistic that was fitted is used for measuring, ranking, drawing and printing.
TEST(ReportData, TheStatisticOfTheFitIsThatOfEveryNumber) {
  TempDir dir;
  MadeUpResults(dir.path).write_sweep();
  auto holdout = nlohmann::json::parse(read_file(dir.path / "holdout.json"));
  holdout["statistic"] = "p10";
  write_atomically(dir.path / "holdout.json", holdout.dump());
  const ReportData d = collect({dir.path}, {});
  EXPECT_EQ(d.statistic, Statistic::p10);
  // isobar check reads no predictions and uses the statistic of its reference
  const ReportData bare = collect({dir.path}, {.holdout = false, .statistic = Statistic::median});
  EXPECT_EQ(bare.statistic, Statistic::median);
  EXPECT_TRUE(bare.predicted().empty());
  EXPECT_THROW(collect({dir.path}, {.statistic = Statistic::median}), ConfigError);
  for (const ReportRun* r : d.ok()) {
    EXPECT_DOUBLE_EQ(r->measured(), r->run.step_s.p10);
    EXPECT_DOUBLE_EQ(r->rate(), static_cast<double>(r->run.spec.train.global_batch) / r->run.step_s.p10);
    EXPECT_LT(r->measured_lower(), r->measured());
    EXPECT_GT(r->measured_upper(), r->measured());
  }
  const std::string title = title_of(Statistic::p10);
  const Table runs = runs_table(d);
  EXPECT_NE(runs.note.find(title), std::string::npos) << runs.note;
  const double batch = static_cast<double>(d.ok()[0]->run.spec.train.global_batch);
  for (const auto& row : runs.rows)
    EXPECT_NEAR(row[3].value * row[4].value, 1e3 * batch, 1e-6) << "rate and step are of two statistics";
  for (const Sentence& s : story(d, {}))
    if (s.head == "Best layout" || s.head == "What the predictor got wrong") {
      EXPECT_NE(s.text.find(title), std::string::npos) << s.text;
    }
  std::vector<std::string> problems;
  for (const Figure& f : figures(d, chart_data(d), problems)) {
    const std::string all = f.spec.dump();
    if (all.find("\"measured\"") != std::string::npos || all.find("\"rate\"") != std::string::npos) {
      EXPECT_NE((f.caption + all).find(title), std::string::npos) << f.id;
    }
  }
  EXPECT_THROW(collect({dir.path}, {.statistic = Statistic::min}), ConfigError);
  EXPECT_EQ(collect({dir.path}, {.statistic = Statistic::p10}).statistic, Statistic::p10);
}

TEST(ReportData, AdviceOnSlowRunsIsOnThePage) {
  TempDir dir;
  MadeUpResults made(dir.path);
  made.write_timed("calm", MadeUpResults::spec(1, "none", 0), 0.1, 0.01);
  const auto said = [&]() -> std::string {
    for (const Sentence& s : story(collect({dir.path}, {}), {}))
      if (s.head == "Advice") return s.text;
    return "";
  };
  EXPECT_EQ(said(), "");
  made.write_timed("slow", MadeUpResults::spec(1, "none", 2), 0.2, 0.01);
  SlowForItsLoader(dir.path / "trials/slow").steps(40);
  EXPECT_NE(said().find(std::string(": ") + SlowForItsLoader::kAdvice), std::string::npos) << said();
}

TEST(ReportData, ContendedRunsAreNamedAndKept) {
  TempDir dir;
  MadeUpResults made(dir.path);
  for (int i = 0; i < 8; ++i)
    made.write_timed("calm" + std::to_string(i), MadeUpResults::spec(1, "none", i), 0.02 + 0.001 * i, 0.01);
  made.write_timed("torn", MadeUpResults::spec(1, "none", 20), 0.02, 0.4);
  const ReportData d = collect({dir.path}, {});
  ASSERT_EQ(d.contended().size(), 1u);
  EXPECT_EQ(d.contended()[0]->run.id, "torn");
  EXPECT_EQ(d.ok().size(), 9u);
  EXPECT_NE(to_csv(runs_table(d)).find("contended"), std::string::npos);
  bool reported = false;
  for (const Sentence& s : story(d, {}))
    reported = reported || (s.head == "Disturbed or failed" && s.text.find("1 of 9") == 0);
  EXPECT_TRUE(reported);
  // A run with one step has the error of a single step, the others that of their statistic.
  for (const ReportRun* r : d.ok())
    EXPECT_EQ(r->measured_error > 0.1, r->run.id == "torn") << r->run.id << " " << r->measured_error;
}

TEST(ReportData, ThePageOfABusyMachineSaysSoFirst) {
  for (const auto& [scatter, taken] : {std::pair{0.01, 0.0}, {0.4, 0.0}, {0.01, 0.6}}) {
    const bool busy = scatter > 0.1 || taken > 0;
    TempDir dir;
    for (const char* set : {"a", "b"}) {
      MadeUpResults made(dir.path / set);
      for (int i = 0; i < 6; ++i)
        made.write_timed("run" + std::to_string(i), MadeUpResults::spec(1, "none", i), 0.02 + 0.001 * i,
                         scatter, 26, taken);
    }
    const ReportData d = collect({dir.path / "a", dir.path / "b"}, {});
    const std::vector<Sentence> said = story(d, compare(d));
    EXPECT_EQ(said.front().head == "Busy machine", busy) << said.front().text;
    EXPECT_EQ(said.front().text.find("had 60 % of the cores") != std::string::npos, taken > 0);
    for (const Sentence& s : said) {
      EXPECT_FALSE(busy && s.text.starts_with("Nothing: every run")) << s.text;
      EXPECT_FALSE(scatter > 0.1 && s.text.find("0.001") != std::string::npos) << s.text;
    }
  }
}

// Figures in large type are those of the tables; the first screen's sentences have at most 20 words.
TEST(ReportData, TheFirstScreenIsThreeFiguresAndShortSentences) {
  TempDir dir;
  MadeUpResults(dir.path / "a").write_sweep();
  MadeUpResults(dir.path / "b").write_sweep();
  for (const auto& dirs :
       {std::vector<std::filesystem::path>{dir.path / "a"}, {dir.path / "a", dir.path / "b"}}) {
    const ReportData d = collect(dirs, {});
    const std::vector<Comparison> comparisons = compare(d);
    const std::vector<Fact> facts = facts_of(d, comparisons);
    ASSERT_EQ(facts.size(), 3u);
    const Fact& speed = facts[comparisons.empty() ? 1 : 2];
    EXPECT_NEAR(std::stod(speed.value), d.best()->rate(), 1e-3 * d.best()->rate());
    EXPECT_NE(speed.value.find(" samples/s"), std::string::npos);
    if (comparisons.empty()) {
      EXPECT_EQ(facts[0].value, d.best()->name);
      EXPECT_NEAR(std::stod(facts[2].value), 100 * d.score(false).median_error, 0.06);
    } else {  // one set against itself
      EXPECT_EQ(facts[0].value == "as fast", comparisons[0].count(kAsFast) == comparisons[0].changes.size());
      EXPECT_TRUE(facts[1].value.starts_with("0 of ")) << facts[1].value;
    }
    for (const Sentence& s : story(d, comparisons)) {
      EXPECT_FALSE(s.brief.empty()) << s.head;
      std::istringstream words(s.brief);
      size_t n = 0;
      for (std::string word; words >> word;) {
        EXPECT_LE(++n, 20u) << s.brief;
        if (word.ends_with('.')) n = 0;
      }
    }
  }
}

TEST(ReportData, LabelsNameWhatVariesAndTellAllRunsApart) {
  TempDir dir;
  MadeUpResults made(dir.path);
  made.write_sweep();
  const nlohmann::json axes = {{"gpus", 1}, {"policy.amp", "none"}, {"data.workers", 0}};
  made.write_run("run500", MadeUpResults::spec(1, "none", 0), axes);  // a repetition of run100
  const ReportData d = collect({dir.path}, {});
  std::set<std::string> labels;
  for (const ReportRun& r : d.runs) labels.insert(r.label);
  EXPECT_EQ(labels.size(), d.runs.size());
  EXPECT_TRUE(labels.count("dp2 bf16 w1"));
  EXPECT_TRUE(labels.count("dp1 fp32 w0 #1"));
  EXPECT_TRUE(labels.count("dp1 fp32 w0 #2"));
}

TEST(ReportData, RunsOutsideOfASweepAreNamedByTheirDifferences) {
  TempDir dir;
  MadeUpResults made(dir.path);
  RunSpec a = MadeUpResults::spec(1, "none", 0), b = a;
  b.train.lr = 1e-3;
  b.run.out = "elsewhere";
  made.write_run("a", a, nlohmann::json::object());
  made.write_run("b", b, nlohmann::json::object());
  const ReportData d = collect({dir.path}, {});
  EXPECT_EQ(d.varied, std::vector<std::string>{"train.lr"});
  EXPECT_EQ(d.runs[1].label, "lr=0.001");
}

TEST(ReportData, PerfmodelPredictsStepsTermsAndOpsOfEveryRun) {
  TempDir dir;
  MadeUpResults(dir.path).write_sweep();
  perf::save_machine(
      perf::machine_from_spec("little",
                              {.host = "h",
                               .cpu = "c",
                               .isa = "avx2",
                               .cores = 2,
                               .memory_bytes = 8'000'000'000,
                               .cache_bytes = 16'000'000},
                              {{"f32", {5e10, {}}}, {"bf16", {5e10, {}}}, {"memory", {2e10, {}}}}),
      (dir.path / "machine.yaml").string());
  const ReportData d = collect({dir.path}, {.machine = dir.path / "machine.yaml"});
  EXPECT_TRUE(d.problems.empty()) << d.problems[0];
  EXPECT_EQ(d.machine, "little");
  ASSERT_EQ(d.predicted().size(), 12u);
  for (const ReportRun* r : d.predicted()) {
    double sum = 0;
    for (const auto& [name, seconds] : r->prediction->terms) sum += seconds;
    EXPECT_NEAR(sum, r->prediction->step_s, 1e-6 * sum);
  }
  const ReportRun* shown = ops_run(d);
  ASSERT_NE(shown, nullptr);
  for (const records::OpRecord& o : shown->run.ops)
    EXPECT_GT(shown->prediction->op_s.count(o.path), 0u) << o.path;
}

// A report's prediction equals that of `isobar predict`, on cores and accelerators.
TEST(ReportData, AReportPredictsWhatPredictAnswers) {
  const perf::Machine cores =
      perf::machine_from_spec("cores",
                              {.host = "h",
                               .cpu = "c",
                               .isa = "avx2",
                               .cores = 2,
                               .memory_bytes = 8'000'000'000,
                               .cache_bytes = 16'000'000},
                              {{"f32", {5e10, {}}}, {"bf16", {5e10, {}}}, {"memory", {2e10, {}}}});
  const perf::Machine gpus = perf::load_machine(source_dir() + "/configs/machines/dgx-a100.yaml");
  std::vector<double> steps;
  for (const auto& [device, machine] : {std::pair{"cpu", &cores}, {"cuda", &gpus}}) {
    SCOPED_TRACE(device);
    TempDir dir;
    RunSpec s = MadeUpResults::spec(2, "bf16", 0);
    s.run.device = *value_named<RunDevice>(device);
    s.run.threads = 1;
    MadeUpResults(dir.path).write_run("run1", s, {{"gpus", 2}});
    perf::save_machine(*machine, (dir.path / "machine.yaml").string());
    const ReportData d = collect({dir.path}, {.machine = dir.path / "machine.yaml"});
    ASSERT_EQ(d.predicted().size(), 1u) << (d.problems.empty() ? "" : d.problems[0]);
    const RunPrediction& reported = *d.predicted()[0]->prediction;
    const perf::Prediction p = perf::predict(s, *machine, {});
    EXPECT_DOUBLE_EQ(reported.step_s, p.step_s);
    EXPECT_DOUBLE_EQ(reported.lower, p.lower);
    EXPECT_DOUBLE_EQ(reported.upper, p.upper);
    EXPECT_EQ(reported.memory_total, p.memory_total);
    EXPECT_EQ(p.device, device == std::string("cuda") ? perf::Device::accelerator : perf::Device::cores);
    steps.push_back(reported.step_s);
  }
  EXPECT_NE(steps[0], steps[1]);
}

TEST(ReportData, OpLinesAreSumsPerStep) {
  TempDir dir;
  MadeUpResults(dir.path).write_sweep();
  const ReportData d = collect({dir.path}, {});
  const ReportRun* r = ops_run(d);
  ASSERT_NE(r, nullptr);
  EXPECT_EQ(r, d.best());
  double total = 0, flops = 0, line_total = 0, line_flops = 0;
  for (const records::OpRecord& o : r->run.ops) {
    total += o.seconds / 12;
    flops += o.flops / 12;
  }
  for (const OpLine& l : op_lines(d, *r, true)) {
    line_total += l.seconds;
    line_flops += l.flops;
    if (l.path == "block*/mlp/fc1/forward") {
      EXPECT_DOUBLE_EQ(l.count, 3);  // one of each of the three blocks
    }
  }
  EXPECT_NEAR(line_total, total, 1e-12);
  EXPECT_NEAR(line_flops, flops, 1e-6 * flops);
}

TEST(ReportData, TheFastestRunsRanksAreToldWithTheirEnergy) {
  TempDir dir;
  MadeUpResults(dir.path).write_sweep();
  const ReportData d = collect({dir.path}, {});
  const ReportRun& best = *d.best();
  const std::optional<Table> t = ranks_table(d);
  ASSERT_TRUE(t);
  ASSERT_EQ(t->rows.size(), static_cast<size_t>(best.run.ranks));
  EXPECT_EQ(t->rows[0][1].text, "node0");
  for (size_t rank = 0; rank < t->rows.size(); ++rank) {
    const records::RankRecord& r = best.run.ranks_record.ranks[rank];
    EXPECT_NEAR(t->rows[rank][2].value, 1e3 * *r.compute_s, 1e-9);
    EXPECT_NEAR(t->rows[rank][4].value, 1e3 * (r.step_s - *r.compute_s - 0.001), 1e-9);
  }
  EXPECT_NEAR(best.run.joules_per_sample() * static_cast<double>(best.run.spec.train.global_batch),
              150 * best.run.ranks_record.ranks[0].step_s * static_cast<double>(best.run.ranks), 1e-9);
  EXPECT_NE(t->note.find("J a sample (package-0"), std::string::npos) << t->note;
}

TEST(ReportData, SeveralDirectoriesAreSetsWithNamesOfTheirOwn) {
  TempDir dir;
  MadeUpResults(dir.path / "old" / "demo").write_sweep();
  MadeUpResults(dir.path / "new" / "demo").write_sweep();
  const ReportData d = collect({dir.path / "old" / "demo", dir.path / "new" / "demo"}, {});
  EXPECT_EQ(d.sets, (std::vector<std::string>{"old/demo", "new/demo"}));
  EXPECT_EQ(d.runs.size(), 26u);
  std::set<std::string> labels;
  for (const ReportRun& r : d.runs) {
    labels.insert(r.label);
    EXPECT_TRUE(r.label.starts_with(r.set)) << r.label;
  }
  EXPECT_EQ(labels.size(), d.runs.size());
  ASSERT_FALSE(d.facets.empty());
  EXPECT_EQ(d.facets[0].key, "set");
}

TEST(ReportData, OpsOfPartsOfAKindFallTogetherByWhatTheRecordSaysAndNotByTheName) {
  const auto in_kind = [](const char* path, const char* kind, const char* part) {
    records::OpRecord o;
    o.path = path, o.part = {kind, part};
    return o.path_in_kind();
  };
  EXPECT_EQ(in_kind("block07/attn/qkv/forward", "block", "block07"), "block*/attn/qkv/forward");
  EXPECT_EQ(in_kind("merge1/linear", "merge", "merge1"), "merge*/linear");
  EXPECT_EQ(in_kind("embed/forward", "embed", "embed"), "embed/forward");
  EXPECT_EQ(in_kind("loss/sums", "head", "head"), "loss/sums");
  EXPECT_EQ(in_kind("block07/attn/qkv/forward", "", ""), "block07/attn/qkv/forward");  // not recorded
}

TEST(ReportData, BadInputsAreNamed) {
  TempDir dir;
  EXPECT_THROW(collect({dir.path / "none"}, {}), ConfigError);
  EXPECT_THROW(collect({dir.path}, {}), ConfigError);  // no runs
  MadeUpResults(dir.path).write_sweep();
  write_atomically(dir.path / "holdout.json", R"({"runs":[{"id":"run100","predicted_s":"soon"}]})");
  try {
    collect({dir.path}, {});
    FAIL() << "a broken holdout.json was taken";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("runs[0].predicted_s"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace isobar::report
