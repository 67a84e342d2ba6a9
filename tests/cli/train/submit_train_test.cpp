// `--launcher` before anything is submitted: errors, each one line with the fix, and previews. Submissions
// that the scheduler refuses leave nothing behind.
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/shell.h"

namespace isobar::cli {
namespace {

class SubmitTrain : public InDirectory {
 protected:
  void SetUp() override {
    InDirectory::SetUp();
    machine("here.yaml", "{scheduler: slurm}");
  }
  void machine(const std::string& name, const std::string& cluster) {
    write_atomically(dir_ / name,
                     "inherits: " + shipped("machines/example-2core.yaml") + "\ncluster: " + cluster + "\n");
  }
  Answer train(const std::string& options) const {
    return shell(at(isobar_command() + " train base.yaml " + options + " 2>&1"));
  }
};

TEST_F(SubmitTrain, RefusesWhatCouldNotGoOn) {
  const std::string every = " --set train.checkpoint_every=1", here = " --launcher slurm --machine here.yaml",
                    to = " --results out";
  machine("short.yaml", "{scheduler: slurm, max_time_s: 60, job_time_s: 60}");
  for (const auto& [options, words] : std::vector<std::pair<std::string, std::string>>{
           {here + to, "train.checkpoint_every"},
           {" --launcher slurm" + to + every, "--machine"},
           {here + every, "--results"},
           {" --launcher pbs --machine here.yaml" + to + every, "cluster.scheduler"},
           {" --launcher slurm --machine short.yaml" + to + every, "cluster.max_time_s"},
           {here + to + every + " --set run.out=elsewhere", "run.out"},
           {here + to + every + " --trace t.json", "--trace"},
           {here + to + every + " --resume elsewhere", "--resume"},
           {here + to + every + " --ranks 3 --set layout.tp=2", "--ranks"},
           {to + every, "--results"},
           {" --no-wait", "--no-wait"}}) {
    const Answer a = train(options);
    EXPECT_EQ(a.code, 2) << options << "\n" << a.out;
    EXPECT_NE(a.out.find(words), std::string::npos) << options << "\n" << a.out;
    EXPECT_NE(a.out.find(" -> "), std::string::npos) << a.out;
    size_t said = 0;
    for (size_t at = a.out.find("isobar: "); at != std::string::npos; at = a.out.find("isobar: ", at + 1))
      ++said;
    EXPECT_EQ(said, 1u) << a.out;
  }
  const Answer ranks = shell(at("mpiexec --allow-run-as-root -n 1 " + isobar_command() + " train base.yaml" +
                                here + to + every + " 2>&1"));
  EXPECT_NE(ranks.code, 0);
  EXPECT_NE(ranks.out.find("one of several ranks"), std::string::npos) << ranks.out;
}

class Submission : public SubmitTrain {
 protected:
  void SetUp() override {
    SubmitTrain::SetUp();
    for (const auto& [name, script] : std::vector<std::pair<std::string, std::string>>{
             {"sbatch",
              "echo sbatch >> called\n[ -e accept ] || { echo 'sbatch: error: Invalid account' >&2; "
              "exit 1; }\nrm accept; echo 12"},
             {"qsub", "echo 'qsub: Unauthorized Request' >&2; exit 159"},
             {"squeue", "true"},
             {"sacct", "true"}}) {
      write_atomically(dir_ / name, "#!/bin/bash\ncd '" + dir_.string() + "'\n" + script + "\n");
      std::filesystem::permissions(dir_ / name, std::filesystem::perms::owner_all);
    }
    machine("shared.yaml",
            "{scheduler: slurm, exclusive: false, ranks_per_node: 2, cores_per_node: 64, gpus_per_rank: 1}");
    machine("pbs.yaml", "{scheduler: pbs, start: openmpi}");
  }
  Answer isobar(const std::string& words) const {
    return shell(at("PATH=" + dir_.string() + ":$PATH " + isobar_command() + " " + words + " 2>&1"));
  }
  std::set<std::string> files() const {
    std::set<std::string> all;
    for (const auto& e : std::filesystem::recursive_directory_iterator(dir_)) all.insert(e.path().string());
    all.erase((dir_ / "called").string());
    return all;
  }
};

// Nothing is submitted or written, and the scripts are those of the jobs.
TEST_F(Submission, APreviewShowsJobsScriptsAndNodeHours) {
  const std::set<std::string> before = files();
  const std::string sweep =
      "sweep sweep.yaml --launcher slurm --machine shared.yaml --results new/out --dry-run";
  const Answer text = isobar(sweep + " -t 0:20:00");
  ASSERT_EQ(text.code, 0) << text.out;
  for (const char* word : {"2 slurm jobs; ", "#SBATCH --gres=gpu:1\n", "#SBATCH --gres=gpu:2\n",
                           "#SBATCH --cpus-per-task=32\n", "#SBATCH --ntasks-per-node=1\n", "sweep-job"})
    EXPECT_NE(text.out.find(word), std::string::npos) << word << text.out;
  const Answer answer = isobar(sweep + " -t 20 --json");
  ASSERT_EQ(answer.code, 0) << answer.out;
  const auto jobs = nlohmann::json::parse(answer.out).at("cluster");
  double hours = 0;
  ASSERT_EQ(jobs.at("jobs").size(), 2u);
  for (const auto& j : jobs["jobs"]) {
    EXPECT_LE(j.at("time_s"), 1200);
    const double asked = j["time_s"].get<double>() / 3600 * j["ranks_a_node"].get<double>() / 2;
    EXPECT_DOUBLE_EQ(j.at("node_hours"), asked);
    hours += asked;
  }
  EXPECT_DOUBLE_EQ(jobs["node_hours"]["most"], hours);
  EXPECT_LE(jobs["node_hours"]["expected"], hours);
  // A training of 36,000 s in jobs of an hour: eleven or more, by what each leaves for its last checkpoint.
  const Answer train = isobar(
      "train base.yaml --launcher slurm --machine here.yaml --results new/out --dry-run "
      "--json -t 1:00:00 --set train.checkpoint_every=1000 --set train.steps=100000000");
  ASSERT_EQ(train.code, 0) << train.out;
  const auto job = nlohmann::json::parse(train.out).at("jobs").at(0);
  EXPECT_EQ(job.at("time_s"), 3600);
  EXPECT_GT(job.at("in_a_row"), 10);
  EXPECT_NE(job.at("script").get<std::string>().find("#SBATCH --time=01:00:00\n"), std::string::npos);
  EXPECT_EQ(files(), before) << "a preview writes nothing";
  EXPECT_FALSE(std::filesystem::exists(dir_ / "called"));
}

TEST_F(Submission, ATimeLimitThatNoJobCouldHaveIsRefused) {
  machine("queue.yaml", "{scheduler: slurm, max_time_s: 1800, min_time_s: 300}");
  const std::string rest = " --results out --dry-run ";
  for (const auto& [options, words] : std::vector<std::pair<std::string, std::string>>{
           {"--launcher slurm --machine queue.yaml -t 1:00:00", "cluster.max_time_s"},
           {"--launcher slurm --machine queue.yaml -t 2", "00:05:00"},
           {"--launcher slurm --machine queue.yaml -t 1h", "HH:MM:SS"},
           {"--launcher pbs --machine pbs.yaml -t 30", "seconds to PBS"},
           {"-t 30", "--launcher"}}) {
    const Answer a = isobar("sweep sweep.yaml" + rest + options);
    EXPECT_EQ(a.code, 2) << a.out;
    EXPECT_NE(a.out.find(words), std::string::npos) << options << ": " << a.out;
  }
  EXPECT_EQ(isobar("sweep sweep.yaml" + rest + "--launcher slurm --machine queue.yaml -t 0:30:00").code, 0);
  EXPECT_EQ(isobar("train base.yaml --dry-run").code, 2);
}

TEST_F(Submission, WhatTheSchedulerRefusesLeavesNothingBehind) {
  const std::set<std::string> before = files();
  const std::string train = "train base.yaml --results new/out --set train.checkpoint_every=1 --launcher ",
                    sweep = "sweep sweep.yaml --results new/out --launcher ";
  for (const auto& [command, said] : std::vector<std::pair<std::string, std::string>>{
           {train + "slurm --machine here.yaml", "sbatch: error: Invalid account"},
           {sweep + "slurm --machine here.yaml", "sbatch: error: Invalid account"},
           {sweep + "pbs --machine pbs.yaml", "qsub: Unauthorized Request"}}) {
    const Answer a = isobar(command);
    EXPECT_EQ(a.code, 2) << a.out;
    EXPECT_NE(a.out.find(said), std::string::npos) << a.out;
    EXPECT_EQ(a.out.find("isobar: "), a.out.rfind("isobar: ")) << "one error: " << a.out;
    EXPECT_EQ(files(), before) << command;
  }
}

// The first job of two is accepted and stays; the refused one's trials are as before.
TEST_F(Submission, OfARefusedSecondJobTheFirstGoesOn) {
  write_atomically(dir_ / "accept", "");
  const Answer a = isobar("sweep sweep.yaml --results out --launcher slurm --machine shared.yaml");
  EXPECT_EQ(a.code, 2) << a.out;
  size_t jobs = 0, claims = 0;
  for (const auto& e : std::filesystem::directory_iterator(dir_ / "out/jobs"))
    jobs += std::filesystem::exists(e.path() / "id");
  for (const auto& e : std::filesystem::directory_iterator(dir_ / "out/trials"))
    claims += std::filesystem::exists(e.path() / "claim");
  EXPECT_EQ(jobs, 1u);
  EXPECT_EQ(claims, 1u);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "out/sweep.json"));
}

