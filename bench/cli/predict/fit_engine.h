// isobar fit RUNS.csv --engine E, or logs of runs: fits an engine on a machine to the user's own runs.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace isobar::cli {

struct OwnRunsQuestion {
  std::vector<std::string> files;  // one table; or logs of trainings, one run each
  std::string config;              // supplies what logs leave out; "": nothing
  std::string machine, engine, out;
  std::optional<double> tuned;  // 0 … 1; none: the engine's default
  bool json = false;
};

/// Writes the fit, and prints the errors of predictions of these runs, without the fit and cross-validated.
void fit_own_runs(const OwnRunsQuestion& question);

}  // namespace isobar::cli
