// Programs of others as runs of `isobar train` and trials of `isobar sweep`: records, classes of failure, and
// what is left when they never end.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "bench/guest/run_guest.h"
#include "model/base/step_stats.h"
#include "model/records/results.h"
#include "tests/engine/command.h"

namespace isobar::guest {
namespace {

/// A program: prints `steps` lines, sleeps `sleep` s between them, then ends with `tail`.
std::string script(const Folder& dir, const std::string& tail = "exit 0", int steps = 12,
                   const std::string& sleep = "0") {
  const std::string file = dir / "program.sh";
  std::ofstream(file) << "echo starting \"$@\" >&2\n"
                         "i=1\n"
                         "while [ $i -le "
                      << steps << " ]; do echo \"step $i loss 0.$((100 - i)) 40.0 ms\"; sleep " << sleep
                      << "; i=$((i + 1)); done\n"
                      << tail << "\n";
  return "sh " + file;
}

Ended train_by(const Folder& dir, const std::string& command, const Words& more = {}) {
  return train_command({"run.command=" + nlohmann::json(command).dump(), "run.out=" + (dir / "run"),
                        "run.reads=" + nlohmann::json("step {step} loss {loss} {ms} ms").dump()},
                       more);
}

TEST(Guest, IsARunLikeOurs) {
  const Folder dir;
  const Ended e = train_by(dir, script(dir) + " --mbs {policy.micro_batch} -n {ranks}",
                           {"--ranks", "2", "--set", "policy.micro_batch=4"});
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_NE(e.text.find("starting --mbs 4 -n 2"), std::string::npos) << e.text;
  std::vector<std::string> problems;
  const records::RunRecord r = records::load_run(dir / "run", &problems);
  EXPECT_TRUE(problems.empty()) << problems[0];
  EXPECT_EQ(r.run_class, records::RunClass::ok);
  EXPECT_EQ(r.ranks, 2);
  EXPECT_EQ(r.spec.policy.micro_batch, 4);
  EXPECT_EQ(r.steps.size(), 12u);
  EXPECT_NEAR(r.step_s.of(kStatistic), 0.04, 1e-9);
  EXPECT_NEAR(r.final_loss, 0.88, 1e-9);
  EXPECT_NE(text_of(fs::path(dir / "run/output.txt")).find("step 12 loss"), std::string::npos);
}

TEST(Guest, ItsEndHasTheClassThatItsWordsName) {
  struct Case {
    const char *tail, *failure;
    int code;
  };
  for (const Case& c :
       {Case{"echo 'torch.OutOfMemoryError: CUDA out of memory. Tried' >&2; exit 1", "oom_device", 4},
        {"echo \"RuntimeError: DefaultCPUAllocator: can't allocate memory\" >&2; exit 1", "oom_host", 4},
        {"echo 'train.py: error: unrecognized arguments: --x' >&2; exit 2", "bad_config", 2},
        {"echo 'step 13 loss nan 40.0 ms'; exit 0", "numeric", 3},
        {"echo 'Watchdog caught collective operation timeout: WorkNCCL' >&2; exit 1", "hang", 1},
        {"kill -SEGV $$", "crash", 1}}) {
    SCOPED_TRACE(c.tail);
    const Folder dir;
    const Ended e = train_by(dir, script(dir, c.tail));
    EXPECT_EQ(e.code, c.code) << e.text;
    EXPECT_EQ(records::name_of(records::load_run(dir / "run").run_class), std::string(c.failure)) << e.text;
  }
}

TEST(Guest, OutputThatIsNotUnderstoodIsSaid) {
  const Folder dir;
  const Ended e = train_by(dir, "echo nothing here");
  EXPECT_EQ(e.code, 2) << e.text;
  EXPECT_NE(e.text.find("run.reads"), std::string::npos) << e.text;
  EXPECT_NE(e.text.find("output.txt"), std::string::npos) << e.text;
}

TEST(Guest, WhatTheEngineAloneReadsIsRefused) {
  const Folder dir;
  for (const Words& more : {Words{"--trace", dir / "trace.json"}, Words{"--set", "policy.amp=bf16"}}) {
    const Ended e = train_by(dir, script(dir), more);
    EXPECT_EQ(e.code, 2) << e.text;
    EXPECT_NE(e.text.find("run.command"), std::string::npos) << e.text;
  }
  const Ended nowhere = train_command({"run.command=echo hello"});
  EXPECT_EQ(nowhere.code, 2) << nowhere.text;
  EXPECT_NE(nowhere.text.find("run.out"), std::string::npos) << nowhere.text;
  const Ended alone = train_command({"run.reads=json"});
  EXPECT_EQ(alone.code, 2) << alone.text;
}

// It ignores SIGTERM, leaves a child in a session of its own, and never ends.
TEST(Guest, OneThatNeverEndsIsEndedWithAllItsProcesses) {
  const Folder dir;
  std::ofstream(dir / "stubborn.sh")
      << "trap '' TERM\nsetsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &\n"
         "echo 'step 1 loss 1 5 ms'; echo 'step 2 loss 1 5 ms'\n"
         "while :; do sleep 1; done\n";
  const Ended e = train_by(dir, "sh " + (dir / "stubborn.sh"), {"--set", "run.hang_timeout=2"});
  EXPECT_EQ(e.code, 1) << e.text;
  EXPECT_EQ(read_run(dir / "run").end.value("class", ""), "hang");
  for (const pid_t p : processes_with(dir / "stubborn.sh")) EXPECT_TRUE(gone(p)) << p;
}

TEST(Guest, ASignalEndsItAndIsSaid) {
  const Folder dir;
  Child child(train_words(
      tiny(),
      {"run.command=" + nlohmann::json(script(dir, "exit 0", 1000, "0.1")).dump(), "run.out=" + (dir / "run"),
       "run.reads=" + nlohmann::json("step {step} loss {loss} {ms} ms").dump()},
      {}));
  while (!child.over() && (!fs::exists(dir / "run/result.jsonl") || read_run(dir / "run").losses.size() < 3))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(child.pid(), SIGTERM);
  const Ended e = child.wait();
  EXPECT_EQ(e.code, 128 + SIGTERM) << e.text;
  EXPECT_EQ(read_run(dir / "run").end.value("class", ""), "interrupted");
  for (const pid_t p : processes_with(dir / "program.sh")) EXPECT_TRUE(gone(p)) << p;
}

// It counts to ten, and stops itself at step 5 the first time.
TEST(Guest, StepsAreTimedWhenTheyAreWritten) {
  const Folder dir;
  std::ofstream(dir / "program.sh")
      << "i=0; while [ $i -lt 40 ]; do i=$((i + 1)); echo \"step $i at $(date +%s%N)\"; sleep 0.03; done\n";
  const Ended e = train_command({"run.command=" + nlohmann::json("sh " + (dir / "program.sh")).dump(),
                                 "run.out=" + (dir / "run"), "run.reads=step {step} at"});
  ASSERT_EQ(e.code, 0) << e.text;
  const records::RunRecord r = records::load_run(dir / "run", nullptr);
  std::ifstream out(dir / "run/output.txt");
  std::map<int64_t, double> at;
  std::string step, word;
  for (double ns = 0, n = 0; out >> step >> n >> word >> ns;) at[static_cast<int64_t>(n)] = 1e-9 * ns;
  ASSERT_EQ(at.size(), 40u);
  std::vector<double> off;
  for (const records::StepRecord& s : r.steps)
    if (at.contains(s.step - 1)) off.push_back(std::abs(s.seconds - (at[s.step] - at[s.step - 1])));
  ASSERT_GE(off.size(), 30u);
  EXPECT_LT(quantile(off, 0.5), 0.008) << "of a look every 50 ms: 25 ms";
}

TEST(Guest, IsTakenUpFromItsOwnCheckpoint) {
  const Folder dir;
  std::ofstream(dir / "counts.sh")
      << "i=0; [ \"$2\" ] && i=$(cat \"$2\") && echo \"from $i\"\n"
         "while [ $i -lt 10 ]; do i=$((i + 1)); echo \"step $i loss 0.5 40.0 ms\"\n"
         "[ $((i % 2)) = 0 ] && echo $i > \"$1/at-$i.txt\"\n"
         "[ $i = 5 ] && [ -z \"$2\" ] && exit 1; done; exit 0\n";
  const std::string command = "sh " + (dir / "counts.sh") + " {out} {resume}";
  const Words how = {"--set", "run.resume=\"{checkpoint}\"", "--set", "run.checkpoint=at-*.txt"};
  const Ended first = train_by(dir, command, how);
  EXPECT_EQ(first.code, 1) << first.text;
  EXPECT_EQ(first.text.find("from "), std::string::npos) << first.text;
  EXPECT_EQ(train_by(dir, command, how).code, 2) << "its folder holds a training";
  Words again = how;
  again.insert(again.end(), {"--resume", dir / "run"});
  const Ended second = train_by(dir, command, again);
  EXPECT_EQ(second.code, 0) << second.text;
  EXPECT_NE(second.text.find("from 4"), std::string::npos) << second.text;
  const records::RunRecord r = records::load_run(dir / "run");
  EXPECT_EQ(r.run_class, records::RunClass::ok);
  EXPECT_EQ(r.steps.back().step, 10);
}

// It counts from 0, and says so only before it is taken up.
TEST(Guest, StepsCountedFromZeroAreAsManyWhenTakenUp) {
  const Folder dir;
  std::ofstream(dir / "counts.sh") << "i=0; [ \"$2\" ] && i=$(cat \"$2\")\n"
                                      "while [ $i -lt 10 ]; do echo \"step $i loss 0.5 40.0 ms\"; i=$((i + "
                                      "1)); echo $i > \"$1/at-$i.txt\"\n"
                                      "sleep 0.02; [ $i = 5 ] && [ -z \"$2\" ] && exit 1; done; exit 0\n";
  const std::string command = "sh " + (dir / "counts.sh") + " {out} {resume}";
  Words how = {"--set", "run.resume=\"{checkpoint}\"", "--set", "run.checkpoint=at-*.txt"};
  EXPECT_EQ(train_by(dir, command, how).code, 1);
  how.insert(how.end(), {"--resume", dir / "run"});
  const Ended second = train_by(dir, command, how);
  EXPECT_EQ(second.code, 0) << second.text;
  EXPECT_EQ(read_run(dir / "run").end.value("steps", 0), 10);
}

// Reference: the program's own law, 10 ms and 4 ms a sample of each rank.
TEST(Guest, WithoutANetSweepsAreFittedAndPredictedBySettings) {
  const Folder dir;
  std::ofstream(dir / "law.sh") << "ms=$((10 + 4 * $1 / $2))\n"
                                   "for i in 1 2 3 4 5 6; do echo \"step $i loss 0.5 $ms ms\"; done\n";
  std::ofstream(dir / "base.yaml") << "train: {steps: 6, global_batch: 8}\nrun:\n  command: \"sh "
                                   << dir / "law.sh"
                                   << " {train.global_batch} {ranks} {policy.micro_batch}\"\n"
                                      "  reads: \"step {step} loss {loss} {ms} ms\"\n";
  std::ofstream(dir / "sweep.yaml")
      << "base: base.yaml\naxes:\n  gpus: [1, 2, 4]\n  train.global_batch: [8, 16, 32, "
         "64]\n  policy.micro_batch: [1, 2]\n";
  const auto call = [&](const Words& words) {
    Words all = {isobar::command()};
    all.insert(all.end(), words.begin(), words.end());
    return Child(all).wait();
  };
  const Words suggest = {"sweep", dir / "sweep.yaml", "--results", dir / "results", "--suggest", "3"};
  Words some = suggest;
  some.push_back("--run");
  const Ended suggested = call(some);
  ASSERT_EQ(suggested.code, 0) << suggested.text;
  EXPECT_EQ(suggested.text.find("by settings: no net is described"), 0u) << suggested.text;
  const Ended swept = call({"sweep", dir / "sweep.yaml", "--results", dir / "results"});
  ASSERT_EQ(swept.code, 0) << swept.text;
  const Ended machine = call({"fit", dir / "results", "--machine",
                              source_dir() + "/configs/machines/example-2core.yaml", "-o", dir / "f.json"});
  EXPECT_EQ(machine.code, 2) << machine.text;
  const Ended fitted = call({"fit", dir / "results", "-o", dir / "f.json", "--holdout", "0.5"});
  ASSERT_EQ(fitted.code, 0) << fitted.text;
  EXPECT_EQ(fitted.text.find("By settings: no net is described"), 0u) << fitted.text;
  EXPECT_NE(fitted.text.find("Held out: 12 runs"), std::string::npos) << fitted.text;
  const nlohmann::json held = nlohmann::json::parse(text_of(fs::path(dir / "results/holdout.json")));
  EXPECT_LT(held["held_out"]["median_error"].get<double>(), 0.1) << fitted.text;
  const Words asked = {"predict", dir / "base.yaml",       "--set", "layout.dp=2",
                       "--set",   "train.global_batch=32", "--json"};
  EXPECT_EQ(call(asked).code, 2) << "nothing prices it";
  Words by = asked;
  by.insert(by.end(), {"--fit", dir / "f.json"});
  const Ended predicted = call(by);
  ASSERT_EQ(predicted.code, 0) << predicted.text;
  EXPECT_NEAR(nlohmann::json::parse(predicted.text)["step_s"].get<double>(), 0.074, 0.012) << predicted.text;
  const Ended reported = call({"report", dir / "results", "-o", dir / "report"});
  EXPECT_EQ(reported.code, 0) << reported.text;
}

// A program that takes twice as long as the fit says, and does not say why.
TEST(Guest, ASlowRunIsToldWithTheFigures) {
  const Folder dir;
  std::ofstream(dir / "law.sh")
      << "i=1; while [ $i -le 90 ]; do sleep 0.007; echo \"step $i loss 0.5 $1 ms\"; i=$((i + 1)); done\n";
  nlohmann::json fit = {{"schema", 1}, {"by_settings", nlohmann::json::array()}};
  std::ofstream(dir / "base.yaml") << "train: {steps: 90}\nrun: {command: \"sh " << dir / "law.sh"
                                   << " 6\", reads: \"step {step} loss {loss} {ms} ms\"}\n";
  for (int i = 0; i < 6; ++i)
    fit["by_settings"].push_back({{"id", std::to_string(i)},
                                  {"step_s", 0.003 * (1 + 0.002 * i)},
                                  {"error", 0.01},
                                  {"settings", {{"run.threads", 1}}}});
  std::ofstream(dir / "fit.json") << fit.dump();
  const Ended e = Child({isobar::command(), "train", dir / "base.yaml", "--fit", dir / "fit.json", "--set",
                         "run.out=" + (dir / "run")})
                      .wait();
  ASSERT_EQ(e.code, 0) << e.text;
  const size_t at = e.text.find("advice: 6 ms a step, 3");
  ASSERT_NE(at, std::string::npos) << e.text.substr(0, 2000);
  EXPECT_EQ(e.text.find("advice: ", at + 8), std::string::npos) << "said once";
  const Ended watched = Child({isobar::command(), "watch", dir / "run", "--once"}).wait();
  EXPECT_NE(watched.text.find("6 ms a step, 3"), std::string::npos) << watched.text;
}

TEST(Guest, SweepsRunItAsTheyRunOurs) {
  const Folder dir;
  const std::string command =
      script(dir, "if [ \"$2\" = 4 ]; then echo 'CUDA out of memory' >&2; exit 1; fi");
  const auto sweep = [&](const std::string& axes) {
    std::ofstream(dir / "sweep.yaml")
        << "base: " << tiny() << "\nset:\n  run.command: "
        << nlohmann::json(command + " --mbs {policy.micro_batch} -n {ranks}").dump()
        << "\n  run.reads: \"step {step} loss {loss} {ms} ms\"\n  train.global_batch: 8\naxes:\n"
        << axes;
    return Child({isobar::command(), "sweep", dir / "sweep.yaml", "--results", dir / "results", "--json"})
        .wait();
  };
  const Ended e = sweep("  policy.micro_batch: [1, 2, 4]\n  layout.dp: [1, 2]\n");
  ASSERT_EQ(e.code, 0) << e.text;
  int ok = 0, oom = 0;
  for (const records::RunRecord& r : records::load_runs(dir / "results")) {
    ok += r.run_class == records::RunClass::ok;
    oom += r.run_class == records::RunClass::oom_device;
    EXPECT_EQ(r.run_class == records::RunClass::oom_device, r.spec.policy.micro_batch == 4) << r.message;
  }
  EXPECT_EQ(ok, 4);
  EXPECT_EQ(oom, 2);
  const Ended refused = sweep("  policy.amp: [none, bf16]\n");
  EXPECT_EQ(refused.code, 2) << refused.text;
  EXPECT_NE(refused.text.find("policy.amp"), std::string::npos) << refused.text;
}

}  // namespace
}  // namespace isobar::guest
