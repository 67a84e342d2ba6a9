// Cross-checks of a log by second numbers: rates, batches and clock times in its lines must agree with the
// step times. A disagreement is an error with both numbers.
//
//   StepLines lines(file);
//   if (lines.take(iteration)) run.steps.push_back(seconds), add_rates(q, run.second);
//   check_second_numbers(run);
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/logs/quantities.h"

namespace isobar::foreign {

struct LoggedRun;

struct SecondNumbers {
  std::vector<double> samples_s, tokens_gpu_s, tflops_gpu;  // one for each step line that has them
  std::vector<double> batches;                              // samples a step between two lines
  double wall_s = 0, claimed_s = 0;                         // from the second timed line to the last
  std::optional<double> least_wall;  // least clock time between two lines, per claimed second
  size_t intervals = 0;              // that a clock measured
  bool by_the_clock = false;         // rates that contain all time but that of validations
};

/// Filters step lines: a line that is redrawn, or printed by another rank too, counts once.
class StepLines {
 public:
  /// `late`: lines that ranks and progress bars may be behind the newest.
  explicit StepLines(std::string file, double late = 2) : file_(std::move(file)), late_(late) {}
  /// Throws ConfigError when the step numbers start again.
  bool take(std::optional<double> number);

 private:
  std::string file_;
  double late_;
  std::set<double> seen_;
  double most_ = 0, before_ = 0;  // the two largest numbers
};

/// Measures clock time and samples between step lines.
class StepPace {
 public:
  /// `seconds`: time of each step since the previous line.
  void add(const std::string& line, std::optional<double> number, std::optional<double> consumed,
           double seconds, SecondNumbers& to);

 private:
  std::optional<double> number_, clock_, consumed_;
};

/// Adds the rates of a step's line.
void add_rates(const logs::Quantities& q, SecondNumbers& to);

/// Throws ConfigError when the step times contradict one of these numbers; notes what may be none of a
/// step's.
void check_second_numbers(LoggedRun& r);

/// Throws ConfigError(file, key, …) with both numbers unless `printed` is within `factor` of `computed`.
void refuse_disagreement(const std::string& file, const std::string& key, double printed, double computed,
                         const std::string& of, double factor);

}  // namespace isobar::foreign
