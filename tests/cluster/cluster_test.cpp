// Scripts, placement and grouping of cluster jobs, without a scheduler; tests/slurm.sh and pbs.py test them
// as a whole.
#include "bench/cluster/cluster.h"

#include <signal.h>

#include <array>
#include <map>
#include <random>
#include <set>

#include "bench/cluster/command.h"
#include "bench/cluster/grouping.h"
#include "bench/cluster/jobscript.h"
#include "bench/cluster/placement.h"
#include "bench/cluster/preflight.h"
#include "bench/cluster/submit.h"
#include "bench/sweep/results/resultsdir.h"
#include "bench/sweep/results/trialdir.h"
#include "bench/sweep/run/jobs.h"
#include "model/base/error.h"
#include "model/base/text/yaml.h"
#include "tests/sweep/support.h"

namespace isobar::cluster {
namespace {

using nlohmann::json;

ClusterSpec cluster(const std::string& yaml) {
  return cluster_from_json(parse_yaml(yaml, "m.yaml"), "m.yaml");
}

std::string random_word(std::mt19937_64& random) {
  static const std::string letters = "ab $`\"'\\;&|<>(){}[]*?~!#%=\t\xc3\xa9";
  std::string word;
  for (size_t n = random() % 12; n > 0; --n) word += letters[random() % letters.size()];
  return word;
}

TEST(JobScript, EveryWordReachesTheCommandAsItIs) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  sweep::Scratch scratch;
  for (int i = 0; i < 20; ++i) {
    ClusterSpec c = cluster("{scheduler: slurm}");
    std::vector<std::string> words = {"/usr/bin/printf", "%s\\n"};
    for (int n = 0; n < 4; ++n) words.push_back(random_word(random));
    const std::string value = random_word(random), argument = random_word(random);
    c.environment = {{"VALUE", value}};
    c.preamble = {{"/usr/bin/printf", "%s\\n", argument}};
    words.push_back("end");
    for (const bool pbs : {false, true}) {
      const JobRequest job{.name = "isobar-1", .cwd = scratch.path().string(), .command = words};
      const std::string file = scratch / "script";
      write_atomically(file, pbs ? pbs_script(c, job) : slurm_script(c, job));
      const Said s = say({"bash", file}, {.cwd = "/"});
      std::string expected = argument + "\n";
      for (size_t w = 2; w < words.size(); ++w) expected += words[w] + "\n";
      EXPECT_EQ(s.out, expected) << s.err;
      JobRequest shows = job;
      shows.command = {"/usr/bin/printenv", "VALUE"};
      write_atomically(file, pbs ? pbs_script(c, shows) : slurm_script(c, shows));
      EXPECT_EQ(say({"bash", file}).out, argument + "\n" + value + "\n");
    }
  }
}

TEST(JobScript, AsksInTheWordsOfEachScheduler) {
  const ClusterSpec c = cluster(
      "{scheduler: slurm, ranks_per_node: 4, cores_per_node: 64, queue: gpu, account: m1, qos: debug, "
      "constraint: a100,"
      " directives: [--gpus-per-node=4]}");
  const JobRequest job{
      .name = "isobar-0a", .nodes = 3, .time_s = 3723, .after = "17", .cwd = "/x", .command = {"true"}};
  const std::string slurm = slurm_script(c, job);
  for (const char* line : {"#SBATCH --nodes=3\n", "#SBATCH --time=01:02:03\n", "#SBATCH --partition=gpu\n",
                           "#SBATCH --account=m1\n", "#SBATCH --qos=debug\n", "#SBATCH --constraint=a100\n",
                           "#SBATCH --dependency=afterany:17\n", "#SBATCH --gpus-per-node=4\n",
                           "#SBATCH --signal=B:USR1@", "#SBATCH --requeue\n"})
    EXPECT_NE(slurm.find(line), std::string::npos) << line << slurm;
  ClusterSpec p =
      cluster("{scheduler: pbs, ranks_per_node: 12, cores_per_node: 104, directives: [-lfilesystems=home]}");
  const std::string pbs = pbs_script(p, job);
  for (const char* line : {"#PBS -l select=3:ncpus=104:mpiprocs=12\n", "#PBS -l walltime=01:02:03\n",
                           "#PBS -r y\n", "#PBS -l filesystems=home\n", "#PBS -W depend=afterany:17\n"})
    EXPECT_NE(pbs.find(line), std::string::npos) << line << pbs;
}

// A trial of two ranks gets a quarter of a node with eight; one of twelve gets two nodes, each with eight.
TEST(JobScript, OnSharedNodesAJobAsksForItsPart) {
  const std::string part =
      "ranks_per_node: 8, cores_per_node: 128, exclusive: false, gpus_per_rank: 1, "
      "memory_per_rank_gb: 32}";
  const JobRequest two{.name = "isobar-0a", .nodes = 1, .ranks_a_node = 2, .cwd = "/x", .command = {"true"}};
  const std::string slurm = slurm_script(cluster("{scheduler: slurm, " + part), two);
  for (const char* line :
       {"#SBATCH --nodes=1\n", "#SBATCH --ntasks-per-node=2\n", "#SBATCH --cpus-per-task=16\n",
        "#SBATCH --gres=gpu:2\n", "#SBATCH --mem=61036M\n"})  // 64e9 bytes in MiB
    EXPECT_NE(slurm.find(line), std::string::npos) << line << slurm;
  EXPECT_EQ(slurm.find("exclusive"), std::string::npos) << slurm;
  const std::string pbs = pbs_script(cluster("{scheduler: pbs, " + part), two);
  for (const char* line :
       {"#PBS -l select=1:ncpus=32:mpiprocs=2:ngpus=2:mem=61036mb\n", "#PBS -l place=scatter:shared\n"})
    EXPECT_NE(pbs.find(line), std::string::npos) << line << pbs;
  const ClusterSpec c = cluster("{scheduler: slurm, " + part);
  EXPECT_EQ(c.ranks_a_node(12), 8);
  const auto srun = start_command(c, {"a"}, 2, {"x"}, "t", "rankfile");
  EXPECT_NE(std::find(srun.begin(), srun.end(), "--cpus-per-task=16"), srun.end());
  EXPECT_EQ(to_json(cluster_from_json(to_json(c), "again")), to_json(c));
}

TEST(ClusterSection, ReadsTimeLimitsAsSbatchDoes) {
  for (const auto& [text, seconds] : std::vector<std::pair<std::string, int64_t>>{{"90", 5400},
                                                                                  {"1:30", 90},
                                                                                  {"01:02:03", 3723},
                                                                                  {"1-2", 93600},
                                                                                  {"1-2:3", 93780},
                                                                                  {"1-2:3:4", 93784}})
    EXPECT_EQ(seconds_of_limit(text), seconds) << text;
  for (const char* text : {"", "0", "1h", "-5", "1:2:3:4", "x", "1-", ":30", "00:00:00"})
    EXPECT_FALSE(seconds_of_limit(text)) << text;
}

TEST(ClusterSection, RefusesWhatCouldNotBeMeantOrReachADirective) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{scheduler: lsf}", "cluster.scheduler"},
      {"{scheduler: pbs, start: srun}", "cluster.start"},
      {"{queue: 'a b'}", "cluster.queue"},
      {"{queue: \"a\\nb\"}", "cluster.queue"},
      {"{directives: ['--x=$(y)']}", "cluster.directives"},
      {"{preamble: [source x]}", "cluster.preamble"},
      {"{preamble: [[]]}", "cluster.preamble"},
      {"{environment: {'A B': 1}}", "cluster.environment.A B"},
      {"{cores: [4-7], ranks_per_node: 2}", "cluster.cores"},
      {"{cores: [four]}", "cluster.cores"},
      {"{ranks_per_node: 0}", "cluster.ranks_per_node"},
      {"{rank_per_node: 1}", "cluster.rank_per_node"},
      {"{max_time_s: 600, job_time_s: 700}", "cluster.job_time_s"},
      {"{exclusive: 1}", "cluster.exclusive"},
      {"{exclusive: false, preflight: true}", "cluster.preflight"},
      {"{exclusive: false, cores: [0-3]}", "cluster.cores"},
      {"{exclusive: false, directives: [--gpus-per-node=4]}", "cluster.directives"},
      {"{gpus_per_rank: 1, directives: ['--gres=gpu:4']}", "cluster.directives"},
      {"{memory_per_rank_gb: 1, directives: [--mem=0]}", "cluster.directives"},
      {"{directives: ['--time=10']}", "cluster.directives"},
      {"{scheduler: pbs, directives: ['-lwalltime=10']}", "cluster.directives"},
      {"[1]", "cluster"}};
  for (const auto& [yaml, key] : cases) try {
      cluster(yaml);
      ADD_FAILURE() << yaml;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("m.yaml: '" + key + "'"), std::string::npos)
          << yaml << ": " << e.what();
      EXPECT_NE(std::string(e.what()).find(" -> "), std::string::npos) << e.what();
    }
  const ClusterSpec c =
      cluster("{scheduler: pbs, cores: ['4-7', '8,10'], ranks_per_node: 2, preamble: [[source, 'a b']]}");
  EXPECT_EQ(to_json(cluster_from_json(to_json(c), "again")), to_json(c));
}

