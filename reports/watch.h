// A sweep as it goes, read from its results directory by anybody who can: the sweep itself is not asked, so
// it may run on another machine of a shared filesystem, and any number may watch.
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

#include "bench/sweep/contention.h"
#include "model/base/step_stats.h"

namespace isobar {

struct WatchedTrial {
  std::string id, label;
  std::string state =
      "planned";  // planned | submitted | running | a final class, in the words of status.json
  bool final = false;
  std::string message;
  int64_t ranks = 0;
  int64_t step = 0, steps = 0;  // of a running one
  double samples_per_s = 0;     // of its last step; of a finished one by kStatistic of its steps
  StepStats step_s;             // of a finished one
  Contention contention;
  double age_s = 0;  // since its result file last grew
  double wall_s = 0;
};

struct WatchState {
  std::filesystem::path dir;
  std::vector<WatchedTrial> trials;      // in the sweep's order
  std::map<std::string, size_t> counts;  // by state
  std::vector<size_t> finished;          // in order of their end, last first; at most some
  size_t done = 0;
  double seconds_a_trial = 0;  // between ends of trials, lately; 0: not known
  double left_s() const { return seconds_a_trial * static_cast<double>(trials.size() - done); }
  const WatchedTrial* fastest() const;
};

class SweepWatch {
 public:
  /// Throws ConfigError for a directory that no sweep has begun to fill.
  explicit SweepWatch(std::filesystem::path dir);
  void refresh();
  const WatchState& state() const { return state_; }

 private:
  void read_matrix();
  void read_trial(size_t index);

  WatchState state_;
  std::filesystem::file_time_type matrix_time_{};
  std::map<std::string, size_t> index_;
  std::vector<std::filesystem::file_time_type> status_time_;
  std::deque<std::pair<std::filesystem::file_time_type, size_t>> ends_;
};

struct FrameOptions {
  size_t width = 100;  // columns
  size_t rows = 24;    // at most so many lines
  bool colour = false;
};
std::string frame(const WatchState& s, const FrameOptions& options);

}  // namespace isobar
