// Logs of other engines in their own formats (tests/fixtures/logs): the row of each, missing and
// contradictory values, and damaged files.
#include "bench/import/training_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "bench/import/import.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/csv_table.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/score/own_runs.h"
#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::foreign {
namespace {

std::string log(const std::string& name) {
  return source_dir() + "/tests/fixtures/logs/" + name + ".log";
}

/// The first run of a table, as fit --engine reads it.
perf::PublishedRun row_of(const LoggedRun& r, const std::string& machine) {
  static std::vector<std::unique_ptr<perf::ChipSpec>> chips;
  const perf::Machine m = perf::load_machine(source_dir() + "/configs/machines/" + machine);
  chips.push_back(std::make_unique<perf::ChipSpec>(perf::chip_of(m)));
  return perf::runs_of(perf::own_runs(table_of({r}), "logs", "unknown", {}, m), m, *chips.back()).at(0);
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

TEST(TrainingLog, MegatronSaysAllOfIt) {
  const LoggedRun r = read_training_log({log("megatron")}, "");
  EXPECT_EQ(r.kind, LogKind::megatron);
  EXPECT_EQ(r.steps.size(), 3u);  // the first is left out
  const perf::PublishedRun p = row_of(r, "dgx-h100.yaml");
  EXPECT_DOUBLE_EQ(p.step_s, 15.2907);
  EXPECT_NEAR(p.memory_gb, 68112.0 / 1024, 1e-6);
  EXPECT_EQ(p.arch, perf::Arch::llama);
  EXPECT_EQ(p.layers, 80);
  EXPECT_EQ(p.hidden, 8192);
  EXPECT_EQ(p.ffn, 28672);
  EXPECT_EQ(p.kv_heads, 8);
  EXPECT_EQ(p.vocab, 128512);
  EXPECT_EQ(p.layout(), "dp4 tp4 cp1 pp4 v5");
  EXPECT_EQ(p.schedule, perf::Schedule::interleaved);
  EXPECT_EQ(p.zero, 1);
  EXPECT_TRUE(p.sequence_parallel);
  EXPECT_EQ(p.recompute, Recompute::selective);
  EXPECT_EQ(p.attention, perf::AttentionKernel::flash2);
  EXPECT_EQ(p.micro_batches(), 32);
}

TEST(TrainingLog, TorchtitansColoursAndMeshesAreRead) {
  const perf::PublishedRun p = row_of(read_training_log({log("torchtitan")}, ""), "dgx-h100.yaml");
  EXPECT_NEAR(p.step_s, 16 * 8192 / (2693.0 * 16), 1e-6);  // tokens per second of a GPU
  EXPECT_NEAR(p.memory_gb, 45.12, 1e-9);
  EXPECT_EQ(p.layout(), "dp8 tp2 cp1 pp1 v1");
  EXPECT_EQ(p.ffn, 14336);
  EXPECT_EQ(p.kv_heads, 8);
  EXPECT_EQ(p.vocab, 128256);
  EXPECT_EQ(p.zero, 3);
  EXPECT_EQ(p.micro_batch, 2);
  EXPECT_EQ(p.recompute, Recompute::selective);
  EXPECT_EQ(p.precision, perf::Precision::bf16);
}

TEST(TrainingLog, NemosExperimentAndProgressBarAreRead) {
  const LoggedRun r = read_training_log({log("nemo1")}, "");
  EXPECT_EQ(r.steps, (std::vector<double>{4.31, 4.27, 4.29}));  // a redrawn progress bar counts once
  const perf::PublishedRun p = row_of(r, "dgx-a100.yaml");
  EXPECT_EQ(p.step_s, 4.29);
  EXPECT_EQ(p.layout(), "dp4 tp4 cp1 pp2 v1");
  EXPECT_EQ(p.arch, perf::Arch::gpt);
  EXPECT_EQ(p.zero, 1);
  EXPECT_EQ(p.micro_batch, 2);
  EXPECT_EQ(p.precision, perf::Precision::bf16);
}

TEST(TrainingLog, WhatALogLeavesOutAConfigurationSays) {
  const Folder folder;
  const std::string net =
      "net: {kind: llama, embed_dim: 4096, depth: 32, num_heads: 32, num_kv_heads: 8, "
      "ffn_dim: 14336, seq_length: 8192, vocab_size: 128256}\n";
  const auto config = [&](const std::string& rest) {
    write_atomically(folder / "run.yaml", net + rest);
    return folder / "run.yaml";
  };
  EXPECT_NE(error_of([&] { read_training_log({log("nemo2")}, ""); }).find("--config"), std::string::npos);
  const std::string good =
      config("train: {global_batch: 64}\nlayout: {dp: 8, tp: 2}\npolicy: {amp: bf16, micro_batch: 1}\n");
  const perf::PublishedRun p = row_of(read_training_log({log("nemo2")}, good), "dgx-h100.yaml");
  EXPECT_EQ(p.step_s, 3.092);
  EXPECT_EQ(p.layout(), "dp8 tp2 cp1 pp1 v1");
  EXPECT_EQ(p.micro_batches(), 8);
  // Log and configuration must agree.
  const std::string other =
      config("train: {global_batch: 64}\nlayout: {dp: 4, tp: 4}\npolicy: {amp: bf16, micro_batch: 1}\n");
  const std::string error = error_of([&] { read_training_log({log("nemo2")}, other); });
  for (const char* word : {"nemo2.log", "run.yaml", "by the log"})
    EXPECT_NE(error.find(word), std::string::npos) << error;

  // MLPerf's logger counts samples between evaluations.
  const std::string lora = config("train: {global_batch: 8}\nlayout: {dp: 2, tp: 4}\npolicy: {amp: bf16}\n");
  const LoggedRun m = read_training_log({log("mlperf")}, lora);
  EXPECT_EQ(m.steps.size(), 3u);
  EXPECT_NEAR(row_of(m, "dgx-h100.yaml").step_s, 202.8 * 8 / 192, 1e-8);
}

TEST(TrainingLog, TracesOfPyTorchGiveSteps) {
  const Folder folder;
  nlohmann::json trace = {{"traceEvents", nlohmann::json::array()}};
  for (int step = 0; step < 4; ++step)
    trace["traceEvents"].push_back({{"ph", "X"},
                                    {"cat", "user_annotation"},
                                    {"name", "ProfilerStep#" + std::to_string(step)},
                                    {"ts", 1e6 * step},
                                    {"dur", 1e5 * (step + 1)},
                                    {"tid", 1}});
  write_atomically(folder / "trace.json", trace.dump());
  write_atomically(folder / "run.yaml",
                   "net: {embed_dim: 64, depth: 2, num_heads: 4}\ntrain: {global_batch: 16}\n");
  const LoggedRun r = read_training_log({folder / "trace.json"}, folder / "run.yaml");
  EXPECT_EQ(r.kind, LogKind::kineto);
  EXPECT_NEAR(row_of(r, "dgx-a100.yaml").step_s, 0.3, 1e-9);
}

// Chrome's trace format is an object or the events' array alone; converters quote numbers.
TEST(TrainingLog, TracesAsArraysAndWithQuotedNumbers) {
  const Folder folder;
  const auto steps = [&](const std::string& text) {
    write_atomically(folder / "trace.json", text);
    std::vector<std::string> notes;
    return kineto_steps({folder / "trace.json"}, notes);
  };
  nlohmann::json events = nlohmann::json::array(), quoted = events;
  for (int step = 0; step < 3; ++step) {
    nlohmann::json e = {{"ph", "X"},
                        {"cat", "user_annotation"},
                        {"name", "ProfilerStep#" + std::to_string(step)},
                        {"ts", 1e6 * step},
                        {"dur", 2.5e5},
                        {"tid", 1},
                        {"args", {{"a", 1}}}};
    events.push_back(e);
    for (const char* key : {"ts", "dur"}) e[key] = std::to_string(e[key].get<double>());
    quoted.push_back(e);
  }
  const std::vector<double> expected(3, 0.25);
  EXPECT_TRUE(is_kineto(" \n" + events.dump()));
  EXPECT_FALSE(is_kineto(R"([{"name": "gpu"}])"));
  EXPECT_EQ(steps(events.dump(1)), expected);
  EXPECT_EQ(steps(nlohmann::json{{"traceEvents", events}}.dump()), expected);
  EXPECT_EQ(steps(nlohmann::json{{"other", events}, {"traceEvents", quoted}}.dump()), expected);
  const std::string open = events.dump().substr(0, events.dump().size() - 1);
  EXPECT_NE(error_of([&] { steps(open); }).find("its program was killed"), std::string::npos);
  events[1].erase("dur");
  EXPECT_NE(error_of([&] { steps(events.dump()); }).find("'ProfilerStep#1'"), std::string::npos);
}

TEST(TrainingLog, OtherFilesAreRefusedByName) {
  const Folder folder;
  write_atomically(folder / "notes.txt", "nothing of the kind\n");
  const std::string error = error_of([&] { read_training_log({folder / "notes.txt"}, ""); });
  EXPECT_NE(error.find("notes.txt"), std::string::npos) << error;
  EXPECT_NE(error.find("Megatron-LM"), std::string::npos) << error;
  // Two runs in one file would give a row of neither.
  const std::string twice = read_file(log("megatron")) + read_file(log("megatron"));
  write_atomically(folder / "twice.log", twice);
  EXPECT_NE(error_of([&] { read_training_log({folder / "twice.log"}, ""); }).find("several runs"),
            std::string::npos);
}

// Truncated or changed anywhere: a result or an error.
TEST(TrainingLog, DamagedLogsAreAnsweredOrRefused) {
  const Folder folder;
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const char* name : {"megatron", "nemo1", "nemo2", "torchtitan", "mlperf"}) {
    const std::string good = read_file(log(name));
    for (int i = 0; i < 25; ++i) {
      std::string bad = good.substr(0, random() % good.size());
      for (int k = 0; k < 4 && !bad.empty(); ++k)
        bad[random() % bad.size()] = static_cast<char>(random() % 256);
      write_atomically(folder / "bad.log", bad);
      try {
        table_of({read_training_log({folder / "bad.log"}, "")});
      } catch (const ConfigError& e) {
        EXPECT_NE(std::string(e.what()).find("bad.log"), std::string::npos) << e.what();
      }
    }
  }
}

}  // namespace
}  // namespace isobar::foreign
