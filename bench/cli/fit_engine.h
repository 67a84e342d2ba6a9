// isobar fit RUNS.csv --engine E: what somebody's own runs say of an engine on a machine.
#pragma once
#include <optional>
#include <string>

namespace isobar {

struct OwnRunsQuestion {
  std::string table, machine, engine, out;
  std::optional<double> tuned;  // 0 … 1; none: the engine's usual
  bool json = false;
};

/// Writes the fit, and prints how wrong predictions of these runs are without them and from the others.
void fit_own_runs(const OwnRunsQuestion& question);

}  // namespace isobar
