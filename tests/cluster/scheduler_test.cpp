// Schedulers with partial, malformed or missing answers, played by scripts in PATH: a job counts as over only
// where its scheduler says so of it alone, and unreadable answers are reported.
#include "bench/cluster/schedulers/scheduler.h"

#include <algorithm>
#include <random>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "tests/sweep/support.h"

namespace isobar::cluster {
namespace {

class SchedulerAnswers : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("PATH");
    path_ = path ? path : "";
    ::setenv("PATH", (scratch_.path().string() + ":" + path_).c_str(), 1);
  }
  void TearDown() override { ::setenv("PATH", path_.c_str(), 1); }
  /// A command of the scheduler's; each call is a line in `asked`.
  void plays(const std::string& name, const std::string& script) {
    const std::string file = scratch_ / name;
    write_atomically(file, "#!/bin/bash\necho \"" + name + " $*\" >> '" + (scratch_ / "asked").string() +
                               "'\n" + script + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  std::vector<std::string> asked() const {
    std::vector<std::string> lines;
    std::istringstream in(read_file(scratch_ / "asked"));
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  static std::string job(const std::string& id, const std::string& state) {
    return R"({"Jobs":{")" + id + R"(":{"Job_Name":"isobar","job_state":")" + state +
           R"(","Resource_List":{"nodect":2},"resources_used":{"walltime":"00:01:40"},"exec_host":"n1/0+n2/0"}}})";
  }
  sweep::Scratch scratch_;
  std::string path_;
};

const std::vector<JobKey> kThree = {{"isobar-a", "10.s"}, {"isobar-b", "11.s"}, {"isobar-c", "12.s"}};

TEST_F(SchedulerAnswers, PbsThatSaysOneOfThreeIsAskedForTheOthers) {
  const std::string one = source_dir() + "/tests/fixtures/cases/qstat_says_one_of_three.json";
  plays("qstat", "case \"$*\" in\n *'10.s 11.s 12.s') cat '" + one + "' ;;\n *11.s) echo '" +
                     job("11.s", "R") +
                     "' ;;\n *12.s) echo 'qstat: Unknown Job Id 12.s' >&2; exit 153 ;;\nesac");
  const auto scheduler = pbs();
  const auto words = scheduler->ask(kThree);
  ASSERT_TRUE(words);
  EXPECT_EQ((*words)[0].phase, JobPhase::running);
  EXPECT_EQ((*words)[1].phase, JobPhase::running);  // missing from the first answer
  EXPECT_EQ((*words)[2].phase, JobPhase::ended);    // queried alone, the server says that it has none
  EXPECT_EQ((*words)[2].state, "forgotten by the scheduler");
  EXPECT_EQ(scheduler->trouble(), "");
  EXPECT_EQ(asked().size(), 3u);
  const auto books = scheduler->accounts({"10.s", "11.s", "12.s"});
  ASSERT_TRUE(books);
  EXPECT_EQ(books->size(), 2u);
  EXPECT_EQ(books->at("11.s").at(0).elapsed_s, 100);
  EXPECT_EQ(books->at("11.s").at(0).nodes, 2);
}

// OpenPBS 1255: quotes in a job's variables make the whole answer no JSON.
TEST_F(SchedulerAnswers, PbsWhoseJsonIsBrokenByOneJob) {
  const std::string broken = R"({"Jobs":{"11.s":{"job_state":"R","Variable_List":{"A":"say "hi""}}}})";
  plays("qstat",
        "case \"$*\" in\n *'10.s 11.s 12.s'|*'json 11.s') echo '" + broken + "' ;;\n *10.s) echo '" +
            job("10.s", "Q") + "' ;;\n *12.s) echo '" + job("12.s", "F") +
            "' ;;\n *11.s) printf 'Job Id: 11.s\\n    Job_Name = isobar\\n    job_state = R\\n"
            "    Resource_List.nodect = 3\\n    Variable_List = A=say \"hi\",\\n\\tB=2\\n' ;;\nesac");
  const auto scheduler = pbs();
  const auto words = scheduler->ask(kThree);
  ASSERT_TRUE(words);
  EXPECT_EQ((*words)[0].phase, JobPhase::waiting);
  EXPECT_EQ((*words)[1].phase, JobPhase::running);  // by qstat's own form
  EXPECT_EQ((*words)[2].phase, JobPhase::ended);
  const std::string& trouble = scheduler->trouble();
  for (const std::string& word :
       {std::string("qstat"), "no JSON at byte " + std::to_string(broken.find("hi") + 1), std::string("hi")})
    EXPECT_NE(trouble.find(word), std::string::npos) << word << " is not in: " << trouble;
  EXPECT_EQ(scheduler->accounts({"11.s"})->at("11.s").at(0).nodes, 3);
}

