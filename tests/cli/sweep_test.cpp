// `isobar sweep` as a user types it, with the stand-in trainer: suggestions, rounds of them, and refusals.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/base/system/files.h"
#include "tests/paths.h"

namespace isobar::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class SweepCommand : public ::testing::Test {
 protected:
  struct Answer {
    int code = -1;
    std::string out;
  };

  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "isobar-cli-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    for (const auto& [name, value] : {std::pair{"FAKE_LOG", (dir_ / "log").string()},
                                      {"FAKE_STEP_MS", std::string("1")},
                                      {"FAKE_SPEEDS", std::string("1")}})
      ::setenv(name, value.c_str(), 1);
    write_atomically(dir_ / "base.yaml",
                     "net: {embed_dim: 64, depth: 1, img_height: 32, img_width: 64, in_channels: 2, "
                     "out_channels: 2}\ntrain: {global_batch: 8}\n");
    write_atomically(dir_ / "sweep.yaml",
                     "base: base.yaml\nset: {run.threads: 1}\nsteps: 12\nwarmup: 2\ngrace_s: 0.2\n"
                     "axes: {gpus: [1, 2], amp: [none, bf16], policy.micro_batch: [1, 2, 4]}\n");
  }
  void TearDown() override { fs::remove_all(dir_); }

  // Chosen so that the command's words need no quoting.
  Answer isobar(const std::string& words, const std::string& errors = "&1") const {
    const std::string command =
        "cd '" + dir_.string() + "' && " + build_dir() + "/isobar " + words + " 2>" + errors;
    Answer a;
    std::FILE* pipe = ::popen(command.c_str(), "r");
    if (!pipe) return a;
    std::array<char, 4096> buffer{};
    for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      a.out.append(buffer.data(), n);
    const int status = ::pclose(pipe);
    a.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return a;
  }
  Answer sweep(const std::string& words) const {
    return isobar("sweep sweep.yaml --trainer " + build_dir() + "/fake_train --machine " + source_dir() +
                      "/configs/machines/example-2core.yaml --json --results r " + words,
                  "/dev/null");
  }
  size_t finished() const {
    size_t n = 0;
    if (fs::exists(dir_ / "r/trials"))
      for (const auto& entry : fs::directory_iterator(dir_ / "r/trials"))
        n += fs::exists(entry.path() / "status.json");
    return n;
  }
  // The trainer's own record of a trial's runs.
  size_t starts() const {
    size_t n = 0;
    const std::string log = fs::exists(dir_ / "log") ? read_file(dir_ / "log") : "";
    for (size_t at = 0; (at = log.find("start ", at)) != std::string::npos; ++at) ++n;
    return n;
  }

  fs::path dir_;
};

// Two tasks of reports/README.md, one command each: a sweep over four axes without a sweep file, and a check
// for runs that have become slower.
TEST_F(SweepCommand, FourAxesInOneCommandAndACheckInAnother) {
  const std::string four = "sweep base.yaml gpus=1,2 amp=none,bf16 workers=0,2 micro_batch=1,2 steps=12",
                    trainer = " --trainer " + build_dir() + "/fake_train --results ";
  const Answer swept = isobar(four + trainer + "r");
  EXPECT_EQ(swept.code, 0) << swept.out;
  EXPECT_EQ(finished(), 16u) << swept.out;
  EXPECT_EQ(isobar("check r --reference reference.jsonl --update").code, 0);
  EXPECT_EQ(isobar("check r --reference reference.jsonl").code, 5) << "a run of one day each: undecided";
  ::setenv("FAKE_SPEEDS", "1.2", 1);
  const Answer later =
      isobar("sweep base.yaml gpus=1,2 amp=bf16 workers=0 micro_batch=1 steps=12" + trainer + "slow");
  EXPECT_EQ(later.code, 0) << later.out;
  const Answer slower = isobar("check slow --reference reference.jsonl");
  EXPECT_EQ(slower.code, 1) << slower.out;
  EXPECT_NE(slower.out.find("slower"), std::string::npos) << slower.out;
}