// --retry-failed moves an old verdict aside before it submits: a refusal brings it back, file by file.
TEST_F(Submission, ARefusalKeepsEarlierVerdicts) {
  const Answer first = isobar("sweep sweep.yaml gpus=1 train.lr=1e30 steps=8 --results out");
  const std::set<std::string> before = files();
  const Answer again = isobar(
      "sweep sweep.yaml gpus=1 train.lr=1e30 steps=8 --results out --retry-failed "
      "--launcher slurm --machine here.yaml");
  ASSERT_EQ(first.code, 0) << first.out;
  ASSERT_NE(first.out.find(" numeric"), std::string::npos) << first.out;
  EXPECT_EQ(again.code, 2) << again.out;
  std::set<std::string> after = files();
  after.erase((dir_ / "out/lock").string());
  std::set<std::string> kept = before;
  kept.erase((dir_ / "out/lock").string());
  EXPECT_EQ(after, kept);
}

TEST_F(SubmitTrain, ADirectoryHoldsOneTraining) {
  write_atomically(dir_ / "out/sweep.json", R"({"schema": 1, "trials": [{"id": "0123456789abcdef"}]})");
  const Answer a = train("--launcher slurm --machine here.yaml --results out --set train.checkpoint_every=1");
  EXPECT_EQ(a.code, 2) << a.out;
  EXPECT_NE(a.out.find("sweep.json"), std::string::npos) << a.out;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "out/jobs"));
}

}  // namespace
}  // namespace isobar::cli