TEST(Placement, RanksFillANodeFirstAndKeepTheirCores) {
  const ClusterSpec c = cluster("{scheduler: pbs, start: pals, ranks_per_node: 2, cores: [4-7, 8-11]}");
  const auto map = launch_map(c, {"a", "b", "spare"}, 3);
  ASSERT_EQ(map.size(), 3u);
  EXPECT_EQ(map[1].node + map[1].cores, "a8-11");
  EXPECT_EQ(map[2].node + map[2].cores, "b4-7");
  EXPECT_THROW(launch_map(c, {"a"}, 3), std::runtime_error);
  const auto pals = start_command(c, {"a", "b", "spare"}, 3, {"x"}, "t", "rankfile");
  EXPECT_EQ(pals, (std::vector<std::string>{"mpiexec", "-n", "3", "--ppn", "2", "--hosts", "a,b", "--genvall",
                                            "--cpu-bind=list:4-7:8-11", "x"}));
  const ClusterSpec s =
      cluster("{start: srun, ranks_per_node: 2, cores: [4-7, 8-11], start_options: [--mpi=pmix]}");
  const auto srun = start_command(s, {"a", "b"}, 4, {"x"}, "t", "rankfile");
  const std::set<std::string> words(srun.begin(), srun.end());
  for (const char* word : {"--nodes=2", "--ntasks=4", "--ntasks-per-node=2", "--nodelist=a,b", "--mpi=pmix",
                           "--cpu-bind=mask_cpu:0xf0,0xf00"})
    EXPECT_TRUE(words.contains(word)) << word;
}

