// Sweeps over real processes: faults are recorded, kills lose and repeat nothing, no process is left behind.
#include "bench/sweep/run/runner.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "bench/sweep/results/summary.h"
#include "bench/sweep/run/proctree.h"
#include "model/base/error.h"
#include "support.h"

namespace isobar::sweep {
namespace {

using std::chrono::milliseconds;

class RunnerTest : public SweepTest {
 protected:
  // Starts `isobar sweep` in a process that the test can kill.
  pid_t start_sweep(const SweepSpec& s, double lock_wait_s = 15) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      try {
        SweepOptions o = options();
        o.lock_wait_s = lock_wait_s;
        run(s, o);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "sweep failed: %s\n", e.what());
        ::_exit(9);
      }
      ::_exit(0);
    }
    return pid;
  }
  static int end_of(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status;
  }
  bool wait_for_log(const std::string& what, int seconds = 120) {
    for (int i = 0; i < seconds * 100; ++i, std::this_thread::sleep_for(milliseconds(10)))
      for (const auto& line : log())
        if (line.first == what) return true;
    return false;
  }
  // Number of this test's trial processes, found independently of the sweep's tag.
  int living() const {
    int n = 0;
    for (pid_t pid : all_processes())
      n += pid != ::getpid() && environment_has(pid, "FAKE_LOG=" + (scratch_ / "log").string());
    return n;
  }
  // Waits, because starting processes takes time on a busy machine.
  bool at_least_living(int n) const {
    for (int i = 0; i < 12000; ++i, std::this_thread::sleep_for(milliseconds(10)))
      if (living() >= n) return true;
    return false;
  }
  bool all_gone() const {
    for (int i = 0; i < 6000; ++i, std::this_thread::sleep_for(milliseconds(10)))
      if (living() == 0) return true;
    return false;
  }
  static const records::RunRecord& with_seed(const SweepOutcome& o, Fault f) {
    for (const records::RunRecord& r : o.runs)
      if (r.spec.train.seed == static_cast<int64_t>(f)) return r;
    throw std::runtime_error("no such trial");
  }
};

TEST_F(RunnerTest, FaultsAreRecordedByClassAndTheSweepGoesOn) {
  std::string seeds = "0";
  for (Fault f : {Fault::segv, Fault::abort, Fault::hang, Fault::exhaust, Fault::bad_alloc, Fault::numeric,
                  Fault::bad_config, Fault::no_start, Fault::silent_exit, Fault::half_line, Fault::stray,
                  Fault::late_segv})
    seeds += ", " + seed(f);
  const SweepSpec s =
      sweep("axes: {train.seed: [" + seeds + "], gpus: [1, 2]}\nhang_s: 6\nmemory_limit_mb: 400");
  const SweepOutcome o = run(s);
  ASSERT_EQ(o.runs.size(), 26u);
  const std::map<Fault, records::RunClass> expected = {{Fault::none, records::RunClass::ok},
                                                       {Fault::segv, records::RunClass::crash},
                                                       {Fault::abort, records::RunClass::crash},
                                                       {Fault::hang, records::RunClass::hang},
                                                       {Fault::exhaust, records::RunClass::oom_host},
                                                       {Fault::bad_alloc, records::RunClass::oom_host},
                                                       {Fault::numeric, records::RunClass::numeric},
                                                       {Fault::bad_config, records::RunClass::bad_config},
                                                       {Fault::no_start, records::RunClass::launch_fail},
                                                       {Fault::silent_exit, records::RunClass::crash},
                                                       {Fault::half_line, records::RunClass::crash},
                                                       {Fault::stray, records::RunClass::ok},
                                                       {Fault::late_segv, records::RunClass::ok}};
  for (const records::RunRecord& r : o.runs)
    EXPECT_EQ(r.run_class, expected.at(static_cast<Fault>(r.spec.train.seed)))
        << "seed " << r.spec.train.seed << " ranks " << r.ranks << ": " << records::name_of(r.run_class)
        << " " << r.message;
  EXPECT_NE(with_seed(o, Fault::segv).message.find("SIGSEGV"), std::string::npos);
  EXPECT_NE(with_seed(o, Fault::hang).message.find("after step 1"), std::string::npos);
  EXPECT_EQ(living(), 0);
  EXPECT_FALSE(o.complete());  // launch_fail is not final
  EXPECT_NE(summary_table(expand(s), o).find("oom_host"), std::string::npos);

  // A second sweep retries only trials that never began; the third, on request, every failure.
  const SweepOutcome again = run(s);
  EXPECT_EQ(again.started, 2);
  EXPECT_EQ(again.reused, 24);
}

