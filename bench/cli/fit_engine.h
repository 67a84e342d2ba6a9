// isobar fit RUNS.csv --engine E, or the runs' logs: what somebody's own runs say of an engine on a machine.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace isobar {

struct OwnRunsQuestion {
  std::vector<std::string> files;  // one table; or logs of trainings, a run each
  std::string config;              // what logs leave out; "": nothing
  std::string machine, engine, out;
  std::optional<double> tuned;  // 0 … 1; none: the engine's usual
  bool json = false;
};

/// Writes the fit, and prints how wrong predictions of these runs are without them and from the others.
void fit_own_runs(const OwnRunsQuestion& question);

}  // namespace isobar
