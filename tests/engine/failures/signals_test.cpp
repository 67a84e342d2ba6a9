// Ctrl-C, SIGTERM and other signals: all ranks stop after the same step with a checkpoint that continues
// seamlessly, report the reason, and exit with the code that shells use.
#include <csignal>

#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "lacks '" << (part) << "':\n" << (text)

Words settings(const std::string& out, const std::string& steps, const Words& more = {}) {
  Words set = {"run.threads=1", "train.steps=" + steps, "train.checkpoint_every=100000",
               "train.lr_schedule=constant", "run.out=" + out};
  set.insert(set.end(), more.begin(), more.end());
  return set;
}

enum class To { command, group, one_rank, each_rank };

struct Case {
  std::string name;
  int signal;
  To to;
  const char* ranks;
  bool own_mpiexec = false;
  const char* reason = nullptr;  // if other than the signal's name
};

void send(int signal, To to, pid_t command) {
  if (to == To::command) ::kill(command, signal);
  if (to == To::group) ::kill(-command, signal);  // as a terminal does
  const auto ranks = ranks_of(command);
  if (to == To::one_rank) ::kill(ranks.at(1), signal);
  if (to == To::each_rank)
    for (const pid_t rank : ranks) ::kill(rank, signal);
}

const char* name_of(int signal) {
  return signal == SIGINT    ? "SIGINT"
         : signal == SIGTERM ? "SIGTERM"
         : signal == SIGHUP  ? "SIGHUP"
                             : "SIGUSR1";
}

// Hydra waits for its ranks without an option.
#ifdef ISOBAR_OPEN_MPI
constexpr bool kOpenMpi = true;
const Words kPatient = {"--mca", "odls_base_sigkill_timeout", "5"};
#else
constexpr bool kOpenMpi = false;
const Words kPatient;
#endif

TEST(Signals, StopAllRanksAfterOneStepWithACheckpointToGoOnFrom) {
  for (const Case& c :
       {Case{"Ctrl-C, one rank", SIGINT, To::group, "1"},
        Case{"SIGTERM, one rank", SIGTERM, To::command, "1"},
        Case{"a scheduler's notice", SIGUSR1, To::command, "1"}, Case{"Ctrl-C", SIGINT, To::group, "4"},
        Case{"SIGTERM to the command", SIGTERM, To::command, "2"},
        Case{"a closed terminal", SIGHUP, To::group, "2", false, "SIGTERM"},
        Case{"SIGTERM to one of the ranks", SIGTERM, To::one_rank, "2"},
        Case{"srun's SIGTERM", SIGTERM, To::each_rank, "2", true},
        Case{"mpiexec's notice", SIGUSR1, To::command, "2", true},
        Case{"SIGTERM to a patient mpiexec", SIGTERM, To::command, "2", true}}) {
    SCOPED_TRACE(c.name);
    const Folder dir;
    const std::string out = dir / "run";
    // Ten heartbeats in this time inform ranks that were not signalled. An mpiexec that is ending stops
    // reading output, which would block the ranks, so they print nothing there.
    const Words long_run =
        train_words(tiny(),
                    settings(out, "1000000",
                             {"run.hang_timeout=20", std::string("layout.dp=") + c.ranks,
                              std::string("train.log_every=") + (c.own_mpiexec ? "1000000" : "10")}),
                    c.own_mpiexec || c.ranks[0] == '1' ? Words{} : Words{"--ranks", c.ranks});
    Child child(c.own_mpiexec ? mpiexec(2, kPatient) + long_run : long_run);
    ASSERT_TRUE(reached(child, out, 5)) << child.wait(0).text;
    const auto ranks = ranks_of(child.pid());
    send(c.signal, c.to, child.pid());
    const double begun = seconds_now();
    const Ended e = child.wait();
    EXPECT_LT(seconds_now() - begun, kQuickly);
    // mpiexec chooses its own exit code when it is signalled: 143 or 1 for Open MPI; 138, 143 or at random 0
    // for Hydra 4.0.2, whatever the program. That says nothing about ours.
    const bool its_own = c.own_mpiexec && c.to == To::command;
    if (!its_own || (kOpenMpi && c.signal != SIGTERM) || (!kOpenMpi && e.code != 0))
      EXPECT_EQ(e.code, 128 + c.signal) << e.text;
    else if (kOpenMpi)
      EXPECT_NE(e.code, 0) << e.text;
    const WrittenRun r = read_run(out);
    EXPECT_EQ(r.end["status"], "failed");
    EXPECT_EQ(r.end["class"], "interrupted");
    EXPECT_EQ(r.end["signal"], c.reason ? c.reason : name_of(c.signal)) << e.text;
    for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank)) << "a rank outlives its run";

    // All ranks completed the same steps: the checkpoint is complete, and resuming equals a run without a
    // stop.
    ASSERT_FALSE(r.losses.empty());
    const int64_t stopped_at = r.losses.rbegin()->first;
    EXPECT_HAS(r.end.value("message", ""), "after step " + std::to_string(stopped_at));
    char name[64];
    std::snprintf(name, sizeof name, "/checkpoints/step-%08ld", stopped_at);
    ASSERT_TRUE(fs::exists(out + name + "/state.json")) << e.text;
    if (c.name != "Ctrl-C" && c.name != "SIGTERM, one rank") continue;
    const Words end = settings(out, std::to_string(stopped_at + 5), {std::string("layout.dp=") + c.ranks});
    const Words plain = c.ranks[0] == '1' ? Words{} : Words{"--ranks", c.ranks};
    const Ended resumed = train_command(end, plain + Words{"--resume", out});
    ASSERT_EQ(resumed.code, 0) << resumed.text;
    Words anew = end;
    anew.emplace_back("run.out=" + (dir / "whole"));
    const Ended whole = train_command(anew, plain);
    ASSERT_EQ(whole.code, 0) << whole.text;
    EXPECT_EQ(read_run(out).losses, read_run(dir / "whole").losses);
    std::snprintf(name, sizeof name, "/checkpoints/step-%08ld", stopped_at + 5);
    for (const char* file : {"/model.safetensors", "/optimizer.safetensors"})
      EXPECT_TRUE(text_of(out + name + file) == text_of(dir / "whole" + name + file)) << file;
  }
}

