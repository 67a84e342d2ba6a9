// `isobar fit RUNS.csv --engine E` and `isobar predict --fit`: a new user's first runs, from the table to the
// answer.
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/base/text/csv_table.h"
#include "tests/cli/shell.h"

namespace isobar::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A directory whose configs/ is the shipped one without the runs of the zero-bubble paper.
class OwnRunsCommand : public InDirectory {
 protected:
  void SetUp() override {
    InDirectory::SetUp();
    const fs::path from = source_dir() + "/configs", to = dir_ / "configs";
    fs::create_directories(to / "published");
    for (const char* whole : {"machines", "engines", "models"})
      fs::create_directory_symlink(from / whole, to / whole);
    for (const auto& table : fs::directory_iterator(from / "published"))
      if (table.path().filename() != "zero_bubble_pp.csv")
        fs::create_symlink(table.path(), to / "published" / table.path().filename());
  }

  /// The paper's 1F1B runs of 30 layers, without those of one batch, as a user would write them down.
  std::string rows_without(const std::string& batch) const {
    std::string out =
        "arch,layers,hidden,heads,seq_len,gpus,dp,tp,pp,micro_batch,global_batch,schedule,step_time_s,memory_"
        "gb\n";
    const CsvTable csv = read_csv(source_dir() + "/configs/published/zero_bubble_pp.csv");
    for (const CsvRow& r : csv.rows) {
      if (r.text("schedule") != "1F1B" || r.text("layers") != "30" || r.text("gpus") != "8") continue;
      if (r.text("metric_name") != "samples_per_s_per_gpu" || r.text("global_batch") == batch) continue;
      out += "gpt,30,4096,32,1024,8,1,1,8,3," + r.text("global_batch") + ",1F1B," + r.text("step_time_s") +
             "," + r.text("memory_gb") + "\n";
    }
    return out;
  }
  Answer isobar(const std::string& words) const {
    return shell(
        at(isobar_command() + " " + words + (words.find("--json") == std::string::npos ? " 2>&1" : "")));
  }
  static constexpr const char* kAsked =
      "predict configs/models/gpt3-175b.yaml --machine dgx-a100 --json --set net.depth=30 --set "
      "net.embed_dim=4096 "
      "--set net.num_heads=32 --set net.seq_length=1024 --set net.vocab_size=50304 --set layout.pp=8 "
      "--set layout.tp=1 --set layout.dp=1 --set layout.vpp=1 --set policy.micro_batch=3 "
      "--set policy.schedule=1f1b --set policy.recompute=none --set policy.attention=unfused "
      "--set policy.sequence_parallel=false --set policy.zero=0 --set policy.amp=bf16 "
      "--set train.global_batch=192 ";
};

// A log, and the row that `import` makes of it, give the same fit.
TEST_F(OwnRunsCommand, LogsAreFittedAsTheirRowsAre) {
  const std::string log = source_dir() + "/tests/fixtures/logs/megatron.log";
  const std::string on = " --machine dgx-h100 --engine megatron --json -o ";
  const Answer direct = isobar("fit " + log + on + "a.json");
  ASSERT_EQ(direct.code, 0) << direct.out;
  ASSERT_EQ(isobar("import " + log + " -o mine.csv").code, 0);
  const Answer twice = isobar("import " + log + " -o mine.csv");
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.out.find("mine.csv"), std::string::npos) << twice.out;
  EXPECT_NE(twice.out.find("is there already"), std::string::npos) << twice.out;
  const Answer table = isobar("fit mine.csv" + on + "b.json");
  ASSERT_EQ(table.code, 0) << table.out;
  json a = json::parse(direct.out), b = json::parse(table.out);
  EXPECT_EQ(a.at("runs"), 1);
  EXPECT_EQ(a.at("without"), b.at("without"));
  EXPECT_LT(a.at("without").at("mape"), 60);
  const std::string asked =
      "predict configs/models/llama3-70b.yaml --machine dgx-h100 --json --set layout.dp=4 --set layout.tp=4 "
      "--set layout.pp=4 --set layout.vpp=5 --set policy.schedule=interleaved --set policy.micro_batch=1 "
      "--set train.global_batch=128 --set policy.amp=bf16 --set policy.sequence_parallel=true "
      "--set policy.zero=1 --set policy.recompute=selective --fit ";
  const Answer answer = isobar(asked + "a.json");
  ASSERT_EQ(answer.code, 0) << answer.out;
  EXPECT_NEAR(json::parse(answer.out).at("step_s").get<double>(), 15.29, 0.2 * 15.29);
  EXPECT_EQ(answer.out, isobar(asked + "b.json").out);
  // A fit asks for keys that the log lacks, and a table takes no configuration.
  const std::string nemo = source_dir() + "/tests/fixtures/logs/nemo2.log";
  const Answer missing = isobar("fit " + nemo + " --machine dgx-h100 --engine nemo -o c.json");
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.out.find("--config"), std::string::npos) << missing.out;
  EXPECT_EQ(isobar("fit mine.csv --config x.yaml" + on + "c.json").code, 2);
  write_atomically(dir_ / "notes.txt", "nothing of the kind");
  const Answer other = isobar("import notes.txt");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.out.find("notes.txt"), std::string::npos) << other.out;
}

