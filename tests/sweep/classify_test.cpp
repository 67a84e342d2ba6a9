#include "bench/sweep/run/classify.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "model/records/results.h"

namespace isobar::sweep {
namespace {

ProcessOutcome outcome(ProcessEnd end, int code = 0, int oom_kills = 0) {
  ProcessOutcome o;
  o.end = end;
  o.code = code;
  o.oom_kills = oom_kills;
  o.wall_s = 12.5;
  return o;
}
const records::ResultTail kNothing{};
const records::ResultTail kStarted{.started = true, .last_event = "step", .last_step = 7};
const records::ResultTail kOk{.started = true, .ended = true, .status = "ok", .last_step = 9};
records::ResultTail failed(const std::string& why) {
  return {.started = true,
          .ended = true,
          .status = "failed",
          .failure = why,
          .message = "own words",
          .last_step = 3};
}

TEST(Classify, TableOfEndsAndTheirClasses) {
  struct Case {
    const char* what;
    ProcessOutcome outcome;
    records::ResultTail tail;
    std::string err;
    records::RunClass expected;
  };
  const Case cases[] = {
      {"clean end", outcome(ProcessEnd::exited, 0), kOk, "", records::RunClass::ok},
      {"crash after the result", outcome(ProcessEnd::signalled, SIGSEGV), kOk, "", records::RunClass::ok},
      {"did not leave after the result", outcome(ProcessEnd::timeout), kOk, "", records::RunClass::ok},
      {"exit 0 without a result", outcome(ProcessEnd::exited, 0), kStarted, "", records::RunClass::crash},
      {"exit 2", outcome(ProcessEnd::exited, 2), kNothing, "a.yaml: 'k': bad", records::RunClass::bad_config},
      {"exit 3", outcome(ProcessEnd::exited, 3), kStarted, "", records::RunClass::numeric},
      {"exit 4", outcome(ProcessEnd::exited, 4), kStarted, "", records::RunClass::oom_host},
      {"exit 1 before the start", outcome(ProcessEnd::exited, 1), kNothing, "no slots",
       records::RunClass::launch_fail},
      {"exit 1 in the run", outcome(ProcessEnd::exited, 1), kStarted, "boom", records::RunClass::crash},
      {"exit 1, bad_alloc in err", outcome(ProcessEnd::exited, 1), kStarted, "x std::bad_alloc",
       records::RunClass::oom_host},
      {"exit 127", outcome(ProcessEnd::exited, 127), kNothing, "", records::RunClass::launch_fail},
      {"a rank's SIGSEGV through mpiexec", outcome(ProcessEnd::exited, 139), kStarted, "",
       records::RunClass::crash},
      {"a rank's SIGTERM through mpiexec", outcome(ProcessEnd::exited, 143), kStarted, "",
       records::RunClass::interrupted},
      {"a rank taken by the OOM killer", outcome(ProcessEnd::exited, 137, 1), kStarted, "",
       records::RunClass::oom_host},
      {"SIGSEGV", outcome(ProcessEnd::signalled, SIGSEGV), kStarted, "", records::RunClass::crash},
      {"SIGABRT", outcome(ProcessEnd::signalled, SIGABRT), kStarted, "assert", records::RunClass::crash},
      {"SIGABRT by bad_alloc", outcome(ProcessEnd::signalled, SIGABRT), kStarted, "std::bad_alloc",
       records::RunClass::oom_host},
      {"SIGKILL by the OOM killer", outcome(ProcessEnd::signalled, SIGKILL, 1), kStarted, "",
       records::RunClass::oom_host},
      {"SIGKILL by somebody", outcome(ProcessEnd::signalled, SIGKILL), kStarted, "",
       records::RunClass::crash},
      {"SIGSEGV while another process is OOM-killed", outcome(ProcessEnd::signalled, SIGSEGV, 1), kStarted,
       "", records::RunClass::crash},
      {"a scheduler's notice, SIGUSR1", outcome(ProcessEnd::exited, 138), kStarted, "",
       records::RunClass::interrupted},
      {"SIGTERM by somebody", outcome(ProcessEnd::signalled, SIGTERM), kStarted, "",
       records::RunClass::interrupted},
      {"time limit", outcome(ProcessEnd::timeout), kStarted, "", records::RunClass::timeout},
      {"time limit, echo of SIGTERM", outcome(ProcessEnd::timeout), failed("interrupted"), "",
       records::RunClass::timeout},
      {"no progress", outcome(ProcessEnd::hang), kStarted, "", records::RunClass::hang},
      {"failed, then did not leave", outcome(ProcessEnd::hang), failed("numeric"), "",
       records::RunClass::numeric},
      {"no progress before the start", outcome(ProcessEnd::hang), kNothing, "",
       records::RunClass::launch_fail},
      {"time limit before the start", outcome(ProcessEnd::timeout), kNothing, "",
       records::RunClass::launch_fail},
      {"exit 4 by a device", outcome(ProcessEnd::exited, 4), kStarted, "CUDA_ERROR_OUT_OF_MEMORY",
       records::RunClass::oom_device},
      {"exit 1 by a device", outcome(ProcessEnd::exited, 1), kStarted,
       "cudaErrorMemoryAllocation: out of memory", records::RunClass::oom_device},
      {"own word: oom_device", outcome(ProcessEnd::exited, 4), failed("oom_device"), "",
       records::RunClass::oom_device},
      {"own word: wrong_result", outcome(ProcessEnd::exited, 1), failed("wrong_result"), "",
       records::RunClass::wrong_result},
      {"assert()", outcome(ProcessEnd::signalled, SIGABRT), kStarted, "a.cpp:3: f: Assertion `x > 0' failed.",
       records::RunClass::assertion},
      {"a rank's assert() through mpiexec", outcome(ProcessEnd::exited, 134), kStarted,
       "a.cpp:3: f: Assertion `x > 0' failed.\nmpiexec noticed", records::RunClass::assertion},
      {"full disk", outcome(ProcessEnd::exited, 1), kStarted, "cannot write x: No space left on device",
       records::RunClass::interrupted},
      {"full disk, its own word",
       outcome(ProcessEnd::exited, 1),
       {.started = true,
        .ended = true,
        .status = "failed",
        .failure = "crash",
        .message = "cannot write x: No space left on device"},
       "",
       records::RunClass::interrupted},
      {"memory limit", outcome(ProcessEnd::memory, -SIGKILL), kStarted, "", records::RunClass::oom_host},
      {"own word: crash", outcome(ProcessEnd::exited, 1), failed("crash"), "", records::RunClass::crash},
      {"own word: hang", outcome(ProcessEnd::exited, 1), failed("hang"), "", records::RunClass::hang},
      {"own word unknown, exit 3", outcome(ProcessEnd::exited, 3), failed("sideways"), "",
       records::RunClass::numeric},
      {"not started", outcome(ProcessEnd::not_started, ENOENT), kNothing, "", records::RunClass::launch_fail},
      {"cancelled", outcome(ProcessEnd::cancelled, -SIGTERM), kStarted, "", records::RunClass::interrupted},
      {"supervisor lost", outcome(ProcessEnd::lost), kStarted, "", records::RunClass::interrupted},
  };
  for (const Case& c : cases) {
    const Verdict v = classify(c.outcome, c.tail, c.err);
    EXPECT_EQ(v.run_class, c.expected)
        << c.what << ": " << records::name_of(v.run_class) << " (" << v.message << ")";
    EXPECT_TRUE(c.expected == records::RunClass::ok || !v.message.empty()) << c.what;
  }
}

TEST(Classify, AMeasurementThatCannotBeIsNoResult) {
  const StepStats step{.median = 0.010, .p10 = 0.009, .p90 = 0.013};
  const Verdict ok{records::RunClass::ok, ""};
  EXPECT_EQ(doubted(ok, step, {}).run_class, records::RunClass::ok);
  EXPECT_EQ(doubted(ok, step, {.least_step_s = 0.0101}).run_class, records::RunClass::implausible);
  EXPECT_EQ(doubted(ok, step, {.least_step_s = 0.0099}).run_class, records::RunClass::ok);
  EXPECT_EQ(doubted(ok, step, {.noise_limit = 0.39}).run_class, records::RunClass::noisy);
  EXPECT_EQ(doubted(ok, step, {.noise_limit = 0.41}).run_class, records::RunClass::ok);
  EXPECT_EQ(doubted({records::RunClass::crash, "x"}, step, {.least_step_s = 1}).run_class,
            records::RunClass::crash);
}

TEST(Classify, TheSchedulersLastWordOnAJob) {
  const std::pair<const char*, records::RunClass> words[] = {
      {"NODE_FAIL", records::RunClass::node_fail},
      {"BOOT_FAIL", records::RunClass::node_fail},
      {"PREEMPTED", records::RunClass::preempted},
      {"TIMEOUT", records::RunClass::timeout},
      {"OUT_OF_MEMORY", records::RunClass::oom_host},
      {"CANCELLED by 1000", records::RunClass::interrupted},
      {"COMPLETED", records::RunClass::interrupted},
      {"FAILED (Exit_status 1)", records::RunClass::interrupted}};
  for (const auto& [state, expected] : words) {
    const Verdict v = verdict_of_job(state, "12");
    EXPECT_EQ(v.run_class, expected) << state;
    EXPECT_NE(v.message.find("12"), std::string::npos) << v.message;
    EXPECT_EQ(v.retry, expected != records::RunClass::oom_host && std::string(state).substr(0, 4) != "CANC")
        << state;
  }
}

TEST(Classify, MessagesNameSignalStepAndOp) {
  records::ResultTail tail = kStarted;
  tail.last_op = "block03/mlp/fc1/forward";
  const std::string hang = classify(outcome(ProcessEnd::hang), tail, "").message;
  EXPECT_NE(hang.find("step 7"), std::string::npos);
  EXPECT_NE(hang.find("block03/mlp/fc1/forward"), std::string::npos);
  const std::string crash =
      classify(outcome(ProcessEnd::signalled, SIGBUS), kStarted, "first\nlast words\n\n").message;
  EXPECT_NE(crash.find("SIGBUS"), std::string::npos);
  EXPECT_NE(crash.find("last words"), std::string::npos);
  EXPECT_EQ(crash.find("first"), std::string::npos);
}

TEST(Classify, NamesAreReadBack) {
  for (int i = 0; i <= static_cast<int>(records::RunClass::interrupted); ++i) {
    const auto c = static_cast<records::RunClass>(i);
    ASSERT_TRUE(records::run_class(records::name_of(c)).has_value());
    EXPECT_EQ(*records::run_class(records::name_of(c)), c);
  }
  EXPECT_FALSE(records::run_class("fine").has_value());
}

TEST(Classify, OnlyWhatADyingSweepCannotHaveCausedIsTakenOver) {
  ASSERT_TRUE(verdict_from_results(kOk).has_value());
  EXPECT_EQ(verdict_from_results(kOk)->run_class, records::RunClass::ok);
  EXPECT_EQ(verdict_from_results(failed("numeric"))->run_class, records::RunClass::numeric);
  EXPECT_FALSE(verdict_from_results(failed("crash")).has_value());
  EXPECT_FALSE(verdict_from_results(failed("hang")).has_value());
  EXPECT_FALSE(verdict_from_results(kStarted).has_value());
  EXPECT_FALSE(verdict_from_results(kNothing).has_value());
}

}  // namespace
}  // namespace isobar::sweep