TEST(Signals, WithoutCheckpointsAskedForNoneIsWritten) {
  const Folder dir;
  Child child(train_words(tiny(), {"run.threads=1", "train.steps=1000000", "run.out=" + (dir / "run")},
                          {"--ranks", "2"}));
  ASSERT_TRUE(reached(child, dir / "run", 5)) << child.wait(0).text;
  ::kill(child.pid(), SIGTERM);
  const Ended e = child.wait();
  EXPECT_EQ(e.code, 143) << e.text;
  EXPECT_HAS(e.text, "train.checkpoint_every is 0");
  EXPECT_FALSE(fs::exists(dir / "run/checkpoints"));
}

TEST(Signals, ASecondOneEndsTheRunAtOnce) {
  for (const char* ranks : {"1", "2"}) {
    const Folder dir;
    const std::string out = dir / "run";
    // The checkpoint requested by the first signal never completes.
    Words words = {"env", "LD_PRELOAD=" + preload("slow_disk"),
                   std::string("ISOBAR_SLOW_DISK=fsync checkpoints 600 1 ") + (ranks[0] == '1' ? "*" : "1"),
                   "ISOBAR_SLOW_MARK=" + (dir / "mark")};
    const Words train = train_words(tiny(), settings(out, "1000000"), {"--ranks", ranks});
    words.insert(words.end(), train.begin(), train.end());
    Child child(words);
    ASSERT_TRUE(reached(child, out, 5)) << child.wait(0).text;
    const auto processes = ranks_of(child.pid());
    ::kill(child.pid(), SIGINT);
    for (const double begun = seconds_now(); !fs::exists(dir / "mark") && seconds_now() - begun < 60;)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(fs::exists(dir / "mark")) << child.wait(0).text;
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    ASSERT_FALSE(child.over());
    ::kill(child.pid(), SIGINT);
    const double begun = seconds_now();
    const Ended e = child.wait();
    EXPECT_LT(seconds_now() - begun, kQuickly);
    EXPECT_EQ(e.code, 130) << e.text;
    EXPECT_EQ(read_run(out).end["class"], "interrupted");
    for (const pid_t rank : processes) EXPECT_TRUE(gone(rank)) << "a rank outlives its run";
  }
}

#ifdef ISOBAR_OPEN_MPI  // Hydra waits for its ranks
TEST(Signals, AnMpiexecThatLeavesNoTimeLeavesAWordAtLeast) {
  const Folder dir;
  const std::string out = dir / "run";
  // A write longer than mpiexec's grace period stands for a step of that length.
  const Words slow = {"env", "LD_PRELOAD=" + preload("slow_disk"),
                      "ISOBAR_SLOW_DISK=fsync checkpoints 600 1 *", "ISOBAR_SLOW_MARK=" + (dir / "mark")};
  Words train = train_words(tiny(), settings(out, "1000000", {"layout.dp=2", "train.checkpoint_every=3"}));
  train.insert(train.begin(), slow.begin(), slow.end());
  Child child(mpiexec(2) + train);
  for (const double begun = seconds_now(); !fs::exists(dir / "mark") && seconds_now() - begun < 60;)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_TRUE(fs::exists(dir / "mark")) << child.wait(0).text;
  const auto ranks = ranks_of(child.pid());
  ::kill(child.pid(), SIGTERM);
  const Ended e = child.wait();
  EXPECT_NE(e.code, 0);
  const WrittenRun r = read_run(out);
  EXPECT_EQ(r.end["class"], "interrupted") << e.text;
  EXPECT_EQ(r.end["signal"], "SIGTERM") << e.text;
  for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank)) << "a rank outlives its run";
}
#endif

TEST(Signals, ACommandThatIsKilledLeavesNoRankBehind) {
  const Folder dir;
  Child child(train_words(tiny(), settings(dir / "run", "1000000"), {"--ranks", "2"}));
  ASSERT_TRUE(reached(child, dir / "run", 5)) << child.wait(0).text;
  const auto ranks = ranks_of(child.pid());
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(child.pid(), SIGKILL);
  EXPECT_EQ(child.wait().code, 1000 + SIGKILL);
  for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank)) << "a rank outlives its run";
}

}  // namespace
}  // namespace isobar::engine
