// Shared by the sweep's tests: a scratch directory, a sweep over the fake trainer, and the fake trainer's
// log.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "bench/sweep/run/runner.h"
#include "fault.h"
#include "model/base/system/files.h"
#include "tests/paths.h"

namespace isobar::sweep {

class Scratch {  // removed with its content
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "isobar-sweep-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  ~Scratch() { std::filesystem::remove_all(path_); }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class SweepTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write("base.yaml", "net: {embed_dim: 64, depth: 1}\ntrain: {global_batch: 8}\n");
    ::setenv("FAKE_LOG", (scratch_ / "log").c_str(), 1);
    ::setenv("FAKE_STEP_MS", "2", 1);
    ::unsetenv("FAKE_MPI");
    ::unsetenv("FAKE_CONTENDED");
    // Sanitizers must leave the trainer's faults as signals.
    for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"})
      ::setenv(name, "handle_segv=0:handle_abort=0:detect_leaks=0", 1);
  }

  void write(const std::string& name, const std::string& text) { write_atomically(scratch_ / name, text); }

  SweepSpec sweep(const std::string& body) {
    write("sweep.yaml", "base: base.yaml\nsteps: 4\ngrace_s: 0.2\n" + body);
    return load_sweep_spec((scratch_ / "sweep.yaml").string());
  }

  static std::string seed(Fault f) { return std::to_string(static_cast<int>(f)); }

  SweepOptions options() {
    return {.results = scratch_ / "results", .trainer = build_dir() + "/fake_train", .progress = false};
  }

  SweepOutcome run(const SweepSpec& s, SweepOptions o) {
    return run_sweep(expand(s), s, o, *local_launcher());
  }
  SweepOutcome run(const SweepSpec& s) { return run(s, options()); }

  // Entries of the fake trainer's log in order: "start id", "end id", "overlap id".
  std::vector<std::pair<std::string, std::string>> log() {
    std::vector<std::pair<std::string, std::string>> lines;
    std::ifstream in(scratch_ / "log");
    for (std::string what, id; in >> what >> id;) lines.emplace_back(what, id);
    return lines;
  }
  std::map<std::string, int> starts() {
    std::map<std::string, int> n;
    for (const auto& [what, id] : log()) n[id] += what == "start";
    return n;
  }

  Scratch scratch_;
};

}  // namespace isobar::sweep
