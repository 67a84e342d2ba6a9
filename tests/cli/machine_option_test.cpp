// `--machine NAME`: every command that takes a machine finds a shipped one by name, wherever the program is
// installed.
#include <nlohmann/json.hpp>

#include "tests/cli/shell.h"

namespace isobar::cli {
namespace {

namespace fs = std::filesystem;

class MachineOption : public InDirectory {
 protected:
  void SetUp() override {
    InDirectory::SetUp();
    write_atomically(dir_ / "all_reduce.log", "# nccl-tests version 2.13.9\n");
  }
  Answer isobar(const std::string& words) const {
    return shell(at("timeout 60 " + isobar_command() + " " + words + " 2>&1"));
  }
};

TEST_F(MachineOption, EveryCommandRefusesAnUnknownNameWithTheNearest) {
  for (const std::string words :
       {"predict base.yaml", "sweep sweep.yaml --dry-run", "fit r -o f.yaml", "report r -o out",
        "import all_reduce.log --collective all_reduce", "score"}) {
    const Answer a = isobar(words + " --machine perlmuter");
    EXPECT_EQ(a.code, 2) << words << ": " << a.out;
    EXPECT_NE(a.out.find("--machine: 'perlmuter': is neither"), std::string::npos) << words << ": " << a.out;
    EXPECT_NE(a.out.find("names: perlmutter, "), std::string::npos) << words << ": " << a.out;
    EXPECT_EQ(std::count(a.out.begin(), a.out.end(), '\n'), 1) << a.out;
  }
}

TEST_F(MachineOption, ANameIsItsFile) {
  const std::string words = "search " + shipped("models/llama3-8b.yaml") + " --gpus 16 --json --machine ";
  const Answer name = shell(at(isobar_command() + " " + words + "perlmutter 2>said"));
  const Answer file = shell(at(isobar_command() + " " + words + shipped("machines/perlmutter.yaml")));
  EXPECT_EQ(name.code, 0) << name.out;
  const auto without_time = [](const std::string& text) {
    nlohmann::json j = nlohmann::json::parse(text);
    j.erase("search_s");
    return j;
  };
  EXPECT_EQ(without_time(name.out), without_time(file.out));
  EXPECT_EQ(shell(at("cat said")).out.rfind("machine perlmutter: /", 0), 0u) << "which file it took is said";
}

TEST_F(MachineOption, ASweepsFileNamesOneToo) {
  const auto sweep = [&](const std::string& machine) {
    write_atomically(
        dir_ / "sweep.yaml",
        "base: base.yaml\nset: {run.device: cuda}\nsteps: 12\naxes: {gpus: [4]}\nmachine: " + machine + "\n");
    return isobar("sweep sweep.yaml --dry-run");
  };
  const Answer name = sweep("perlmutter"), file = sweep(shipped("machines/perlmutter.yaml"));
  EXPECT_EQ(name.code, 0) << name.out;
  EXPECT_EQ(name.out, file.out);
  const Answer unknown = sweep("perlmuter");
  EXPECT_EQ(unknown.code, 2) << unknown.out;
  EXPECT_NE(unknown.out.find("sweep.yaml, machine: 'perlmuter': is neither"), std::string::npos)
      << unknown.out;
  const Answer path = sweep("nowhere/perlmutter.yaml");
  EXPECT_EQ(path.code, 2) << path.out;
  EXPECT_NE(path.out.find("there is no file nowhere/perlmutter.yaml"), std::string::npos) << path.out;
}

// As `cmake --install` and the bundle lay it out: bin/isobar, share/isobar/configs or configs.
TEST_F(MachineOption, AnInstalledProgramFindsWhatLiesBesideIt) {
  for (const std::string configs : {"share/isobar/configs", "configs"}) {
    const fs::path prefix = dir_ / ("prefix-" + std::to_string(configs.size()));
    fs::create_directories(prefix / "bin");
    fs::create_directories(prefix / configs / "machines");
    fs::copy_file(isobar_command(), prefix / "bin/isobar");
    fs::copy_file(shipped("machines/dgx-a100.yaml"), prefix / configs / "machines/only-here.yaml");
    const Answer a = shell("cd / && " + (prefix / "bin/isobar").string() + " predict " +
                           shipped("models/llama3-8b.yaml") + " --gpus 16 --machine only-here 2>&1");
    EXPECT_EQ(a.code, 0) << a.out;
    EXPECT_NE(a.out.find((prefix / configs / "machines/only-here.yaml").string()), std::string::npos)
        << a.out;
  }
}

TEST_F(MachineOption, NothingIsSubmittedWhileAnAccountIsMissing) {
  write_atomically(dir_ / "sweep.yaml",
                   "base: base.yaml\nset: {run.device: cuda}\nsteps: 12\naxes: {gpus: [4]}\n");
  for (const std::string machine : {"perlmutter", "perlmutter-80gb"}) {
    const std::string words = "sweep sweep.yaml --launcher slurm --machine " + machine;
    const Answer dry = isobar(words + " --dry-run");
    EXPECT_EQ(dry.code, 0) << dry.out;  // it submits nothing, and needs none
    const Answer a = isobar(words + " --results r");
    EXPECT_EQ(a.code, 2) << a.out;
    EXPECT_NE(a.out.find("'cluster.account': is missing"), std::string::npos) << a.out;
    EXPECT_NE(a.out.find("inherits: /"), std::string::npos) << a.out;
    EXPECT_FALSE(fs::exists(dir_ / "r")) << "something was written";
  }
}

}  // namespace
}  // namespace isobar::cli
