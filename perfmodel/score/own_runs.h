// A user's own runs of an engine on a machine; README.md says what a few of them are worth.
//
//   OwnRuns mine = own_runs(read_file("mine.csv"), "mine.csv", "nemo", {}, machine);
//   save_own_runs(mine, "mine-fit.json");              // stores the rows; fitted when read again
//   EngineModel model = ...; model.learn(runs_of(mine, machine, chip));
//
// The table has the columns of configs/published (its README.md), except that the machine supplies gpu_type
// and gpus_per_node. A row that cannot be specified is an error, since the user can fix it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/score/published/published_run.h"

namespace isobar::perf {

struct OwnRuns {
  std::string engine;           // a file of configs/engines, or unknown
  std::optional<double> tuned;  // none: the engine's default
  std::string machine;          // its name
  std::string file, table;      // the table's path, and its text
};

/// `table`: its text; `file`: its origin, for messages.
OwnRuns own_runs(std::string table, const std::string& file, const std::string& engine,
                 std::optional<double> tuned, const Machine& machine);
void save_own_runs(const OwnRuns& own, const std::string& path);
/// Throws ConfigError if it is no such file, or of another machine.
OwnRuns load_own_runs(const std::string& path, const Machine& machine);

/// As runs to predict (published_spec.h), in one campaign with them. `chip` must outlive the runs.
std::vector<PublishedRun> runs_of(const OwnRuns& own, const Machine& machine, const ChipSpec& chip);

}  // namespace isobar::perf