TEST(Placement, MasksHoldTheCoresThatWereNamed) {
  EXPECT_EQ(core_mask("0"), "0x1");
  EXPECT_EQ(core_mask("4-7"), "0xf0");
  EXPECT_EQ(core_mask("0,2,5"), "0x25");
  EXPECT_EQ(core_mask("76-79"), "0xf0000000000000000000");  // beyond 64 bits
  EXPECT_THROW(core_mask("7-4"), std::runtime_error);
}

TEST(Preflight, NamesTheNodesThatFallBehindTheOthers) {
  const auto measured = [](const std::vector<std::array<double, 3>>& rates) {
    json j = {{"nodes", json::array()}};
    for (const auto& [matrix, copy, link] : rates)
      j["nodes"].push_back({{"matrix_flops_s", matrix}, {"copy_bytes_s", copy}, {"link_bytes_s", link}});
    return j;
  };
  const std::vector<std::string> nodes = {"a", "b", "c", "d"};
  EXPECT_TRUE(slow_nodes(measured({{10, 5, 3}, {9, 5, 3}, {11, 4, 2.9}, {10, 5, 3}}), nodes).empty());
  const auto slow = slow_nodes(measured({{10, 5, 3}, {6, 1, 3}, {11, 5, 1}, {10, 5, 3}}), nodes);
  ASSERT_EQ(slow.size(), 2u);
  EXPECT_EQ(slow[0].node, "b");
  EXPECT_NE(slow[0].reason.find("matrix_flops_s"), std::string::npos) << slow[0].reason;
  EXPECT_EQ(slow[1].node, "c");
  EXPECT_EQ(slow_nodes(measured({{10, 5, 3}, {6, 5, 1}}), {"a", "b"}).size(), 1u);  // one link names no side
}