TEST_F(SchedulerAnswers, PbsThatSaysNothingOfAJobLeavesItOpen) {
  const auto scheduler = pbs();
  plays("qstat", "case \"$*\" in\n *'10.s 11.s 12.s') echo '" + job("10.s", "R") +
                     "' ;;\n *) echo 'qstat: cannot connect to server s (errno=15010)' >&2; exit 1 ;;\nesac");
  auto words = scheduler->ask(kThree);
  ASSERT_TRUE(words);
  EXPECT_EQ((*words)[0].phase, JobPhase::running);
  EXPECT_EQ((*words)[1].phase, JobPhase::unknown);
  EXPECT_EQ((*words)[2].phase, JobPhase::unknown);
  EXPECT_NE(scheduler->trouble().find("cannot connect"), std::string::npos) << scheduler->trouble();
  plays("qstat", "echo 'qstat: cannot connect to server s (errno=15010)' >&2; exit 1");
  EXPECT_FALSE(scheduler->ask(kThree));
  EXPECT_NE(scheduler->trouble().find("cannot connect"), std::string::npos) << scheduler->trouble();
  // A submitter died before it had the id: the name is not found, or the server does not answer.
  plays("qselect", "true");
  EXPECT_EQ(scheduler->ask({{"isobar-a", ""}})->at(0).phase, JobPhase::unheard_of);
  plays("qselect", "echo 'qselect: cannot connect' >&2; exit 1");
  EXPECT_EQ(scheduler->ask({{"isobar-a", ""}})->at(0).phase, JobPhase::unknown);
  EXPECT_NE(scheduler->trouble().find("qselect"), std::string::npos) << scheduler->trouble();
}

TEST_F(SchedulerAnswers, SlurmThatLeavesAJobOutIsAskedForItAlone) {
  const auto scheduler = slurm();
  plays("squeue",
        "case \"$*\" in\n *--name=isobar-a,isobar-b,isobar-c) echo '10|isobar-a|RUNNING|None' ;;\n"
        " *--jobs=11.s) echo '11|isobar-b|PENDING|Priority' ;;\n"
        " *) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1 ;;\nesac");
  plays("sacct", "echo '12.s|NODE_FAIL'");
  const auto words = scheduler->ask(kThree);
  ASSERT_TRUE(words);
  EXPECT_EQ((*words)[0].phase, JobPhase::running);
  EXPECT_EQ((*words)[1].phase, JobPhase::waiting);
  EXPECT_EQ((*words)[1].reason, "Priority");
  EXPECT_EQ((*words)[2].phase, JobPhase::ended);
  EXPECT_EQ((*words)[2].state, "NODE_FAIL");
  EXPECT_EQ(scheduler->trouble(), "");
  // It does not answer about the others, or answers in another form.
  plays("squeue",
        "case \"$*\" in\n *--jobs*) echo 'slurm_load_jobs error: Socket timed out' >&2; exit 1 ;;\n"
        " *) echo '10|isobar-a|RUNNING|None'; echo 'a line of no form' ;;\nesac");
  const auto again = scheduler->ask(kThree);
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)[0].phase, JobPhase::running);
  EXPECT_EQ((*again)[1].phase, JobPhase::unknown);
  EXPECT_NE(scheduler->trouble().find("timed out"), std::string::npos) << scheduler->trouble();
  plays("squeue", "echo 'a line of no form'; echo '10|isobar-a|RUNNING|None'");
  EXPECT_EQ(scheduler->ask({{"isobar-a", "10"}})->at(0).phase, JobPhase::running);
  EXPECT_NE(scheduler->trouble().find("a line of no form"), std::string::npos) << scheduler->trouble();
}