TEST_F(OwnRunsCommand, FromTheTableToTheAnswer) {
  constexpr double kMeasured = 5.9553;  // of the paper's 1F1B run with 192 samples
  write_atomically(dir_ / "mine.csv", rows_without("192"));
  const Answer fit = isobar("fit mine.csv --machine dgx-a100 --engine megatron -o fit.json --json");
  ASSERT_EQ(fit.code, 0) << fit.out;
  const json said = json::parse(fit.out);
  ASSERT_GE(said.at("runs").get<int>(), 2) << fit.out;
  const Answer without = isobar(std::string(kAsked) + "--engine megatron");
  const Answer with = isobar(std::string(kAsked) + "--fit fit.json");
  ASSERT_EQ(without.code, 0) << without.out;
  ASSERT_EQ(with.code, 0) << with.out;
  const json a = json::parse(without.out), b = json::parse(with.out);
  EXPECT_EQ(b.at("engine"), "megatron");
  EXPECT_EQ(b.at("own_runs"), said.at("runs"));
  EXPECT_EQ(a.at("own_runs"), 0);
  const auto off = [](const json& j) { return std::abs(j.at("step_s").get<double>() / kMeasured - 1); };
  const auto wide = [](const json& j) {
    return j.at("upper_s").get<double>() / j.at("lower_s").get<double>();
  };
  EXPECT_LT(off(b), std::max(0.5 * off(a), 0.05)) << a << b;
  EXPECT_LT(wide(b), wide(a)) << a << b;
  EXPECT_LT(b.at("lower_s"), kMeasured) << b;
  EXPECT_GT(b.at("upper_s"), kMeasured) << b;
}

TEST_F(OwnRunsCommand, WhatIsNotReadIsRefused) {
  write_atomically(dir_ / "mine.csv", rows_without(""));
  ASSERT_EQ(isobar("fit mine.csv --machine dgx-a100 --engine megatron -o fit.json").code, 0);
  const auto refused = [&](const std::string& words, const std::string& word) {
    const Answer a = isobar(words);
    EXPECT_EQ(a.code, 2) << words << "\n" << a.out;
    EXPECT_NE(a.out.find(word), std::string::npos) << a.out;
  };
  refused("fit mine.csv --machine dgx-a100 -o x.json", "--engine");
  refused("fit mine.csv --machine dgx-a100 --engine nobody -o x.json", "nobody");
  refused("fit mine.csv --machine dgx-a100 --engine nemo -o x.json --holdout 0.5", "--holdout");
  refused("fit mine.csv --machine example-2core --engine nemo -o x.json", "accelerator");
  refused("fit none.csv --machine dgx-a100 --engine nemo -o x.json", "none.csv");
  refused(
      std::string(kAsked).replace(std::string(kAsked).find("--json"), 6, "") + "--fit fit.json --engine nemo",
      "engine");
  refused(
      std::string(kAsked).replace(std::string(kAsked).find("--json"), 6, "") + "--fit fit.json --tuned 0.4",
      "--tuned");
  refused(std::string(kAsked).replace(std::string(kAsked).find("--json"), 6, "") + "--fit mine.csv",
          "mine.csv");
  refused("score mine.csv --points 1,3", "--points");
  refused("score mine.csv --points 3 --leave-out layout", "--points");
  EXPECT_FALSE(fs::exists(dir_ / "x.json"));
}

TEST_F(OwnRunsCommand, ScoreSaysWhatAFewRowsAreWorth) {
  const Answer a = isobar("score configs/published/mlperf_gpt3.csv --leave-out campaign --points 1,4 --json");
  ASSERT_EQ(a.code, 0) << a.out;
  std::istringstream lines(a.out);
  std::map<int, double> width;
  for (std::string line; std::getline(lines, line);)
    if (const json j = json::parse(line); j.contains("given") && j.at("quantity") == "step time") {
      width[j.at("given")] = j.at("upper_over_lower");
      EXPECT_TRUE(j.at("campaigns").contains("mlperf")) << line;
    }
  ASSERT_EQ(width.size(), 3u) << a.out;
  EXPECT_LT(width.at(4), width.at(0));
}

}  // namespace
}  // namespace isobar::cli