// For an unknown axis, setting or option, the error suggests a known one.
TEST_F(SweepCommand, MistypedWordsAreToldWhatTheyAreLike) {
  for (const auto& [words, meant] : std::vector<std::pair<std::string, std::string>>{
           {"sweep base.yaml layot.tp=1,2 --dry-run", "did you mean 'layout.tp'?"},
           {"sweep base.yaml gpu=1,2 --dry-run", "did you mean 'gpus'?"},
           {"sweep base.yaml step=12 tp=1,2 --dry-run", "did you mean 'steps'?"},
           {"sweep base.yaml zero_=1,2 --dry-run", "did you mean 'policy.zero'?"},
           {"sweep base.yaml layout.tp=1,2 --repat 3", "did you mean '--repeat'?"},
           {"sweep base.yaml --set layout.tp=1,2", "write KEY=VALUES without --set"},
           {"train base.yaml layout.tp=2", "write --set layout.tp=2"},
           {"train base.yaml --set tp=2", "did you mean 'layout.tp'?"},
           {"plan base.yaml --set train.bach=2", "did you mean 'train.global_batch'?"},
           {"predict base.yaml --machne m.yaml", "did you mean '--machine'?"},
           {"check r --refrence f.jsonl", "did you mean '--reference'?"},
           {"config dif base.yaml base.yaml", "did you mean 'diff'?"},
           {"config show base.yaml --st layot.tp=2", "did you mean '--set'?"},
           {"train base.yaml --tagg slow", "did you mean '--tag'?"}}) {
    const Answer a = isobar(words);
    EXPECT_EQ(a.code, 2) << words << ": " << a.out;
    EXPECT_NE(a.out.find(meant), std::string::npos) << words << ": " << a.out;
    EXPECT_EQ(std::count(a.out.begin(), a.out.end(), '\n'), 1) << a.out;
  }
}

TEST_F(SweepCommand, SuggestNamesTrialsAndRunsThemOnlyWhenAsked) {
  const Answer named = sweep("--suggest 3");
  ASSERT_EQ(named.code, 0) << named.out;
  const json j = json::parse(named.out);
  ASSERT_EQ(j.at("next").size(), 3u) << named.out;
  EXPECT_EQ(j.at("trials"), 12);
  EXPECT_EQ(finished(), 0u);
  const Answer ran = sweep("--suggest 3 --run");
  ASSERT_EQ(ran.code, 0) << ran.out;
  EXPECT_EQ(finished(), 3u);
  EXPECT_EQ(starts(), 3u);
  for (const json& one : j["next"])
    EXPECT_TRUE(fs::exists(dir_ / "r/trials" / one.at("id").get<std::string>() / "status.json"));
  // Finished trials are not suggested again.
  const json after = json::parse(sweep("--suggest 12").out);
  EXPECT_EQ(after.at("measured"), 3);
  std::set<std::string> ids;
  for (const json& one : after.at("next")) {
    EXPECT_TRUE(ids.insert(one.at("id")).second);
    EXPECT_FALSE(fs::exists(dir_ / "r/trials" / one.at("id").get<std::string>() / "status.json"));
  }
  EXPECT_EQ(ids.size(), 9u);
}

TEST_F(SweepCommand, UntilEndsWithTheFastestAndRunsNothingTwice) {
  const Answer a = sweep("--until 'regret<1%'");
  ASSERT_EQ(a.code, 0) << a.out;
  const json rounds = json::parse(a.out).at("rounds");
  const json& last = rounds.back();
  EXPECT_TRUE(last.at("expected_regret").get<double>() < 0.01 || finished() == 12u) << last;
  EXPECT_EQ(starts(), finished());
  // By the stand-in's law the choice has two ranks, bf16 and the largest micro-batch.
  const json& axes = last.at("choice").at("axes");
  EXPECT_EQ(axes.at("ranks"), 2) << axes;
  EXPECT_EQ(axes.at("policy.amp"), "bf16") << axes;
  EXPECT_EQ(axes.at("policy.micro_batch"), 4) << axes;
  // The same command again has nothing left to do.
  const size_t before = starts();
  EXPECT_EQ(sweep("--until 'regret<1%'").code, 0);
  EXPECT_EQ(starts(), before);
}

TEST_F(SweepCommand, UntilSaysWhenTheBoundWasNotReached) {
  const Answer a = sweep("--until 'regret<0.0001%' --max-trials 2 --suggest 2");
  EXPECT_EQ(a.code, 1) << a.out;
  EXPECT_EQ(finished(), 2u);
}

TEST_F(SweepCommand, NoisyTrialsAreNoFailures) {
  write_atomically(dir_ / "sweep.yaml",
                   read_file(dir_ / "sweep.yaml") + "noise_limit: 0.0001\nrepetitions: 2\n");
  ASSERT_EQ(sweep("--suggest 2 --run").code, 0);
  EXPECT_EQ(finished(), 2u);
  const Answer a = sweep("--suggest 24");
  ASSERT_EQ(a.code, 0) << a.out;
  const json j = json::parse(a.out);
  EXPECT_EQ(j.at("measured"), 0);
  EXPECT_EQ(j.at("next").size(), 22u) << "the other repetitions of what was noisy can still be run";
}