TEST_F(RunnerTest, TimeLimitStopsATrialWithAllItsRanks) {
  const SweepOutcome o = run(sweep("axes: {train.seed: [0, " + seed(Fault::slow) +
                                   "], gpus: [2]}\ntimeout_s: 4\n"
                                   "hang_s: 0\norder: listed"));
  EXPECT_EQ(with_seed(o, Fault::slow).run_class, records::RunClass::timeout);
  EXPECT_LT(with_seed(o, Fault::slow).wall_s, 100);  // it would take ten minutes
  EXPECT_EQ(with_seed(o, Fault::none).run_class, records::RunClass::ok);
  EXPECT_TRUE(o.complete());
  EXPECT_EQ(living(), 0);
}

TEST_F(RunnerTest, KilledFiveTimesAtRandomEndsCompleteWithNothingLostOrRunTwice) {
  ::setenv("FAKE_STEP_MS", "15", 1);
  const SweepSpec s = sweep(
      "axes: {gpus: [1, 2], amp: [none, bf16], workers: [0, 1, 2], micro_batch: [1, 2]}\nrepetitions: 2");
  const Matrix m = expand(s);
  ASSERT_EQ(m.trials.size(), 48u);
  const uint64_t random_seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(random_seed));
  std::mt19937_64 random(random_seed);
  for (int kill = 0; kill < 5; ++kill) {
    const pid_t pid = start_sweep(s);
    std::this_thread::sleep_for(std::chrono::microseconds(30'000 + random() % 800'000));
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    const int status = end_of(pid);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the sweep ended (status " << status << ") before it could be killed";
  }
  const SweepOutcome o = run(s);
  EXPECT_TRUE(o.complete());
  ASSERT_EQ(o.runs.size(), 48u);
  std::set<std::string> planned;
  for (const Trial& t : m.trials) planned.insert(t.id);
  for (const records::RunRecord& r : o.runs) {
    EXPECT_EQ(r.run_class, records::RunClass::ok) << r.id << " " << r.message;
    EXPECT_EQ(r.steps.size(), 4u) << r.id;
    EXPECT_TRUE(planned.contains(r.id));
  }
  EXPECT_TRUE(o.problems.empty()) << o.problems[0];

  // The trainer's log shows that every trial ran, none again after it ended, and never two at a time.
  std::set<std::string> ended;
  for (const auto& [what, id] : log()) {
    EXPECT_NE(what, "overlap") << id;
    EXPECT_FALSE(what == "start" && ended.contains(id)) << id << " was run again";
    if (what == "end") ended.insert(id);
  }
  const auto count = starts();
  for (const std::string& id : planned) EXPECT_TRUE(count.contains(id)) << id << " was never run";
  for (const records::RunRecord& r : o.runs)
    EXPECT_GE(r.attempt, count.at(r.id)) << r.id;  // a kill may come before the trainer's first line
  EXPECT_EQ(living(), 0);
}

TEST_F(RunnerTest, KilledSweepLeavesNoTrialBehind) {
  const SweepSpec s = sweep("axes: {train.seed: [" + seed(Fault::hang) + "], gpus: [2]}\nhang_s: 0");
  const pid_t pid = start_sweep(s);
  ASSERT_TRUE(wait_for_log("start"));
  EXPECT_TRUE(at_least_living(2));
  ::kill(pid, SIGKILL);
  end_of(pid);
  EXPECT_TRUE(all_gone());
}

