// Programs that flood, lie, fork or never end: limits hold, no process is left, and what was read is kept.
#include <gtest/gtest.h>

#include <fstream>

#include "bench/guest/run_guest.h"
#include "model/base/spec/validate.h"
#include "model/records/results.h"
#include "tests/engine/command.h"

namespace isobar::guest {
namespace {

constexpr const char* kLine = "step {step} loss {loss} {ms} ms";

std::string python(const Folder& dir, const std::string& body) {
  const std::string file = dir / "hostile.py";
  std::ofstream(file) << "import os, signal, sys, time\nout = sys.stdout.buffer\n" << body;
  return "exec python3 " + file;
}

records::EndRecord run(const Folder& dir, const std::string& command, int64_t most = int64_t{1} << 30,
                       const std::string& hang = "60") {
  RunSpec spec = load_run_spec(tiny(), {"run.out=" + (dir / "run"), "run.hang_timeout=" + hang});
  spec.run.command = command;
  spec.run.reads = kLine;
  return run_guest(spec, {}, {.most_output = most});
}

size_t bytes_of(const std::string& file) {
  return fs::exists(file) ? fs::file_size(file) : 0;
}

// It prints as fast as it can, and ignores what asks it to end.
TEST(Hostile, AFloodIsCutOnDiskAndEnded) {
  const Folder dir;
  constexpr int64_t kMost = 32 << 20;
  const double begun = seconds_now();
  const records::EndRecord e = run(dir,
                                   python(dir,
                                          "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                                          "for i in range(1, 6): out.write(b'step %d loss 1 5 ms\\n' % i)\n"
                                          "block = b'nothing to see here\\n' * 50000\n"
                                          "while True: out.write(block)\n"),
                                   kMost);
  EXPECT_EQ(e.failure, "crash") << *e.message;
  EXPECT_NE(e.message->find("more than 32 MiB"), std::string::npos) << *e.message;
  EXPECT_LT(seconds_now() - begun, kQuickly);
  EXPECT_LT(bytes_of(dir / "run/output.txt"), 40 * kMost) << "its last moments";
  EXPECT_EQ(records::load_run(dir / "run").steps.size(), 5u);
  for (const pid_t p : processes_with(dir / "hostile.py")) EXPECT_TRUE(gone(p)) << p;
}

TEST(Hostile, ALineWithoutEndHidesNoStep) {
  const Folder dir;
  const records::EndRecord e =
      run(dir, python(dir,
                      "out.write(b'step 1 loss 1 5 ms\\nloss ')\n"
                      "for i in range(256): out.write(b'1' * (1 << 20))\n"
                      "out.write(b'\\n')\n"
                      "for i in range(2, 9): out.write(b'step %d loss 0.5 5 ms\\n' % i)\n"));
  EXPECT_TRUE(e.ok()) << e.message.value_or("");
  EXPECT_EQ(e.steps, 8);
  EXPECT_EQ(records::load_run(dir / "run").steps.size(), 8u);
}

// Its output is a file like any other to it: it makes ten gigabytes of it at once, then takes them all away.
TEST(Hostile, TenGigabytesAtOnceAndThenNone) {
  const char* steps = "for i in range(1, 6): os.write(1, b'step %d loss 1 5 ms\\n' % i); time.sleep(0.1)\n";
  const Folder large, none;
  const records::EndRecord cut = run(
      large, python(large, std::string(steps) + "os.ftruncate(1, 10 << 30)\nwhile True: time.sleep(1)\n"));
  EXPECT_EQ(cut.failure, "crash") << *cut.message;
  EXPECT_NE(cut.message->find("more than 1024 MiB"), std::string::npos) << *cut.message;
  EXPECT_LE(bytes_of(large / "run/output.txt"), size_t{1} << 30);
  EXPECT_EQ(records::load_run(large / "run").steps.size(), 5u);
  const records::EndRecord emptied = run(none, python(none, std::string(steps) + "os.ftruncate(1, 0)\n"));
  EXPECT_TRUE(emptied.ok()) << emptied.message.value_or("");
  EXPECT_EQ(records::load_run(none / "run").steps.size(), 5u);
}

// Every child ignores SIGTERM and has children of its own; new ones come while it is ended.
TEST(Hostile, OneThatForksWithoutEndIsEndedWhole) {
  const Folder dir;
  const records::EndRecord e = run(dir,
                                   python(dir,
                                          "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                                          "for i in range(1, 6): os.write(1, b'step %d loss 1 5 ms\\n' % i)\n"
                                          "made = 0\n"
                                          "while True:\n"
                                          "  if made < 150 and os.fork() == 0:\n"
                                          "    if made % 2: os.setsid()\n"
                                          "    if made % 3 == 0 and os.fork() == 0: time.sleep(0.5)\n"
                                          "    while True: time.sleep(1)\n"
                                          "  made += 1\n"
                                          "  time.sleep(0.02)\n"),
                                   int64_t{1} << 30, "2");
  EXPECT_EQ(e.failure, "hang") << *e.message;
  EXPECT_EQ(records::load_run(dir / "run").steps.size(), 5u);
  for (const pid_t p : processes_with(dir / "hostile.py")) EXPECT_TRUE(gone(p)) << p;
}

TEST(Hostile, BytesThatAreNoTextAndNumbersThatLie) {
  const Folder dir;
  const records::EndRecord e =
      run(dir, python(dir,
                      "for i in range(1, 9): out.write(b'\\x00\\xff\\xfe step %d loss 0.5 5 ms\\n' % i)\n"
                      "out.write(b'step 3 loss 9 5 ms\\nstep -1 loss 9 5 ms\\nstep 1e300 loss 9 5 ms\\n')\n"
                      "out.write(b'step 9 loss 0.25 inf ms\\nstep 10 loss 0.25 -5 ms\\n')\n"
                      "out.write(b'step 11 loss 0.25 5 ms\\n')\n"));
  EXPECT_TRUE(e.ok()) << e.message.value_or("");
  const records::RunRecord r = records::load_run(dir / "run");
  EXPECT_NEAR(r.step_s.of(kStatistic), 0.005, 1e-9);
  EXPECT_EQ(r.steps.back().step, 11);
  const records::EndRecord failed = [&] {
    const Folder other;
    return run(other, python(other,
                             "out.write(b'step 1 loss 1 5 ms\\n')\nsys.stderr.buffer.write(b'\\xff\\x00 "
                             "bad')\nsys.exit(3)\n"));
  }();
  EXPECT_FALSE(failed.ok());
}

TEST(Hostile, DaemonsInSessionsOfTheirOwnEndWithIt) {
  const Folder dir;
  const records::EndRecord e = run(dir, python(dir,
                                               "for i in range(4):\n"
                                               "  if os.fork() == 0:\n"
                                               "    os.setsid()\n"
                                               "    if os.fork() == 0:\n"
                                               "      signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                                               "      while True: time.sleep(1)\n"
                                               "    os._exit(0)\n"
                                               "for i in range(1, 6): print('step', i, 'loss 1 5 ms')\n"));
  EXPECT_TRUE(e.ok()) << e.message.value_or("");
  for (const pid_t p : processes_with(dir / "hostile.py")) EXPECT_TRUE(gone(p)) << p;
}

}  // namespace
}  // namespace isobar::guest