TEST(Preflight, EveryPairOfNodesMeetsOnceAndInARoundNobodyTwice) {
  for (int64_t size = 1; size <= 17; ++size) {
    std::set<std::pair<int64_t, int64_t>> met;
    for (int64_t round = 0; round < rounds_of(size); ++round)
      for (int64_t rank = 0; rank < size; ++rank) {
        const int64_t other = partner_of(rank, round, size);
        if (other < 0) continue;
        ASSERT_LT(other, size);
        ASSERT_NE(other, rank);
        EXPECT_EQ(partner_of(other, round, size), rank) << size << " ranks, round " << round;
        if (rank < other) {
          EXPECT_TRUE(met.emplace(rank, other).second) << rank << " and " << other << " met before";
        }
      }
    EXPECT_EQ(met.size(), static_cast<size_t>(size * (size - 1) / 2)) << size;
  }
}

TEST(Preflight, ASickAdapterIsNotHeldAgainstItsPartners) {
  constexpr int64_t kNodes = 5, kSick = 3;
  json j = {{"nodes", json::array()}};
  for (int64_t rank = 0; rank < kNodes; ++rank) {
    std::vector<double> rates;
    for (int64_t round = 0; round < rounds_of(kNodes); ++round)
      if (const int64_t other = partner_of(rank, round, kNodes); other >= 0)
        rates.push_back(rank == kSick || other == kSick ? 1e9 : 1e10);
    j["nodes"].push_back(
        {{"matrix_flops_s", 1e12}, {"copy_bytes_s", 1e11}, {"link_bytes_s", link_of(rates)}});
  }
  const auto slow = slow_nodes(j, {"a", "b", "c", "d", "e"});
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].node, "d");

  sweep::Scratch scratch;
  const std::string file = scratch / "preflight.json";
  write_atomically(file, j.dump());
  EXPECT_EQ(slow_nodes_in(file, {"a", "b", "c", "d", "e"}).size(), 1u);
  for (const std::string text :
       {"", "[1", "{}", "{\"nodes\": []}", "{\"nodes\": [{\"matrix_flops_s\": \"x\"}]}"}) {
    write_atomically(file, text);
    EXPECT_THROW(slow_nodes_in(file, {"a"}), ConfigError) << text;
  }
}

class PlanTest : public sweep::SweepTest {};

// Each value removed or of another type: refused by one error with the file's name, unless optional.
TEST_F(PlanTest, ADamagedJobIsRefusedByName) {
  const sweep::SweepSpec s = sweep("axes: {train.seed: [0, 1]}\ntimeout_s: 300\n");
  const sweep::Matrix m = sweep::expand(s);
  const ClusterSpec c = cluster("{ranks_per_node: 2}");
  std::vector<const sweep::Trial*> trials;
  for (const sweep::Trial& t : m.trials) trials.push_back(&t);
  const json whole = description_of(plan_jobs(trials, s, c, scratch_.path()).at(0), "isobar-1", s, {}, c);
  const sweep::JobDir job(scratch_.path(), "isobar-1");
  const std::string file = job.path() / "job.json";
  const auto read = [&](const json& j) {
    write_atomically(file, j.dump());
    const json about = job.description();
    cluster_from_json(about.at("cluster"), file);
    for (const json& one : about.at("trials")) sweep::trial_from_json(one, file);
  };
  read(whole);
  size_t refused = 0;
  const json flat = whole.flatten();
  for (const auto& [place, value] : flat.items())
    for (const json& other : {json(json::array({1})), json("x"), json(-1.5), json(nullptr)}) {
      SCOPED_TRACE(place + " = " + other.dump());
      json damaged = whole;
      damaged[json::json_pointer(place)] = other;
      try {
        read(damaged);
      } catch (const ConfigError& e) {
        ++refused;
        EXPECT_TRUE(std::string(e.what()).starts_with(file + ": ")) << e.what();
        EXPECT_NE(std::string(e.what()).find(" -> "), std::string::npos) << e.what();
      }
    }
  EXPECT_GT(refused, 50u);
  for (const std::string id : {"", "../a", "/a", ".."}) {
    json damaged = whole;
    damaged["trials"][0]["id"] = id;
    EXPECT_THROW(read(damaged), ConfigError) << id;
  }
  for (const std::string text : {"", "[", "7", "[]", "{\"schema\": 1}"}) {
    write_atomically(file, text);
    EXPECT_THROW(job.description(), ConfigError) << text;
  }
}

