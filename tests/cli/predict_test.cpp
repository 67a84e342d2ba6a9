// `isobar predict` against other commands that price runs, and its answers to what does not fit.
#include <algorithm>
#include <cmath>
#include <set>

#include "model/base/system/files.h"
#include "tests/engine/command.h"
#include "tests/paths.h"
#include "tests/pattern.h"

namespace isobar::cli {
namespace {

const std::string kMachines = source_dir() + "/configs/machines/";

Ended run(const Words& words) {
  Words all = {build_dir() + "/isobar"};
  all.insert(all.end(), words.begin(), words.end());
  return Child(all).wait();
}

// A run whose device is `device`, its sweep of one trial over 1 and 2 ranks.
void write_run_files(const Folder& folder, const std::string& device) {
  write_atomically(folder / "base.yaml",
                   "net: {embed_dim: 64, depth: 2, img_height: 32, img_width: 64, in_channels: 2, "
                   "out_channels: 2}\ntrain: {global_batch: 8}\nrun: {threads: 1" +
                       (device.empty() ? "" : ", device: " + device) + "}\n");
  write_atomically(folder / "sweep.yaml",
                   "base: base.yaml\nsteps: 6\nwarmup: 2\ngrace_s: 0.2\naxes: {gpus: [1, 2]}\n");
}

TEST(PredictCommand, AgreesWithTheDryRunAndTheReportOnCoresAndOnAccelerators) {
  for (const auto& [device, file] : {std::pair{"cpu", "example-2core.yaml"}, {"cuda", "dgx-a100.yaml"}}) {
    SCOPED_TRACE(device);
    const Folder folder;
    write_run_files(folder, device);
    const std::string machine = kMachines + file, sweep = folder / "sweep.yaml", base = folder / "base.yaml";
    const Ended dry = run({"sweep", sweep, "--dry-run", "--json", "--machine", machine});
    ASSERT_EQ(dry.code, 0) << dry.text;
    const Ended ran =
        run({"sweep", sweep, "--trainer", build_dir() + "/fake_train", "--results", folder / "r"});
    ASSERT_EQ(ran.code, 0) << ran.text;
    const Ended report =
        run({"report", folder / "r", "-o", folder / "out", "--no-figures", "--machine", machine});
    ASSERT_EQ(report.code, 0) << report.text;
    std::map<std::string, std::vector<std::string>> rows;  // by id, the first column
    std::istringstream table(text_of(folder / "out/tables/runs.csv"));
    size_t predicted = 0;  // its column, left of all that holds commas
    for (std::string line; std::getline(table, line);) {
      line.erase(line.find_last_not_of('\r') + 1);
      std::vector<std::string> cells;
      std::istringstream in(line);
      for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
      if (rows.empty())
        predicted = static_cast<size_t>(std::find(cells.begin(), cells.end(), "predicted_s") - cells.begin());
      rows[cells.front()] = cells;
    }
    const json trials = json::parse(dry.text).at("trials");
    ASSERT_EQ(trials.size(), 2u);
    for (const json& t : trials) {
      const Ended said = run({"predict", base, "--machine", machine, "--json", "--set", "train.steps=6",
                              "--set", "layout.dp=" + t.at("ranks").dump()});
      ASSERT_EQ(said.code, 0) << said.text;
      const json p = json::parse(said.text), f = t.at("forecast");
      EXPECT_EQ(p.at("step_s"), f.at("step_s"));
      EXPECT_EQ(p.at("upper_s"), f.at("upper_s"));
      EXPECT_EQ(p.at("memory_total_bytes"), f.at("memory_bytes"));
      EXPECT_EQ(p.at("device"), std::string(device) == "cpu" ? "cores" : "accelerators");
      const auto row = rows.find(t.at("id").get<std::string>());
      ASSERT_NE(row, rows.end()) << text_of(folder / "out/tables/runs.csv");
      EXPECT_NEAR(std::stod(row->second.at(predicted)) / p.at("step_s").get<double>(), 1, 1e-9);
    }
  }
}

// Without a micro-batch, `predict` and the dry run take the largest that fits the machine's memory.
TEST(PredictCommand, TheMicroBatchOfAGpuIsWhatFits) {
  const Folder folder;
  write_run_files(folder, "cuda");
  const std::string base = folder / "base.yaml", small = folder / "small.yaml";
  const auto predicted = [&](const std::string& machine, int code, const Words& more) {
    const Ended e = run(Words{"predict", base, "--machine", machine, "--json"} + more);
    EXPECT_EQ(e.code, code) << e.text;
    return json::parse(e.text);
  };
  const auto machine_of = [&](int64_t bytes) {
    write_atomically(small, replaced(text_of(kMachines + "dgx-a100.yaml"), "\n  reported_bytes: [0-9]+",
                                     "\n  reported_bytes: " + std::to_string(bytes)));
    return small;
  };
  for (const int64_t size : {8, 4, 2, 1}) {
    SCOPED_TRACE(size);
    const json given =
        predicted(kMachines + "dgx-a100.yaml", 0, {"--set", "policy.micro_batch=" + std::to_string(size)});
    EXPECT_EQ(given.at("micro_batch_chosen"), false);
    EXPECT_EQ(given.at("layout").at("micro_batch"), size);
    const int64_t need = given.at("memory_total_bytes");
    const json p = predicted(machine_of(need), 0, {});
    EXPECT_EQ(p.at("micro_batch_chosen"), true);
    EXPECT_EQ(p.at("layout").at("micro_batch"), size);
    EXPECT_EQ(p.at("memory_total_bytes"), need);
    const Ended text = run({"predict", base, "--machine", small});
    EXPECT_NE(text.text.find("note: micro-batch " + std::to_string(size) + ", the largest that fits"),
              std::string::npos)
        << text.text;
    const Ended dry = run({"sweep", folder / "sweep.yaml", "--dry-run", "--json", "--machine", small});
    ASSERT_EQ(dry.code, 0) << dry.text;
    int alone = 0;  // on two ranks NCCL's buffers do not fit
    const json told = json::parse(dry.text);
    for (const json& t : told.at("trials")) {
      if (t.at("ranks") != 1) continue;
      EXPECT_EQ(t.at("forecast").at("micro_batch"), size);
      EXPECT_EQ(t.at("forecast").at("memory_bytes"), need);
      ++alone;
    }
    EXPECT_EQ(alone, 1) << dry.text;
    const json less = predicted(machine_of(need - 1), size == 1 ? 4 : 0, {});
    EXPECT_EQ(less.at("layout").at("micro_batch"), std::max<int64_t>(1, size / 2));
  }
}

TEST(PredictCommand, RunsAreNotPricedOnWhatTheyDoNotComputeOn) {
  const Folder folder;
  write_run_files(folder, "");  // the default of run.device is cpu
  const Ended cluster =
      run({"sweep", folder / "sweep.yaml", "--dry-run", "--machine", kMachines + "dgx-a100.yaml"});
  EXPECT_EQ(cluster.code, 2) << cluster.text;
  EXPECT_NE(cluster.text.find("'run.device': is cpu"), std::string::npos) << cluster.text;
  ASSERT_EQ(run({"sweep", folder / "sweep.yaml", "--trainer", build_dir() + "/fake_train", "--results",
                 folder / "r"})
                .code,
            0);
  const Ended report = run({"report", folder / "r", "-o", folder / "out", "--no-figures", "--machine",
                            kMachines + "dgx-a100.yaml"});
  EXPECT_NE(report.text.find("not predicted"), std::string::npos) << report.text;
  const Ended fitted =
      run({"fit", folder / "r", "--machine", kMachines + "dgx-a100.yaml", "-o", folder / "m.yaml"});
  EXPECT_EQ(fitted.code, 2) << fitted.text;
  EXPECT_NE(fitted.text.find("run.device"), std::string::npos) << fitted.text;
  // Without a device in the question, the machine file decides.
  EXPECT_EQ(run({"predict", folder / "base.yaml", "--machine", kMachines + "dgx-a100.yaml"}).code, 0);
  const Ended contrary = run(
      {"predict", folder / "base.yaml", "--machine", kMachines + "dgx-a100.yaml", "--set", "run.device=cpu"});
  EXPECT_EQ(contrary.code, 2) << contrary.text;
}

TEST(PredictCommand, WhatTheEngineDoesNotRunOnIsPredictedAndNotSwept) {
  const Folder folder;
  write_run_files(folder, "cuda");
  for (const char* file : {"mi300x.yaml", "aurora.yaml", "frontier.yaml"}) {
    const Ended said = run({"predict", folder / "base.yaml", "--machine", kMachines + file});
    EXPECT_EQ(said.code, 0) << said.text;
    EXPECT_NE(said.text.find("prediction only"), std::string::npos) << said.text;
    const Ended swept = run({"sweep", folder / "sweep.yaml", "--dry-run", "--machine", kMachines + file});
    EXPECT_EQ(swept.code, 2) << swept.text;
    EXPECT_NE(swept.text.find("does not run on it"), std::string::npos) << swept.text;
  }
}

TEST(PredictCommand, WhatDoesNotFitEndsWithFourAndTheSmallestChangeThatDoes) {
  const std::string config = source_dir() + "/configs/models/llama3-8b.yaml",
                    machine = kMachines + "dgx-a100.yaml";
  const Words words = {"predict",   config,
                       "--machine", machine,
                       "--ranks",   "8",
                       "--set",     "layout.tp=1",
                       "--set",     "layout.pp=1",
                       "--set",     "policy.zero=0",
                       "--set",     "policy.recompute=none",
                       "--set",     "train.global_batch=64",
                       "--set",     "policy.micro_batch=1"};
  const Ended said = run(words);
  EXPECT_EQ(said.code, 4) << said.text;
  EXPECT_EQ(said.text.substr(0, 13), "does not fit:") << said.text;
  EXPECT_NE(said.text.find("\nsmallest change that fits: --set "), std::string::npos) << said.text;
  Words as_json = words;
  as_json.push_back("--json");
  const Ended data = run(as_json);
  EXPECT_EQ(data.code, 4);
  const json j = json::parse(data.text);
  EXPECT_EQ(j.at("fits"), false);
  EXPECT_NE(said.text.find("\nsingle changes, for each rank: policy.recompute="), std::string::npos)
      << said.text;
  for (const json& rung : j.at("memory_ladder")) {  // what is promised is what it is
    Words lower = as_json;
    lower.insert(lower.end(), {"--set", rung.at("set")});
    const json less = json::parse(run(lower).text).at("memory_bytes");
    double saved = 0;
    for (const auto& [kind, bytes] : j.at("memory_bytes").items())
      saved += bytes.get<double>() - (less.contains(kind) ? less[kind].get<double>() : 0);
    EXPECT_NEAR(saved / rung.at("saves_bytes").get<double>(), 1, 1e-6) << rung;
  }
  Words changed = as_json;
  for (const json& set : j.at("smallest_change").at("set")) changed.insert(changed.end(), {"--set", set});
  const Ended fits = run(changed);
  EXPECT_EQ(fits.code, 0) << fits.text;
  EXPECT_EQ(json::parse(fits.text).at("fits"), true);
  for (const char* name : {"mfu", "hfu", "model_flops_per_s_rank", "hardware_flops_per_s_rank"})
    EXPECT_GT(json::parse(fits.text).at(name), 0) << name;
}

TEST(PredictCommand, WhereNoLayoutFitsEndsWithFourAndTheOthersAreAnswered) {
  const std::string config = source_dir() + "/configs/models/llama3-70b.yaml",
                    machine = kMachines + "dgx-a100.yaml";
  const Words one = {"predict", config, "--machine", machine,
                     "--gpus",  "2",    "--set",     "policy.recompute=none"};
  const Ended alone = run(one);
  EXPECT_EQ(alone.code, 4) << alone.text;
  EXPECT_NE(alone.text.find("no layout on 2 fits 85 GB; the smallest needs "), std::string::npos)
      << alone.text;
  Words both = one;
  both.insert(both.end(), {"--gpus", "64"});
  const Ended some = run(both);
  EXPECT_EQ(some.code, 4) << some.text;
  EXPECT_NE(some.text.find(" on 64 x "), std::string::npos) << some.text;
  both.insert(both.end(), {"--gpus", "97"});
  EXPECT_EQ(run(both).code, 2);  // bad input comes first
}

TEST(PredictCommand, NamesTheStatisticOfTheFitAndNoneWithoutOne) {
  const std::string config = source_dir() + "/configs/models/vit-384.yaml",
                    machine = kMachines + "example-2core.yaml";
  const Words words = {"predict", config, "--machine", machine, "--json"};
  EXPECT_TRUE(json::parse(run(words).text).at("statistic").is_null());
  const Folder folder;
  write_atomically(folder / "fitted.yaml",
                   text_of(machine) +
                       "\nfit: {runs: [a], statistic: p10, quantile: 1.28, spread: {all: 0.05}, "
                       "effects: {}, effect_sigma: {}, names: [], covariance: []}\n");
  Words fitted = words;
  fitted[3] = folder / "fitted.yaml";
  const Ended data = run(fitted);
  EXPECT_EQ(json::parse(data.text).at("statistic"), "p10") << data.text;
  fitted.pop_back();
  EXPECT_NE(run(fitted).text.find("10th percentile of the steps"), std::string::npos);
}

const std::string kModels = source_dir() + "/configs/models/";

TEST(PredictCommand, SaysWhoseEngineItPrices) {
  const Words llama = {"predict",   kModels + "llama3-8b.yaml",
                       "--machine", kMachines + "dgx-h100.yaml",
                       "--gpus",    "16",
                       "--set",     "train.global_batch=32",
                       "--set",     "policy.amp=bf16",
                       "--set",     "policy.recompute=full"};  // else FSDP's eager blocks do not fit
  const Ended own = run(llama);
  EXPECT_EQ(own.code, 0) << own.text;
  EXPECT_LT(own.text.find("Isobar's own engine"), own.text.find("layouts considered")) << own.text;
  Words foreign = llama;
  foreign.insert(foreign.end(), {"--engine", "fsdp", "--json"});
  const Ended ended = run(foreign);
  ASSERT_EQ(ended.code, 0) << ended.text;
  const json j = json::parse(ended.text);
  EXPECT_EQ(j.at("engine"), "fsdp");
  double last = 0;
  for (const json& one : j.at("best")) {  // fastest first, with the axes that it has
    EXPECT_GE(one.at("step_s"), last);
    last = one.at("step_s");
    EXPECT_LT(one.at("lower_s"), one.at("step_s"));
    EXPECT_GT(one.at("upper_s"), one.at("step_s"));
    EXPECT_TRUE(one.at("layout").get<std::string>().starts_with("DP16 MBS")) << one;
  }
  EXPECT_GT(last, 0);
}

TEST(PredictCommand, RefusesWhatAnEngineHasNot) {
  const std::string gpu = kMachines + "dgx-h100.yaml";
  const auto refused = [&](Words words, const std::string& key, const std::string& file) {
    Words all = {"predict", kModels + "llama3-8b.yaml", "--machine"};
    all.insert(all.end(), words.begin(), words.end());
    const Ended e = run(all);
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_NE(e.text.find(key), std::string::npos) << e.text;
    EXPECT_NE(e.text.find(file), std::string::npos) << e.text;
  };
  refused({gpu, "--engine", "fsdp", "--set", "layout.tp=2"}, "layout.tp", "fsdp.yaml");
  refused({gpu, "--engine", "nemo", "--set", "policy.zero=2"}, "policy.zero", "nemo.yaml");
  refused({gpu, "--engine", "nobody"}, "--engine", "nemo");
  refused({gpu, "--tuned", "0.5"}, "--tuned", "--engine");
  refused({gpu, "--engine", "nemo", "--set", "policy.offload_optimizer=true"}, "policy.offload_optimizer",
          "llama3-8b.yaml");
  const Ended large =
      run({"predict", kModels + "gpt3-1t.yaml", "--machine", gpu, "--engine", "nemo", "--set", "layout.dp=1",
           "--set", "layout.tp=8", "--set", "layout.pp=1", "--set", "policy.sequence_parallel=false"});
  EXPECT_EQ(large.code, 4) << large.text;
  EXPECT_NE(large.text.find("smallest change that fits"), std::string::npos) << large.text;
  const Ended whole =  // its 160 heads are not for 512 tensor ranks, which would fit
      run({"predict", kModels + "gpt3-1t.yaml", "--machine", gpu, "--engine", "nemo", "--set", "layout.dp=1",
           "--set", "layout.tp=1", "--set", "layout.pp=1", "--set", "policy.sequence_parallel=false"});
  EXPECT_NE(whole.text.find("no change of one key fits"), std::string::npos) << whole.text;
  refused({kMachines + "example-2core.yaml", "--engine", "nemo"}, "--engine", "example-2core.yaml");
}

// A dry run's forecasts equal those of predict for each trial; trials that the engine does not support are
// skipped with the reason.
TEST(SweepForecast, OfAnotherEnginesRuns) {
  const Words common = {"--machine", kMachines + "dgx-h100.yaml", "--engine", "nemo", "--json"};
  const Ended e = run(Words{"sweep", kModels + "llama3-8b.yaml", "gpus=16", "tp=2,4", "policy.zero=1,2",
                            "train.global_batch=32", "policy.amp=bf16", "policy.micro_batch=1", "--dry-run"} +
                      common);
  ASSERT_EQ(e.code, 0) << e.text;
  const json j = json::parse(e.text);
  ASSERT_EQ(j.at("trials").size(), 2u) << e.text;
  EXPECT_EQ(j.at("skipped").size(), 2u) << e.text;
  EXPECT_NE(e.text.find("has no ZeRO stage 2"), std::string::npos) << e.text;
  for (const json& trial : j.at("trials")) {
    const std::string tp = trial.at("axes").at("layout.tp").dump();
    const Ended p =
        run(Words{"predict", kModels + "llama3-8b.yaml", "--set", "layout.tp=" + tp, "--set",
                  "layout.dp=" + std::to_string(16 / std::stoi(tp)), "--set", "policy.zero=1", "--set",
                  "train.global_batch=32", "--set", "policy.amp=bf16", "--set", "policy.micro_batch=1"} +
            common);
    ASSERT_EQ(p.code, 0) << p.text;
    EXPECT_DOUBLE_EQ(trial.at("forecast").at("step_s").get<double>(),
                     json::parse(p.text).at("step_s").get<double>());
  }
  EXPECT_EQ(run({"sweep", kModels + "llama3-8b.yaml", "gpus=16", "--dry-run", "--engine", "nemo"}).code, 2);
  EXPECT_EQ(run(Words{"sweep", kModels + "llama3-8b.yaml", "gpus=16", "--results", "r"} + common).code, 2);
}

// A table of rows with open inputs alone was answered with nothing, and code 0.
TEST(ScoreCommand, PredictsTablesOfOpenRows) {
  const std::string table = source_dir() + "/configs/published/nanotron_playbook_figures.csv";
  for (const Words& mode : {Words{}, Words{"--leave-out", "campaign"},
                            Words{"--fit-on", source_dir() + "/configs/published/mlperf_gpt3.csv"}}) {
    const Ended e = run(Words{"score", table, "--json"} + mode);
    ASSERT_EQ(e.code, 0) << e.text;
    size_t rows = 0;
    std::istringstream lines(e.text);
    for (std::string line; std::getline(lines, line);)
      if (const json j = json::parse(line); j.at("of") == "open rows") rows += j.at("rows").get<size_t>();
    EXPECT_EQ(rows, 16u) << e.text;
  }
}

// Every mode's lines say the same keys; rows with open inputs are predicted in all of them.
TEST(ScoreCommand, JsonHasOneSetOfKeys) {
  const std::string table = source_dir() + "/configs/published/misc_small.csv";
  std::set<std::string> common;
  for (const Words& mode : {Words{}, Words{"--leave-out", "campaign"}, Words{"--points", "3"}}) {
    const Ended e = run(Words{"score", table, "--json"} + mode);
    ASSERT_EQ(e.code, 0) << e.text;
    std::istringstream lines(e.text);
    size_t open = 0;
    for (std::string line; std::getline(lines, line);) {
      const json j = json::parse(line);
      if (j.at("of") == "all campaigns" || j.contains("given")) continue;
      open += j.at("of") == "open rows";
      std::set<std::string> keys;
      for (const auto& [key, value] : j.items())
        if (key != "campaign" && key != "outcomes" && key != "mfu_15") keys.insert(key);
      if (common.empty()) common = keys;
      EXPECT_EQ(keys, common) << line;
      EXPECT_TRUE(j.contains("constant_mfu_mape")) << line;
    }
    EXPECT_EQ(open, 1u) << e.text;
  }
}

TEST(ScoreCommand, LeavesWholeCampaignsOut) {
  const std::string tables = source_dir() + "/configs/published/";
  const Ended e = run({"score", tables + "mlperf_gpt3.csv", "--leave-out", "campaign", "--json"});
  ASSERT_EQ(e.code, 0) << e.text;
  std::istringstream lines(e.text);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(json::parse(line).at("campaign"), "mlperf");
  EXPECT_EQ(json::parse(line).at("rows"), 21);
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(json::parse(line).at("campaigns"), 1);
  EXPECT_EQ(run({"score", tables + "collectives.csv", "--leave-out", "campaign"}).code, 2);
  EXPECT_EQ(run({"score", tables + "nanotron_ultrascale_failed.csv", "--leave-out", "campaign"}).code, 2);
  EXPECT_EQ(run({"score", "--leave-out", "campaign", "--spec"}).code, 2);
}

}  // namespace
}  // namespace isobar::cli