TEST_F(SweepCommand, UntilClaimsNothingWhereNoTrialWasMeasured) {
  const std::string plain = read_file(dir_ / "sweep.yaml");
  write_atomically(dir_ / "sweep.yaml", plain + "noise_limit: 0.0001\n");  // each is too noisy to count
  Answer a = sweep("--until 'regret<2%'");
  EXPECT_EQ(a.code, 1) << a.out;
  EXPECT_EQ(finished(), 12u);
  json j = json::parse(a.out);
  EXPECT_EQ(j.at("measured"), 0);
  EXPECT_EQ(j.at("reached"), false);
  fs::remove_all(dir_ / "r");
  // Every trial fails, and predictions alone never satisfy a bound.
  write_atomically(dir_ / "sweep.yaml", plain + "exclude: [{amp: none}]\n");
  write_atomically(dir_ / "base.yaml", read_file(dir_ / "base.yaml") + "data: {workers: 0}\n");
  write_atomically(dir_ / "crash.yaml", "inherits: base.yaml\ntrain: {seed: 107}\n");
  std::string text = read_file(dir_ / "sweep.yaml");
  text.replace(text.find("base.yaml"), 9, "crash.yaml");
  write_atomically(dir_ / "sweep.yaml", text);
  a = sweep("--until 'regret<99%'");
  EXPECT_EQ(a.code, 1) << a.out;
  j = json::parse(a.out);
  EXPECT_EQ(j.at("measured"), 0);
  EXPECT_EQ(j.at("reached"), false);
  const Answer said =
      isobar("sweep sweep.yaml --trainer " + build_dir() + "/fake_train --machine " + source_dir() +
             "/configs/machines/example-2core.yaml --results s --until 'regret<99%'");
  EXPECT_EQ(said.code, 1);
  EXPECT_NE(said.out.find("no trial was measured"), std::string::npos) << said.out;
  EXPECT_EQ(said.out.find("is reached"), std::string::npos) << said.out;
}

TEST_F(SweepCommand, DryRunSaysOfEveryTrialWhatItTakesAndWhatWillNotFit) {
  // A host with room for one rank, and the same with a share of the others run on purpose.
  write_atomically(dir_ / "small.yaml",
                   "inherits: " + source_dir() +
                       "/configs/machines/example-2core.yaml\nidentity: {memory_bytes: 200000000}\n");
  const auto dry = [&](const std::string& more) {
    write_atomically(dir_ / "dry.yaml", read_file(dir_ / "sweep.yaml") + "repetitions: 4\n" + more);
    return json::parse(isobar("sweep dry.yaml --dry-run --json --machine small.yaml", "/dev/null").out);
  };
  const auto told = [](const json& f) {
    return f.at("step_s").get<double>() > 0 && f.at("memory_bytes").get<double>() > 0 &&
           f.at("rank_hours").get<double>() > 0;
  };
  const json j = dry("");
  EXPECT_EQ(j.at("trials").size(), 24u);  // of one rank
  EXPECT_EQ(j.at("skipped").size(), 24u);
  for (const json& t : j["trials"]) {
    EXPECT_EQ(t.at("ranks"), 1);
    EXPECT_TRUE(told(t.at("forecast"))) << t;
    EXPECT_EQ(t["forecast"].at("infeasible"), "");
  }
  for (const json& s : j["skipped"]) {
    EXPECT_EQ(s.at("state"), "skipped_infeasible");
    EXPECT_TRUE(told(s.at("forecast"))) << s;
    EXPECT_NE(s.at("reason").get<std::string>().find("GB"), std::string::npos) << s;
  }
  const json probed = dry("probe_infeasible: 0.5\n");
  size_t on_purpose = 0;
  for (const json& t : probed.at("trials")) on_purpose += t.at("forecast").at("infeasible") != "";
  EXPECT_GT(on_purpose, 3u);
  EXPECT_LT(on_purpose, 21u);
  EXPECT_EQ(probed["trials"].size() + probed.at("skipped").size(), 48u);
  EXPECT_EQ(dry("probe_infeasible: 0.5\n"), probed) << "the same ones every time";
}

TEST_F(SweepCommand, RefusesWhatContradictsItself) {
  for (const auto& [words, key] : {std::pair{"--until 'regret<2%' --launcher pbs --no-wait", "--no-wait"},
                                   {"--no-wait", "--no-wait"},
                                   {"--after 7", "--after"},
                                   {"--until 'speed>2'", "--until"}}) {
    const Answer a = isobar("sweep sweep.yaml --results r --machine " + source_dir() +
                            "/configs/machines/example-2core.yaml " + std::string(words));
    EXPECT_EQ(a.code, 2) << words << ": " << a.out;
    EXPECT_NE(a.out.find(std::string("'") + key + "'"), std::string::npos) << a.out;
    EXPECT_NE(a.out.find(" -> "), std::string::npos) << a.out;
  }
  EXPECT_FALSE(fs::exists(dir_ / "r"));
}

}  // namespace
}  // namespace isobar::cli
