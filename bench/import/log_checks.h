// Second numbers of a log: what its lines print beside the times of steps, against which those are checked.
// A disagreement is an error with both numbers.
//
//   StepLines lines(file);
//   if (lines.take(iteration)) run.steps.push_back(seconds), add_rates(line, run.second);
//   check_second_numbers(run);
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace isobar {

struct LoggedRun;

struct SecondNumbers {
  std::vector<double> samples_s, tokens_gpu_s, tflops_gpu;  // of each line of a step, where it has them
  std::vector<double> batches;                              // samples between two lines, a step
  double wall_s = 0, claimed_s = 0;                         // from the second such line to the last
  std::optional<double> least_wall;                         // of two such lines, for a second that is claimed
};

/// Numbers of steps as a log's lines come: a line that is drawn again, or printed by another rank, counts
/// once.
class StepLines {
 public:
  explicit StepLines(std::string file) : file_(std::move(file)) {}
  /// Throws ConfigError where the numbers begin again.
  bool take(std::optional<double> number);

 private:
  std::string file_;
  std::set<double> seen_;
  double most_ = 0, before_ = 0;  // the two largest
};

/// Clock and samples between lines of steps.
class StepPace {
 public:
  /// `seconds`: of each step since the line before.
  void add(const std::string& line, std::optional<double> number, std::optional<double> consumed,
           double seconds, SecondNumbers& to);

 private:
  std::optional<double> number_, clock_, consumed_;
};

/// The rates that a line prints, in the words of Megatron-LM and its forks, NeMo and torchtitan.
void add_rates(const std::string& line, SecondNumbers& to);

/// Throws ConfigError where the run's steps contradict one of them.
void check_second_numbers(const LoggedRun& r);

/// Throws ConfigError(file, key, …) with both numbers where `printed` is not within a factor of `computed`.
void refuse_disagreement(const std::string& file, const std::string& key, double printed, double computed,
                         const std::string& of, double factor);

}  // namespace isobar
