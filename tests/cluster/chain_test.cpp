// Trials that resume from their checkpoints through several jobs: the count of attempts, the requested time,
// and the time at which ranks are signalled. tests/slurm.sh and pbs.py train through such chains.
#include <cmath>
#include <random>

#include "bench/cluster/grouping.h"
#include "bench/cluster/jobscript.h"
#include "bench/sweep/results/trialdir.h"
#include "bench/sweep/run/launcher.h"
#include "model/base/error.h"
#include "model/base/text/yaml.h"
#include "tests/sweep/support.h"

namespace isobar::cluster {
namespace {

namespace fs = std::filesystem;

class ChainTest : public sweep::SweepTest {
 protected:
  sweep::Trial trial(int64_t every, int64_t steps = 1000) {
    write("base.yaml", "net: {embed_dim: 64, depth: 1}\ntrain: {global_batch: 8, checkpoint_every: " +
                           std::to_string(every) + "}\n");
    write("sweep.yaml", "base: base.yaml\nsteps: " + std::to_string(steps) + "\naxes: {train.seed: [0]}\n");
    sweep_ = sweep::load_sweep_spec((scratch_ / "sweep.yaml").string());
    return sweep::expand(sweep_).trials.at(0);
  }
  sweep::TrialDir directory(const sweep::Trial& t, int64_t most = 3) {
    return {scratch_ / "results", t, 2, most};
  }
  void save(const sweep::TrialDir& dir, int64_t step, const std::string& more = "") {
    char name[64];
    std::snprintf(name, sizeof name, "checkpoints/step-%08ld", static_cast<long>(step));
    fs::create_directories(dir.path() / (name + more));
    write_atomically(dir.path() / (name + more) / "state.json", "{}");
  }
  void log(const sweep::TrialDir& dir, const std::string& line) {
    append_line(dir.path() / "result.jsonl", line);
  }
  void log_start(const sweep::TrialDir& dir, const sweep::Trial& t) {
    log(dir, nlohmann::json({{"event", "run_start"}, {"schema", 1}, {"spec", to_json(t.spec)}, {"ranks", 1}})
                 .dump());
  }
  static ClusterSpec cluster(const std::string& yaml) {
    return cluster_from_json(parse_yaml(yaml, "m.yaml"), "m.yaml");
  }
  sweep::SweepSpec sweep_;
};

// Reference: a plain count of consecutive starts that left no newer checkpoint.
TEST_F(ChainTest, OnlyAStartThatComesNoFurtherCostsATry) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const char* const states[] = {"TIMEOUT", "NODE_FAIL", "PREEMPTED"};
  for (int round = 0; round < 20; ++round) {
    fs::remove_all(scratch_ / "results");
    const int64_t most = 1 + static_cast<int64_t>(random() % 4);
    const sweep::Trial t = trial(10);
    sweep::TrialDir dir = directory(t, most);
    int64_t step = 0, starts = 0, in_a_row = 0;
    for (bool over = false; !over && starts < 40;) {
      EXPECT_EQ(dir.prepare(t.chained()), step > 0);
      ++starts;
      const bool further = random() % 2 == 0;
      if (further) save(dir, step += 1 + static_cast<int64_t>(random() % 30));
      save(dir, step + 5, ".tmp");  // what a kill left unfinished is none
      in_a_row = further ? 0 : in_a_row + 1;
      dir.settle(sweep::verdict_of_job(states[random() % 3], "7"), "7");
      over = in_a_row >= most;
      ASSERT_EQ(dir.finished(), over) << "start " << starts << ", " << in_a_row << " in a row, " << most;
      EXPECT_EQ(dir.attempt(), starts);
      EXPECT_EQ(dir.saved_step(), step);
    }
  }
}

// It resumed from an earlier checkpoint and then saved a later one, though not beyond the damaged one.
TEST_F(ChainTest, WhatASetAsideCheckpointHeldIsNotHeldAgainstAStart) {
  const sweep::Trial t = trial(10);
  sweep::TrialDir dir = directory(t, 1);
  dir.prepare(true);
  save(dir, 90), save(dir, 100);
  dir.settle(sweep::verdict_of_job("TIMEOUT", "7"), "7");
  ASSERT_TRUE(dir.prepare(true));
  const fs::path last = dir.path() / "checkpoints/step-00000100";
  fs::rename(last, last.string() + ".damaged");
  save(dir, 95);
  EXPECT_EQ(dir.saved_step(), 95);
  EXPECT_TRUE(dir.came_further());
  dir.settle(sweep::verdict_of_job("TIMEOUT", "7"), "7");
  EXPECT_FALSE(dir.finished()) << "its only try was not used up";
  const auto words = sweep::trainer_command("isobar", dir.path(), 1, "first", true);
  EXPECT_EQ(words.back(), "--set-aside-damaged") << "a chain does so by itself";
}

TEST_F(ChainTest, WithoutCheckpointsAskedForAStartIsANewOne) {
  const sweep::Trial t = trial(0);
  sweep::TrialDir dir = directory(t);
  for (int n = 1; n <= 3; ++n) {
    EXPECT_FALSE(dir.finished());
    EXPECT_FALSE(dir.prepare(t.chained()));
    save(dir, 10 * n);  // train.checkpoint_best writes some
    dir.settle(sweep::verdict_of_job("TIMEOUT", "7"), "7");
  }
  EXPECT_TRUE(dir.finished());
}

// The file holds the records of all jobs, and a failure in an earlier one must not count for this one.
TEST_F(ChainTest, WhatAnEarlierStartWroteIsNotHeldAgainstTheNext) {
  const sweep::Trial t = trial(10);
  sweep::TrialDir dir = directory(t);
  dir.prepare(true);
  log_start(dir, t);
  log(dir, R"({"event":"step","step":10,"seconds":0.1})");
  log(dir, R"({"event":"run_end","status":"failed","class":"interrupted","message":"told to stop"})");
  write_atomically(dir.path() / "err", "Cannot allocate memory\n");
  save(dir, 10);
  EXPECT_TRUE(dir.tail().ended);
  dir.settle(sweep::verdict_of_job("TIMEOUT", "7"), "7");
  ASSERT_TRUE(dir.prepare(true));
  EXPECT_FALSE(dir.tail().started);
  EXPECT_FALSE(dir.adopt());
  EXPECT_EQ(dir.judge({.end = sweep::ProcessEnd::exited, .code = 1}).run_class,
            records::RunClass::launch_fail);
  EXPECT_FALSE(dir.finished());
  ASSERT_TRUE(dir.prepare(true));
  log_start(dir, t);
  save(dir, 20);
  EXPECT_EQ(dir.judge({.end = sweep::ProcessEnd::signalled, .code = SIGSEGV}).run_class,
            records::RunClass::crash);
  EXPECT_FALSE(dir.finished()) << "it came further: from there it may come past the place";
  ASSERT_TRUE(dir.prepare(true));
  log_start(dir, t);
  EXPECT_EQ(dir.judge({.end = sweep::ProcessEnd::signalled, .code = SIGSEGV}).run_class,
            records::RunClass::crash);
  EXPECT_TRUE(dir.finished()) << "it did not";
  EXPECT_TRUE(fs::exists(dir.path() / "attempt-1/err"));
  EXPECT_TRUE(fs::exists(dir.path() / "checkpoints/step-00000010/state.json"));
}

TEST_F(ChainTest, AJobAsksForWhatIsLeftAndForTheLead) {
  sweep::Trial t = trial(100, 10000);
  t.forecast = sweep::Forecast{.step_s = 0.4, .upper_s = 0.5, .checkpoint_s = 6};
  const ClusterSpec c = cluster("{scheduler: pbs, start: openmpi, start_s: 20, max_time_s: 3600}");
  const std::vector<const sweep::Trial*> trials = {&t};
  const auto asked = [&] { return plan_jobs(trials, sweep_, c, scratch_ / "results").at(0); };
  // The whole trial would take 10,000 steps of 0.5 s and 101 checkpoints of 6 s: more than a job may.
  EXPECT_EQ(asked().time_s, 3600);
  EXPECT_DOUBLE_EQ(asked().lead_s, 2 * (0.5 + 6) + sweep_.limits.grace_s + kReserve_s);
  EXPECT_NE(asked().lead_from.find("predicted"), std::string::npos) << asked().lead_from;

  // 1,000 steps are left, and the job before has shown steps of 0.25 s and checkpoints of 8 s
  sweep::TrialDir dir = directory(t);
  dir.prepare(true);
  log_start(dir, t);
  for (int step = 8990; step <= 9000; ++step)
    log(dir, "{\"event\":\"step\",\"step\":" + std::to_string(step) + ",\"seconds\":0.25}");
  log(dir, R"({"event":"checkpoint","step":9000,"path":"x","seconds":8})");
  save(dir, 9000);
  const double work = 20 + 1000 * 0.25 + 11 * 8, lead = 2 * (0.25 + 8) + sweep_.limits.grace_s + kReserve_s;
  const Remaining r = remaining_of(t, dir, sweep_.limits, c);
  EXPECT_DOUBLE_EQ(r.work_s, work);
  EXPECT_DOUBLE_EQ(r.lead_s, lead);
  EXPECT_NE(r.lead_from.find("measured"), std::string::npos) << r.lead_from;
  EXPECT_GE(asked().time_s, static_cast<int64_t>(1.25 * work + lead));
  EXPECT_LE(asked().time_s, static_cast<int64_t>(1.25 * work + 2 * lead + 200));

  // Ranks have time to end, however short a checkpoint is.
  t.forecast = sweep::Forecast{.step_s = 0.001, .upper_s = 0.001, .checkpoint_s = 0.01};
  fs::remove_all(scratch_ / "results");
  EXPECT_DOUBLE_EQ(asked().lead_s, 10 + sweep_.limits.grace_s + kReserve_s);

  // An unknown checkpoint time is assumed, and the text says so.
  t.forecast.reset();
  EXPECT_NE(remaining_of(t, directory(t), sweep_.limits, c).lead_from.find("assumed"), std::string::npos);
}

TEST_F(ChainTest, NoTimeoutHasToFitIntoAJobButACheckpointHas) {
  sweep::Trial t = trial(100, 1000000);
  t.forecast = sweep::Forecast{.step_s = 1, .upper_s = 1.5, .checkpoint_s = 30};
  const std::vector<const sweep::Trial*> trials = {&t};
  EXPECT_EQ(plan_jobs(trials, sweep_, cluster("{max_time_s: 3600}"), scratch_.path()).at(0).time_s, 3600);
  try {
    plan_jobs(trials, sweep_, cluster("{max_time_s: 120, job_time_s: 60}"), scratch_.path());
    ADD_FAILURE() << "120 s hold no checkpoint of 30 s and the time to end in";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("m.yaml: 'cluster.max_time_s'"), std::string::npos) << e.what();
  }
  t.spec.train.checkpoint_every = 0;
  EXPECT_THROW(plan_jobs(trials, sweep_, cluster("{max_time_s: 3600}"), scratch_.path()), ConfigError);
}

TEST_F(ChainTest, SlurmTellsAJobByItsLead) {
  const ClusterSpec c = cluster("{scheduler: slurm}");
  for (const auto& [lead, signal] :
       {std::pair{0.0, "B:USR1@30\n"}, {12.0, "B:USR1@30\n"}, {95.2, "B:USR1@96\n"}})
    EXPECT_NE(
        slurm_script(c, {.name = "isobar-1", .lead_s = lead, .cwd = "/", .command = {"true"}}).find(signal),
        std::string::npos)
        << lead;
}

}  // namespace
}  // namespace isobar::cluster