TEST_F(RunnerTest, RerunKillsWhatSurvivedTheDeathOfSweepAndSupervisor) {
  SweepSpec s = sweep("axes: {train.seed: [" + seed(Fault::hang) + "], gpus: [2]}\nhang_s: 0");
  const pid_t pid = start_sweep(s);
  ASSERT_TRUE(at_least_living(3));  // the trainer, its rank, and a stray
  std::set<pid_t> supervisors;      // the sweep's children
  for (pid_t child : descendants(pid))
    if (!environment_has(child, "ISOBAR_TRIAL=" + expand(s).trials[0].id)) supervisors.insert(child);
  ASSERT_EQ(supervisors.size(), 1u);
  ::kill(pid, SIGSTOP);  // it must not clean up
  ::kill(*supervisors.begin(), SIGKILL);
  ::kill(pid, SIGKILL);
  end_of(pid);
  std::this_thread::sleep_for(milliseconds(200));
  ASSERT_GE(living(), 1) << "nothing survived, so this test shows nothing";
  s.limits.timeout_s = 3;
  const SweepOutcome o = run(s);
  EXPECT_EQ(o.runs[0].run_class, records::RunClass::timeout);
  EXPECT_EQ(o.runs[0].attempt, 2);
  EXPECT_TRUE(std::filesystem::exists(o.runs[0].dir / "attempt-1" / "result.jsonl"));
  EXPECT_EQ(living(), 0);
}

TEST_F(RunnerTest, RanksOfARealMpiexecAreGoneAfterAHangACrashAndAKill) {
  ::setenv("FAKE_MPI", "1", 1);
  SweepSpec s = sweep("axes: {train.seed: [0, " + seed(Fault::segv) + ", " + seed(Fault::hang) +
                      "], gpus: [3]}\nset: {train.global_batch: 12}\nhang_s: 12\norder: listed");
  const SweepOutcome o = run(s);
  ASSERT_EQ(o.runs.size(), 3u);  // mpiexec takes two seconds to exit after a rank has crashed
  for (const records::RunRecord& r : o.runs)
    EXPECT_EQ(r.run_class, r.spec.train.seed == 0                                   ? records::RunClass::ok
                           : r.spec.train.seed == static_cast<int64_t>(Fault::segv) ? records::RunClass::crash
                                                                                    : records::RunClass::hang)
        << r.ranks << " ranks: " << r.message;
  EXPECT_EQ(living(), 0);

  std::filesystem::remove(scratch_ / "log");
  s = sweep("axes: {train.seed: [" + seed(Fault::hang) + "], gpus: [2]}\nhang_s: 0");
  const pid_t pid = start_sweep(s);
  EXPECT_TRUE(at_least_living(5));  // the trainer, mpiexec, two ranks, a stray
  ::kill(pid, SIGKILL);
  end_of(pid);
  EXPECT_TRUE(all_gone());
}

TEST_F(RunnerTest, TrialThatFinishedUnnoticedIsTakenOverAndNotRunAgain) {
  const SweepSpec s = sweep("axes: {train.seed: [0, 1, " + seed(Fault::numeric) + "]}");
  const SweepOutcome first = run(s);
  for (const records::RunRecord& r : first.runs) std::filesystem::remove(r.dir / "status.json");
  const SweepOutcome second = run(s);
  EXPECT_EQ(second.started, 0);
  EXPECT_EQ(second.adopted, 3);
  EXPECT_TRUE(second.complete());
  for (const auto& [id, n] : starts()) EXPECT_EQ(n, 1) << id;
  EXPECT_EQ(with_seed(second, Fault::numeric).run_class, records::RunClass::numeric);
}

TEST_F(RunnerTest, UnfinishedAttemptIsKeptAndDoesNotLeakIntoTheNext) {
  const SweepSpec s = sweep("axes: {train.seed: [0]}");
  const std::string id = expand(s).trials[0].id;
  const auto dir = scratch_ / "results" / "trials" / id;
  std::filesystem::create_directories(dir);
  write_atomically(dir / "attempt", "1\n");
  write_atomically(dir / "result.jsonl",
                   "{\"event\":\"run_start\"}\n{\"event\":\"step\",\"step\":1,\"seconds\":99}\n{\"ev");
  write_atomically(dir / "err", "old words");
  const SweepOutcome o = run(s);
  EXPECT_EQ(o.runs[0].attempt, 2);
  EXPECT_EQ(o.runs[0].run_class, records::RunClass::ok);
  EXPECT_EQ(o.runs[0].steps.size(), 4u);
  EXPECT_EQ(read_file(dir / "attempt-1" / "err"), "old words");
  EXPECT_TRUE(std::filesystem::exists(dir / "attempt-1" / "result.jsonl"));
}