TEST_F(SchedulerAnswers, AStateThatSlurmHadNotYetIsNoEnd) {
  const auto scheduler = slurm();
  const auto phase = [&](const std::string& state) {
    plays("squeue", "echo '10|isobar-a|" + state + "|None'");
    return scheduler->ask({{"isobar-a", "10"}})->at(0).phase;
  };
  EXPECT_EQ(phase("EXPEDITING"), JobPhase::unknown);
  EXPECT_NE(scheduler->trouble().find("EXPEDITING"), std::string::npos) << scheduler->trouble();
  for (const char* state : {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL",
                            "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT"})
    EXPECT_EQ(phase(state), JobPhase::ended) << state;
  EXPECT_EQ(scheduler->trouble(), "");
  plays("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  for (const auto& [state, expected] : {std::pair{"CANCELLED by 1000", JobPhase::ended},
                                        {"REQUEUED", JobPhase::waiting},
                                        {"SOMETHING_NEW", JobPhase::unknown}}) {
    plays("squeue", "case \"$*\" in *--name*) ;; *) echo 'Invalid job id specified' >&2; exit 1 ;; esac");
    plays("sacct", std::string("echo '10|") + state + "'");
    EXPECT_EQ(scheduler->ask({{"isobar-a", "10"}})->at(0).phase, expected) << state;
  }
}

// The greeting is Stampede3's (llnl/maestrowf 441), whose first line is empty.
TEST_F(SchedulerAnswers, TheIdIsBehindWhatASiteSaysAboveIt) {
  const auto says = [&](const std::string& program, const std::string& text) {
    plays(program, "cat <<'END'\n" + text + "\nEND");
    ClusterSpec c;
    return (program == "qsub" ? pbs() : slurm())->submit(c, scratch_.path(), "script");
  };
  const std::string greeting =
      "\n-----\n   Welcome to the Stampede3 Supercomputer\n-----\n\nNo reservation for this job\n"
      "--> Verifying access to desired queue (spr)...OK\n";
  for (const std::string& above : {std::string(), greeting}) {
    EXPECT_EQ(says("sbatch", above + "519605"), "519605");
    EXPECT_EQ(says("sbatch", above + "519605;stampede3\n"), "519605");
    EXPECT_EQ(says("sbatch", above + "Submitted batch job 519605"), "519605");
    EXPECT_EQ(says("qsub", above + "39352.pbs-1"), "39352.pbs-1");
  }
  EXPECT_EQ(says("sbatch", ""), "");  // found by its name
  EXPECT_EQ(says("qsub", greeting + "Thank you"), "");
}

TEST_F(SchedulerAnswers, ARefusalHasItsReason) {
  const auto refusal = [&](const std::string& script) -> std::string {
    plays("sbatch", script + "; exit 1");
    try {
      slurm()->submit({}, scratch_.path(), "script");
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  const std::string warning = "echo 'sbatch: no partition specified, using default partition serial' >&2";
  EXPECT_NE(refusal(warning + "; echo 'sbatch: error: Invalid account' >&2")
                .find("the job: sbatch: error: Invalid account"),
            std::string::npos);
  EXPECT_NE(refusal("echo Welcome; echo '--> Checking allocation...FAILED'")
                .find("the job: --> Checking allocation...FAILED"),
            std::string::npos);
  EXPECT_NE(refusal(":").find("the job: it does not say why (exit code 1)"), std::string::npos);
}

// As `scontrol show hostnames` of Slurm 22.05 expands them; the last has a suffix, which it refuses.
TEST_F(SchedulerAnswers, NodesOfASlurmJobAreReadWithoutItsPrograms) {
  const auto nodes = [&](const std::string& list) {
    ::setenv("SLURM_JOB_NODELIST", list.c_str(), 1);
    std::string all;
    for (const std::string& node : slurm()->own_nodes()) all += node + " ";
    return all;
  };
  EXPECT_EQ(nodes("n1"), "n1 ");
  EXPECT_EQ(nodes("n[001-003,7]"), "n001 n002 n003 n7 ");
  EXPECT_EQ(nodes("login,r[1-2]n[08-10],x-1"), "login r1n08 r1n09 r1n10 r2n08 r2n09 r2n10 x-1 ");
  EXPECT_EQ(nodes("nid[000098-000101]"), "nid000098 nid000099 nid000100 nid000101 ");
  EXPECT_EQ(nodes("tux[0-1,04-05]"), "tux0 tux1 tux04 tux05 ");
  EXPECT_EQ(nodes("n[8-10]-ib0"), "n8-ib0 n9-ib0 n10-ib0 ");
  for (const char* wrong : {"", "n[1", "n1]", "n[a-b]", "n1,n[3-1]", "n[1-99999999999]"})
    EXPECT_THROW(nodes(wrong), std::runtime_error) << wrong;
  ::unsetenv("SLURM_JOB_NODELIST");
}

// A sweep that is submitted from an interactive job
TEST_F(SchedulerAnswers, ASubmittedJobInheritsNothingOfTheJobAround) {
  const std::vector<std::pair<const char*, const char*>> outer = {{"SLURM_JOB_ID", "7"},
                                                                  {"SLURM_MEM_PER_CPU", "4096"},
                                                                  {"SRUN_CPUS_PER_TASK", "4"},
                                                                  {"SLURM_CONF", "/etc/x"}};
  plays("sbatch", "env | grep -E '^(SLURM|SRUN)_' > '" + (scratch_ / "inherited").string() + "'; echo 12");
  const auto inherited = [&] {
    EXPECT_EQ(slurm()->submit({}, scratch_.path(), "script"), "12");
    return read_file(scratch_ / "inherited");
  };
  for (const auto& [name, value] : outer) ::setenv(name, value, 1);
  EXPECT_EQ(inherited(), "SLURM_CONF=/etc/x\n");
  ::unsetenv("SLURM_JOB_ID");  // outside of jobs they are the user's own
  EXPECT_NE(inherited().find("SRUN_CPUS_PER_TASK=4"), std::string::npos);
  for (const auto& [name, value] : outer) ::unsetenv(name);
}

// A time limit is no cancellation, after which a sweep holds the job's trials back.
TEST_F(SchedulerAnswers, PbsJobsThatUsedTheirTimeWereNotCancelled) {
  const auto state = [&](const std::string& status, const std::string& used) {
    plays("qstat", R"(echo '{"Jobs":{"10.s":{"job_state":"F","Exit_status":)" + status +
                       R"(,"Resource_List":{"walltime":"00:20:00"},"resources_used":{"walltime":")" + used +
                       R"("}}}}')");
    return pbs()->ask({{"isobar-a", "10.s"}})->at(0).state;
  };
  EXPECT_EQ(state("-29", "00:20:06"), "TIMEOUT");
  EXPECT_EQ(state("271", "00:20:06"), "TIMEOUT");
  EXPECT_EQ(state("271", "00:19:59"), "CANCELLED");
  EXPECT_EQ(state("0", "00:20:06"), "COMPLETED");
  EXPECT_EQ(state("\"0\"", "00:20:06"), "COMPLETED");  // as a text
}