TEST_F(PlanTest, JobsHoldTrialsOfOneNodeCountAndTimeForTheLongest) {
  const sweep::SweepSpec s =
      sweep("axes: {gpus: [1, 2, 4], train.seed: [0, 1, 2, 3, 4, 5]}\ntimeout_s: 300\n");
  const sweep::Matrix m = sweep::expand(s);
  ClusterSpec c = cluster("{ranks_per_node: 2, job_time_s: 120, start_s: 20, max_time_s: 900}");
  std::vector<const sweep::Trial*> trials;
  for (const sweep::Trial& t : m.trials) trials.push_back(&t);
  std::multiset<std::string> planned;
  for (const PlannedJob& job : plan_jobs(trials, s, c, scratch_.path())) {
    for (const sweep::Trial* t : job.trials) {
      EXPECT_EQ(c.nodes(t->ranks()), job.nodes);
      planned.insert(t->id);
    }
    EXPECT_LE(job.trials.size(), 3u);  // of 40 s each
    EXPECT_GE(job.time_s, 300 + 60);
    EXPECT_LE(job.time_s, 900);
  }
  EXPECT_EQ(planned.size(), m.trials.size());
  for (const sweep::Trial& t : m.trials) EXPECT_EQ(planned.count(t.id), 1u);
  c.max_time_s = 320;
  EXPECT_THROW(plan_jobs(trials, s, c, scratch_.path()), ConfigError);
}

TEST_F(PlanTest, OnSharedNodesJobsHoldTrialsOfOneSizeAndAreChargedTheirPart) {
  const sweep::SweepSpec s = sweep("axes: {gpus: [1, 2, 4, 8], train.seed: [0, 1]}\ntimeout_s: 300\n");
  const sweep::Matrix m = sweep::expand(s);
  std::vector<const sweep::Trial*> trials;
  for (const sweep::Trial& t : m.trials) trials.push_back(&t);
  const auto sizes = [&](const ClusterSpec& c) {
    std::map<std::pair<int64_t, int64_t>, double> hours;
    for (const PlannedJob& job : plan_jobs(trials, s, c, scratch_.path())) {
      for (const sweep::Trial* t : job.trials) EXPECT_EQ(c.ranks_a_node(t->ranks()), job.ranks_a_node);
      hours[{job.nodes, job.ranks_a_node}] += node_hours(job, c, 3600);
    }
    return hours;
  };
  using Sizes = std::map<std::pair<int64_t, int64_t>, double>;
  EXPECT_EQ(sizes(cluster("{ranks_per_node: 4, exclusive: false}")),
            (Sizes{{{1, 1}, 0.25}, {{1, 2}, 0.5}, {{1, 4}, 1}, {{2, 4}, 2}}));
  EXPECT_EQ(sizes(cluster("{ranks_per_node: 4}")), (Sizes{{{1, 4}, 1}, {{2, 4}, 2}}));
}

TEST_F(PlanTest, ATimeLimitOfJobsBoundsThatOfTrialsUnlessTheSweepGivesOne) {
  const std::vector<sweep::Trial> trials = sweep::expand(sweep("axes: {train.seed: [0]}")).trials;
  sweep::TrialLimits l;
  bound_limits(l, trials, cluster("{max_time_s: 7200}"));
  EXPECT_EQ(sweep::time_limit(l, trials[0]), 3600);
  bound_limits(l, trials, cluster("{max_time_s: 600, job_time_s: 600}"));
  EXPECT_EQ(sweep::time_limit(l, trials[0]), 600 - 5 - 60);  // grace_s, and what a job needs besides
  EXPECT_NO_THROW(
      plan_jobs({&trials[0]}, sweep::SweepSpec{.limits = l}, cluster("{max_time_s: 600}"), scratch_.path()));
  sweep::TrialLimits given{.timeout_s = 900, .timeout_given = true};
  bound_limits(given, trials, cluster("{max_time_s: 600}"));
  EXPECT_EQ(given.timeout_s, 900);
}

