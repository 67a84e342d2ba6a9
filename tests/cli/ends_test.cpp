// Limits of the system on a command (memory, files) and names that cannot exist: one line and an exit code
// that says which it was.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "shell.h"

namespace isobar::cli {
namespace {

namespace fs = std::filesystem;

class Ends : public InDirectory {
 protected:
  /// Standard error of a command that is to fail: one line.
  Answer failed(const std::string& line) const {
    const Answer a = shell(at(line + " 2>&1 >/dev/null"));
    EXPECT_NE(a.code, 0) << line;
    EXPECT_LT(a.code, 126) << line << ": " << a.out;
    // A bar of progress may come before it.
    const size_t before = a.out.size() < 2 ? std::string::npos : a.out.rfind('\n', a.out.size() - 2);
    const std::string last = before == std::string::npos ? a.out : a.out.substr(before + 1);
    EXPECT_TRUE(before == std::string::npos || a.out.find(" in 0m") < before) << line << ": " << a.out;
    EXPECT_TRUE(last.starts_with("isobar")) << line << ": " << a.out;
    return a;
  }
};

TEST_F(Ends, ALimitOnFileSizesIsAWriteThatFails) {
  const Answer a = failed("ulimit -f 8 && " + isobar_command() +
                          " train base.yaml --set run.out=out --set train.checkpoint_every=1");
  EXPECT_NE(a.out.find("File too large"), std::string::npos) << a.out;
}

// Within some megabytes of what it takes, threads cannot start, libraries abort, exceptions leave threads.
TEST_F(Ends, ALimitOnMemoryIsOneLineWhereverItRunsOut) {
  const std::string train = isobar_command() + " train base.yaml --set train.steps=1";
  const auto under = [&](int64_t kib) {
    return shell(at("ulimit -v " + std::to_string(kib) + " && " + train + " 2>err >/dev/null"));
  };
  int64_t enough = 100'000;  // kB: the least, to 5 MB, with which it trains
  while (enough < 4'000'000 && under(enough).code != 0) enough += enough < 400'000 ? 5'000 : 50'000;
  ASSERT_LT(enough, 4'000'000);
  int refused = 0;
  for (int64_t kib = enough - 60'000; kib < enough + 20'000; kib += 4'000) {
    SCOPED_TRACE(std::to_string(kib) + " kB");
    const Answer a = under(kib);
    const std::string said = read_file(dir_ / "err");
    if (a.code == 0) continue;  // it was enough
    // The loader of libraries, or what they do before main.
    if (shell("ulimit -v " + std::to_string(kib) + " && " + isobar_command() + " --version >/dev/null 2>&1")
            .code != 0)
      continue;
    ++refused;
    EXPECT_EQ(a.code, 4) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_NE(said.find("out of memory"), std::string::npos) << said;
    EXPECT_NE(said.find(" MB"), std::string::npos) << said;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(Ends, PathsThatNoFileCanHave) {
  const std::string longest(300, 'x'), bytes = "$\'a\\xff\'";
  for (const std::string& name : {longest, bytes, "d/" + longest + "/x", longest + ".nc", longest + ".zarr"})
    for (const std::string command : {"plan NAME",
                                      "train NAME",
                                      "train base.yaml --resume NAME",
                                      "train base.yaml --set run.out=NAME",
                                      "train base.yaml --set data.train=NAME",
                                      "train base.yaml --trace NAME/x",
                                      "data inspect NAME",
                                      "data inspect NAME --json",
                                      "data stats NAME -o s",
                                      "data convert NAME out.zarr",
                                      "watch NAME --once",
                                      "report NAME -o r",
                                      "forecast NAME -o f.nc",
                                      "verify NAME -o v",
                                      "export NAME -o e",
                                      "sweep NAME",
                                      "config show NAME",
                                      "import NAME -o i",
                                      "fit NAME -o m.yaml",
                                      "predict base.yaml --machine NAME",
                                      "check NAME"}) {
      std::string words = command;
      if (name == bytes && words.find("--trace") != std::string::npos) continue;  // any bytes name a file
      words.replace(words.find("NAME"), 4, name);
      const Answer a = failed(isobar_command() + " " + words);
      EXPECT_EQ(a.code, 2) << words << ": " << a.out;
      for (const char* raw : {"json.exception", "filesystem error", "std::", "basic_string"})
        EXPECT_EQ(a.out.find(raw), std::string::npos) << words << ": " << a.out;
    }
}

// Records of a folder whose name is not UTF-8 are still valid JSON.
TEST_F(Ends, AFolderWhoseNameIsNoUtf8) {
  const fs::path folder = dir_ / "a\xff";
  fs::create_directories(folder);
  fs::rename(dir_ / "base.yaml", folder / "base.yaml");
  const std::string in = "cd $\'a\\xff\' && " + isobar_command();
  const Answer trained = shell(at(in + " train base.yaml --set run.out=out --json 2>&1"));
  EXPECT_EQ(trained.code, 0) << trained.out;
  const Answer made = shell(at(in + " data make data --height 8 --width 16 --channels 2 --json 2>&1"));
  const Answer seen = shell(at(in + " data inspect \"$PWD/data/train\" --json 2>&1"));
  EXPECT_EQ(made.code, 0) << made.out;
  EXPECT_EQ(seen.code, 0) << seen.out;
}

// netCDF would read its settings from there, and wait for this one's writer.
TEST_F(Ends, NoSettingsFromTheWorkingDirectory) {
  for (const char* name : {".ncrc", ".daprc", ".dodsrc"}) ASSERT_EQ(::mkfifo((dir_ / name).c_str(), 0600), 0);
  ASSERT_EQ(shell(at(isobar_command() + " data make-archive . >/dev/null 2>&1")).code, 0);
  const Answer a = shell(at("timeout -s KILL 60 " + isobar_command() +
                            " data inspect $(find . -name \"*.nc\" | head -n 1) 2>&1"));
  EXPECT_EQ(a.code, 0) << a.out;
}

// The environment that is there stays until its successor is whole.
TEST_F(Ends, SetupKeepsAnEnvironmentThatItCannotReplace) {
  if (shell("python3 -m venv --help >/dev/null 2>&1").code != 0 ||
      shell("python3 -c \"import ensurepip\" 2>/dev/null").code != 0)
    GTEST_SKIP() << "python3-venv is not installed";
  fs::create_directories(dir_ / ".venv-x/bin");
  std::ofstream(dir_ / ".venv-x/bin/python") << "old";
  const std::string setup =
      "source \"" + source_dir() + "/bench/setup.sh\"; ISOBAR_ROOT=$PWD; export PIP_NO_INDEX=1; ";
  EXPECT_NE(shell(at(setup + "python_env .venv-x no-such-package==1.0 2>/dev/null")).code, 0);
  EXPECT_EQ(read_file(dir_ / ".venv-x/bin/python"), "old");
  EXPECT_FALSE(fs::exists(dir_ / ".venv-x.new"));
  const Answer made =
      shell(at(setup + "python_env .venv-x pip && .venv-x/bin/pip --version && python_env .venv-x pip 2>&1"));
  EXPECT_EQ(made.code, 0) << made.out;
  EXPECT_NE(made.out.find("has pip"), std::string::npos) << made.out;
  EXPECT_NE(made.out.find(".venv-x/lib"), std::string::npos) << made.out;
  EXPECT_FALSE(fs::exists(dir_ / ".venv-x.new") || fs::exists(dir_ / ".venv-x.old"));
}

}  // namespace
}  // namespace isobar::cli