// Accounting of jobs that a first answer omits is queried for each alone.
TEST_F(SchedulerAnswers, SlurmsBooksThatLeaveAJobOut) {
  const auto scheduler = slurm();
  plays("sacct",
        "case \"$*\" in\n *--jobs=10,11) echo '10|COMPLETED|60|2|n[1-2]' ;;\n"
        " *--jobs=11) echo '11|TIMEOUT|120|1|n3' ;;\nesac");
  const auto books = scheduler->accounts({"10", "11"});
  ASSERT_TRUE(books);
  EXPECT_EQ(books->at("10").at(0).elapsed_s, 60);
  EXPECT_EQ(books->at("11").at(0).state, "TIMEOUT");
}

// Answers about random jobs, of which any may be missing: the state of one job must not depend on the others.
TEST_F(SchedulerAnswers, PbsPartialAnswersOfRandomJobs) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 5; ++round) {
    std::vector<JobKey> keys;
    std::vector<JobPhase> expected;
    std::string some, alone;
    const size_t n = 2 + random() % 5;
    for (size_t i = 0; i < n; ++i) {
      const std::string id = std::to_string(100 + i) + ".server";
      const size_t state = random() % 4;  // 3: gone
      const char* const letters[] = {"R", "Q", "F"};
      const JobPhase phases[] = {JobPhase::running, JobPhase::waiting, JobPhase::ended, JobPhase::ended};
      keys.push_back({"isobar-" + std::to_string(i), id});
      expected.push_back(phases[state]);
      if (state == 3) {
        alone += " *'json " + id + "') echo 'qstat: Unknown Job Id " + id + "' >&2; exit 153 ;;\n";
        continue;
      }
      const std::string whole = job(id, letters[state]);
      alone += " *'json " + id + "') echo '" + whole + "' ;;\n";
      if (random() % 2 == 0) some += (some.empty() ? "" : ",") + whole.substr(9, whole.size() - 11);
    }
    plays("qstat", "case \"$*\" in\n" + alone + " *) echo '{\"Jobs\":{" + some + "}}' ;;\nesac");
    const auto words = pbs()->ask(keys);
    ASSERT_TRUE(words);
    for (size_t i = 0; i < n; ++i) EXPECT_EQ((*words)[i].phase, expected[i]) << keys[i].id;
  }
}

}  // namespace
}  // namespace isobar::cluster