TEST_F(PlanTest, AJobAsksForWhatTheQueueTakesAtLeast) {
  const sweep::SweepSpec s = sweep("axes: {train.seed: [0]}\ntimeout_s: 10\n");
  const sweep::Matrix m = sweep::expand(s);
  const auto asks = [&](const std::string& yaml) {
    return plan_jobs({&m.trials.at(0)}, s, cluster(yaml), scratch_.path()).at(0).time_s;
  };
  const int64_t needed = asks("{start_s: 5}");
  ASSERT_LT(needed, 300);
  EXPECT_EQ(asks("{start_s: 5, min_time_s: 300}"), 300);
  EXPECT_EQ(asks("{start_s: 5, min_time_s: 60}"), needed);
  EXPECT_THROW(cluster("{min_time_s: 700, max_time_s: 600}"), ConfigError);
}

TEST_F(PlanTest, TimeLimitsComeFromForecastsUnlessTheSweepSaysThem) {
  sweep::Trial t = sweep::expand(sweep("axes: {train.seed: [0]}")).trials[0];
  sweep::TrialLimits l;
  EXPECT_EQ(sweep::time_limit(l, t), 3600);
  t.forecast = sweep::Forecast{.step_s = 1, .upper_s = 2};
  EXPECT_EQ(sweep::time_limit(l, t), 60 + 4 * 2 * 4);  // 4 steps
  l.timeout_given = true;
  EXPECT_EQ(sweep::time_limit(l, t), 3600);
}

TEST_F(PlanTest, AJobThatWasGivenUpCannotBeginAgainAndKnowsIt) {
  const sweep::JobDir job(scratch_.path(), "isobar-1");
  write_atomically(job.path() / "owner", "0\n");
  write_atomically(job.path() / "job.json", "{\"schema\": 1}");
  EXPECT_EQ(sweep::open_jobs(scratch_.path()), std::vector<std::string>{"isobar-1"});
  EXPECT_EQ(job.begin_life(), 1);
  EXPECT_TRUE(job.is_life(1));
  EXPECT_EQ(job.begin_life(), 2);  // requeued: the first life is over
  EXPECT_FALSE(job.is_life(1));
  job.close("NODE_FAIL");
  EXPECT_FALSE(job.is_life(2));
  EXPECT_EQ(job.begin_life(), 0);
  EXPECT_TRUE(sweep::open_jobs(scratch_.path()).empty());
}

TEST_F(PlanTest, FaultsOfTheInfrastructureAreTriedAgainAndThenFinal) {
  const sweep::SweepSpec s = sweep("axes: {train.seed: [0]}");
  const sweep::Trial t = sweep::expand(s).trials[0];
  sweep::TrialDir dir(scratch_ / "results", t, 2, /*max_attempts=*/2);
  for (const char* state : {"NODE_FAIL", "PREEMPTED", "TIMEOUT", "BOOT_FAIL"}) {
    std::filesystem::remove_all(scratch_ / "results");
    dir.prepare();
    dir.settle(sweep::verdict_of_job(state, "7"), "7");
    EXPECT_FALSE(dir.finished()) << state;
    dir.prepare();
    dir.settle(sweep::verdict_of_job(state, "8"), "8");
    EXPECT_TRUE(dir.finished()) << state;
    EXPECT_TRUE(records::load_run(dir.path()).complete);
  }
  dir.prepare();
  dir.settle(sweep::verdict_of_job("CANCELLED by 0", "9"), "9");
  EXPECT_FALSE(dir.finished()) << "what a person stopped is not held against the trial";
}

TEST_F(PlanTest, ALocalSweepKeepsOffADirectoryWithOpenJobs) {
  const sweep::SweepSpec s = sweep("axes: {train.seed: [0]}");
  const sweep::JobDir job(scratch_ / "results", "isobar-1");
  write_atomically(job.path() / "owner", "1\n");
  write_atomically(job.path() / "job.json", "{\"schema\": 1}");
  EXPECT_THROW(run(s), ConfigError);
  job.close("COMPLETED");
  EXPECT_TRUE(run(s).complete());
}

}  // namespace
}  // namespace isobar::cluster