TEST_F(RunnerTest, FailuresAreRunAgainOnlyWhenAsked) {
  const SweepSpec s = sweep("axes: {train.seed: [0, " + seed(Fault::segv) + "]}");
  run(s);
  EXPECT_EQ(run(s).started, 0);
  SweepOptions o = options();
  o.retry_failed = true;
  const SweepOutcome again = run(s, o);
  EXPECT_EQ(again.started, 1);
  EXPECT_EQ(with_seed(again, Fault::segv).attempt, 2);
  EXPECT_EQ(with_seed(again, Fault::segv).run_class, records::RunClass::crash);
}

TEST_F(RunnerTest, ASecondSweepOverTheSameDirectoryIsRefused) {
  const SweepSpec s = sweep("axes: {train.seed: [" + seed(Fault::hang) + "]}\nhang_s: 0");
  const pid_t pid = start_sweep(s);
  ASSERT_TRUE(wait_for_log("start"));
  SweepOptions o = options();
  o.lock_wait_s = 0.2;
  EXPECT_THROW(run(s, o), ConfigError);
  EXPECT_GE(living(), 1) << "the refused sweep must not harm the running one";
  ::kill(pid, SIGKILL);
  end_of(pid);
  EXPECT_TRUE(all_gone());
}

volatile std::sig_atomic_t g_stop = 0;

TEST_F(RunnerTest, AskedToStopItEndsTheTrialAndTheNextSweepRunsIt) {
  ::setenv("FAKE_STEP_MS", "300", 1);
  const SweepSpec s = sweep("axes: {train.seed: [0, 1, 2], gpus: [2]}");
  SweepOptions o = options();
  o.stop = &g_stop;
  g_stop = 0;
  // A signal such as Ctrl-C, which also interrupts waiting for the trial.
  ::signal(SIGALRM, [](int) { g_stop = SIGINT; });
  const itimerval in_half_a_second{{0, 0}, {0, 500'000}};
  ::setitimer(ITIMER_REAL, &in_half_a_second, nullptr);
  const SweepOutcome stopped = run(s, o);
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_FALSE(stopped.complete());
  EXPECT_EQ(living(), 0);
  ::setenv("FAKE_STEP_MS", "2", 1);
  EXPECT_TRUE(run(s).complete());
}

TEST_F(RunnerTest, PathsAndValuesReachTheTrainerAsTheyAre) {
  SweepOptions o = options();
  o.results = scratch_ / "a b; touch pwned $(touch pwned) \"quoted\" # {x: 'y'}";
  const SweepSpec s =
      sweep("axes: {data.means: [\"$(touch pwned); `touch pwned`\", \"null\", \"1e5\", \"\"]}");
  const SweepOutcome out = run(s, o);
  EXPECT_TRUE(out.complete());
  for (const records::RunRecord& r : out.runs) EXPECT_EQ(r.run_class, records::RunClass::ok) << r.message;
  std::set<std::string> seen;
  for (const records::RunRecord& r : out.runs) {
    std::ifstream in(r.dir / "result.jsonl");
    std::string line;
    std::getline(in, line);
    seen.insert(nlohmann::json::parse(line)["spec"]["data"]["means"].get<std::string>());
  }
  EXPECT_EQ(seen, (std::set<std::string>{"$(touch pwned); `touch pwned`", "null", "1e5", ""}));
  EXPECT_FALSE(std::filesystem::exists("pwned"));
}

TEST_F(RunnerTest, AnUnusableTrainerIsRefusedBeforeAnythingIsWritten) {
  SweepOptions o = options();
  o.trainer = (scratch_ / "none").string();
  EXPECT_THROW(run(sweep("axes: {train.seed: [0]}"), o), ConfigError);
  EXPECT_FALSE(std::filesystem::exists(o.results));
}

TEST_F(RunnerTest, ATrainerThatCannotBeExecutedIsALaunchFailure) {
  SweepOptions o = options();
  o.trainer = (scratch_ / "script").string();
  write("script", "#!/nonexistent/interpreter\n");
  std::filesystem::permissions(o.trainer, std::filesystem::perms::owner_all);
  const SweepOutcome out = run(sweep("axes: {train.seed: [0]}"), o);
  EXPECT_EQ(out.runs[0].run_class, records::RunClass::launch_fail);
  EXPECT_NE(out.runs[0].message.find("No such file"), std::string::npos) << out.runs[0].message;
}

}  // namespace
}  // namespace isobar::sweep
