// Options that a command would ignore, or whose value is no number: refused in one line that names them.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>
#include <vector>

#include "tests/cli/shell.h"

namespace isobar::cli {
namespace {

using nlohmann::json;

class Options : public InDirectory {
 protected:
  void SetUp() override {
    InDirectory::SetUp();
    write_atomically(dir_ / "runs.csv", "row_id\n1\n");
    fs::copy_file(source_dir() + "/tests/fixtures/cases/nccl_srun_label.all_reduce.log",
                  dir_ / "all_reduce.log");
  }
  Answer isobar(const std::string& words, const char* with = " 2>&1") const {
    return shell(at("timeout 60 " + isobar_command() + " " + words + with));
  }
  // Without stderr: the progress of what takes long
  Answer json_of(const std::string& words) const { return isobar(words + " --json", " 2>/dev/null"); }

  const std::string host_ = " --machine " + shipped("machines/example-2core.yaml");
  const std::string gpu_ = " --machine " + shipped("machines/dgx-h100.yaml");
  const std::string llama_ = shipped("models/llama3-70b.yaml"), small_ = shipped("models/llama3-8b.yaml");
};

TEST_F(Options, VersionNamesCommitCompilerAndLibraries) {
  const Answer a = isobar("--version");
  EXPECT_EQ(a.code, 0) << a.out;
  EXPECT_TRUE(std::regex_search(a.out, std::regex("^isobar [0-9]+\\.[0-9]+\\.[0-9]+, commit [0-9a-z]+")))
      << a.out;
  EXPECT_NE(a.out.find("oneDNN"), std::string::npos) << a.out;
  EXPECT_EQ(std::count(a.out.begin(), a.out.end(), '\n'), 1) << a.out;
}

TEST_F(Options, WhatAModeDoesNotReadIsRefused) {
  const std::string search = "search " + llama_ + gpu_ + " --gpus 64", one = "predict " + llama_ + gpu_,
                    host = "predict base.yaml" + host_, sweep = "sweep sweep.yaml --results r" + host_;
  for (const auto& [words, option] : std::vector<std::pair<std::string, std::string>>{
           {search + " --ranks 8", "--ranks"},
           {search + " --ranks-on-host 8", "--ranks-on-host"},
           {one + " --ranks-on-host 8", "--ranks-on-host"},
           {one + " --pareto", "--pareto"},
           {one + " --gpus 64 --ranks 8", "--ranks"},
           {one + " --gpus 64 --rates", "--rates"},
           {one + " --gpus 64 --deadline 10d", "--deadline"},
           {one + " --emit megatron --json", "--json"},
           {one + " --fix tp=2", "--fix"},
           {search + " --pareto --engine nemo", "--pareto"},
           {search + " --top 3 --json -o out", "--out"},
           {"compare " + llama_ + gpu_, "--machine"},
           {"budget " + llama_ + gpu_ + " --tokens 1T", "--deadline"},
           {"budget " + llama_ + gpu_ + " --deadline 10d", "--deadline"},
           {"emit " + llama_ + gpu_ + " --gpus 8 --gpus 16 --for megatron", "--gpus"},
           {one + " --top 3", "--top"},
           {one + " --space 1d", "--space"},
           {host + " --pareto", "--pareto"},
           {host + " --ranks 2 --set layout.dp=1", "layout.dp"},
           {host + " --global-batch 4 --set train.global_batch=8", "train.global_batch"},
           {host + " --what-if nvlink_ranks*2", "nvlink_ranks*2"},
           {"train base.yaml --ranks 2 --set layout.dp=4", "layout.dp"},
           {sweep + " --dry-run --suggest 2", "--dry-run"},
           {sweep + " --dry-run --until 'regret<2%'", "--dry-run"},
           {sweep + " --until 'regret<2'", "--until"},
           {sweep + " --until 'regret<.%'", "--until"},
           {sweep + " --until 'regret<1e3%'", "--until"},
           {sweep + " --dry-run --retry-failed", "--retry-failed"},
           {sweep + " --suggest 2 --retry-failed", "--retry-failed"},
           {sweep + " --max-trials 3", "--max-trials"},
           {sweep + " --statistic p10", "--statistic"},
           {sweep + " --suggest-seed 3", "--suggest-seed"},
           {sweep + " --suggest 2 --run --rehearse 3", "--run"},
           {sweep + " --cancel", "--cancel"},
           {"fit r -o f.yaml" + host_ + " --seed 3", "--seed"},
           {"fit r -o f.yaml" + host_ + " --splits 3", "--splits"},
           {"fit r -o f.yaml" + host_ + " --by layout", "--by"},
           {"fit r -o f.yaml" + host_ + " --train-ids a,b --seed 3", "--seed"},
           {"report r -o out --no-figures --png", "--png"},
           {"watch r --once --every 3", "--once"},
           {"score --rows", "--json"},
           {"import runs.csv -o out --machine m.yaml", "--machine"},
           {"import runs.csv -o out --collective all_reduce", "--collective"},
           {"import all_reduce.log --only A100", "--only"},
           {"import all_reduce.log --config base.yaml", "--config"},
           {"calibrate -o m.yaml --ranks 0", "--ranks"}}) {
    const Answer a = isobar(words);
    EXPECT_EQ(a.code, 2) << words << ": " << a.out;
    EXPECT_NE(a.out.find(option), std::string::npos) << words << ": " << a.out;
    EXPECT_NE(a.out.find(" -> "), std::string::npos) << words << ": " << a.out;
    EXPECT_EQ(std::count(a.out.begin(), a.out.end(), '\n'), 1) << a.out;
  }
}

TEST_F(Options, NumbersThatAreNoneAreRefused) {
  for (const char* option : {"--tokens", "--samples"})
    for (const char* value : {"0", "-1", "-1e12", "nan", "inf", "1e12x", "1e999", "''"}) {
      const Answer a = isobar("search " + llama_ + gpu_ + " --gpus 64 " + option + "=" + value);
      EXPECT_EQ(a.code, 2) << option << " " << value << ": " << a.out;
      EXPECT_NE(a.out.find(option), std::string::npos) << a.out;
    }
  for (const char* words :
       {"fit r -o f --machine m.yaml --holdout nan", "fit r -o f --machine m.yaml --fraction=-0.5",
        "fit r -o f --machine m.yaml --holdout 0.5x", "watch r --every nan", "watch r --every=-1"}) {
    const Answer a = isobar(words);
    EXPECT_EQ(a.code, 2) << words << ": " << a.out;
    EXPECT_NE(a.out.find("is not a number from"), std::string::npos) << words << ": " << a.out;
  }
}

TEST_F(Options, AWhatIfIsReadToItsEnd) {
  for (const auto& [change, part] : {std::pair{"nvlink_bw*2,garbage", "',garbage'"},
                                     {"nvlink_bw*2*3", "'*3'"},
                                     {"nvlink_bw*2x", "'x'"},
                                     {"nvlink_bw*", "''"},
                                     {"nvlink_bw", "has no factor"},
                                     {"nvlink_bw*nan", "'nan'"},
                                     {"nvlink_bw*-2", "'-2'"},
                                     {"nvlink*2", "'nvlink'"}}) {
    const Answer a = isobar("search " + llama_ + gpu_ + " --gpus 64 --what-if '" + change + "'");
    EXPECT_EQ(a.code, 2) << change << ": " << a.out;
    EXPECT_NE(a.out.find(part), std::string::npos) << change << ": " << a.out;
  }
}

TEST_F(Options, ASearchKeepsToWhatIsSet) {
  const std::string search = "search " + small_ + gpu_ + " --gpus 16 --top 3";
  for (const auto& [set, key, value] : std::vector<std::tuple<std::string, std::string, json>>{
           {"layout.tp=8", "tp", 8},
           {"layout.tp=2", "tp", 2},
           {"layout.dp=2", "dp", 2},
           {"layout.pp=4", "pp", 4},
           {"layout.cp=2", "cp", 2},
           {"layout.order=dp-tp-cp-pp", "order", "dp-tp-cp-pp"},
           {"layout.vpp=2", "vpp", 2},
           {"policy.micro_batch=2", "micro_batch", 2},
           {"policy.schedule=zb-h1", "schedule", "zb-h1"},
           {"policy.zero=3", "zero", 3},
           {"policy.recompute=full", "recompute", "full"},
           {"policy.sequence_parallel=false", "sequence_parallel", false}}) {
    const Answer a = json_of(search + " --set " + set);
    ASSERT_EQ(a.code, 0) << set << ": " << a.out;
    const json j = json::parse(a.out);
    ASSERT_FALSE(j.at("best").empty());
    for (const json& one : j["best"]) EXPECT_EQ(one.at("layout").at(key), value) << set << ": " << one;
    EXPECT_NE(j.at("given").get<std::string>().find(set.substr(0, set.find('='))), std::string::npos)
        << j["given"];
  }
  const Answer said = isobar("search " + small_ + gpu_ + " --gpus 16 --set layout.tp=8 --set policy.zero=1");
  EXPECT_EQ(said.code, 0) << said.out;
  EXPECT_NE(said.out.find("constraints of the search: layout.tp=8, policy.zero=1"), std::string::npos)
      << said.out;
  // A constraint that no layout can satisfy is refused, not dropped.
  for (const char* set : {"layout.tp=7", "layout.pp=48", "policy.micro_batch=0"})
    EXPECT_EQ(isobar(search + " --set " + set).code, 2) << set;
}

TEST_F(Options, OneNumberOfAcceleratorsThatCannotBeDoesNotEndTheOthers) {
  const std::string words = "search " + small_ + gpu_ + " --gpus 16 --gpus 97 --gpus 32";
  const Answer a = isobar(words);
  EXPECT_EQ(a.code, 2) << a.out;
  EXPECT_NE(a.out.find("97 cannot be shared"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("train.global_batch"), std::string::npos) << a.out;
  EXPECT_NE(a.out.find("96"), std::string::npos) << a.out;
  for (const char* answered : {" on 16 x ", " on 32 x "})
    EXPECT_NE(a.out.find(answered), std::string::npos) << answered << a.out;
  const Answer b = shell(at(isobar_command() + " " + words + " --json 2>/dev/null"));
  EXPECT_EQ(b.code, 2);
  const json j = json::parse(b.out);
  ASSERT_EQ(j.size(), 3u);
  EXPECT_TRUE(j[0].contains("step_s"));
  EXPECT_NE(j[1].at("refused").get<std::string>().find("97"), std::string::npos);
  EXPECT_TRUE(j[2].contains("step_s"));
}

}  // namespace
}  // namespace isobar::cli
