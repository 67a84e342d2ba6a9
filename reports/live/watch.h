// State of a running sweep, read from its results directory alone, so any number of readers can follow it
// from other machines on a shared filesystem.
//
//   SweepWatch watch("results/demo");
//   watch.refresh();                              // reads what has changed since
//   std::fputs(frame(watch.state(), {.width = 100}).c_str(), stdout);
#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/base/step_stats.h"
#include "model/records/advice.h"
#include "model/records/contention.h"

namespace isobar::report {

struct WatchedTrial {
  std::string id, label;
  std::string state = "planned";  // planned | submitted | running | a final class of status.json
  bool final = false;
  std::string message;
  int64_t ranks = 0;
  int64_t step = 0, steps = 0;  // while running
  double samples_per_s = 0;     // last step's while running; by kStatistic of the steps when finished
  StepStats step_s;             // when finished
  records::Contention contention;
  double age_s = 0;  // since its result file last grew
  double wall_s = 0;
  std::string advice;  // the newest, while running
};

struct WatchState {
  std::filesystem::path dir;
  std::vector<WatchedTrial> trials;      // in the sweep's order
  std::map<std::string, size_t> counts;  // by state
  std::vector<size_t> finished;          // most recently finished first; truncated
  size_t done = 0;
  double seconds_a_trial = 0;  // recent time between finished trials; 0: not known
  double left_s() const { return seconds_a_trial * static_cast<double>(trials.size() - done); }
  const WatchedTrial* fastest() const;
};

class SweepWatch {
 public:
  /// Throws ConfigError if the directory holds no sweep.
  explicit SweepWatch(std::filesystem::path dir);
  void refresh();
  const WatchState& state() const { return state_; }

 private:
  void read_matrix();
  void read_trial(size_t index);
  void advise(WatchedTrial& t, const std::filesystem::path& results);

  WatchState state_;
  std::filesystem::file_time_type matrix_time_{};
  std::map<std::string, size_t> index_;
  struct Advised {
    int64_t read = 0;  // bytes
    records::Advisor advisor{{}};
  };
  std::map<std::string, Advised> advised_;  // running trials
  std::vector<std::filesystem::file_time_type> status_time_;
  std::deque<std::pair<std::filesystem::file_time_type, size_t>> ends_;
};

struct FrameOptions {
  size_t width = 100;  // columns
  size_t rows = 24;    // most lines
  bool colour = false;
};
std::string frame(const WatchState& s, const FrameOptions& options);

}  // namespace isobar::report
