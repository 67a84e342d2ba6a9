// Somebody's own runs of an engine on a machine: what a few of them are worth is in README.md.
//
//   OwnRuns mine = own_runs(read_file("mine.csv"), "mine.csv", "nemo", {}, machine);
//   save_own_runs(mine, "mine-fit.json");              // the rows themselves; fitted when it is read again
//   EngineModel model = ...; model.learn(runs_of(mine, machine, chip));
//
// The table has the columns of configs/published (its README.md). gpu_type and gpus_per_node may be left out:
// the machine has them. A row that cannot be specified is an error: whoever measured it can mend it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/score/published_run.h"

namespace isobar {

struct OwnRuns {
  std::string engine;           // a file of configs/engines, or unknown
  std::optional<double> tuned;  // none: the engine's usual
  std::string machine;          // its name
  std::string file, table;      // the table's path, and its text
};

/// `table`: its text; `file`: where that came from, for messages.
OwnRuns own_runs(std::string table, const std::string& file, const std::string& engine,
                 std::optional<double> tuned, const Machine& machine);
void save_own_runs(const OwnRuns& own, const std::string& path);
/// Throws ConfigError where the file is none, or of another machine.
OwnRuns load_own_runs(const std::string& path, const Machine& machine);

/// As runs that are asked for (published_spec.h): of one campaign with them. `chip` outlives the runs.
std::vector<PublishedRun> runs_of(const OwnRuns& own, const Machine& machine, const ChipSpec& chip);

}  // namespace isobar
