// DIR/index.sqlite: the results of a sweep as tables, for SQL. Only an index: the trials' JSON lines are the
// truth, and rebuild() makes it again from them at any time, so a damaged or outdated one is simply replaced.
//
//   runs   one row per trial: id, class, attempts, every key of the run specification (policy_amp, layout_dp
//   …; NULL where it is another kind of net's),
//          step_s_median, _p10, _p90, _min, samples_per_s (of the median step), contended (0, 1) with spread
//          and siblings_spread, repeats (id), memory, provenance
//   ops    one row per trial and op        steps  one row per trial and logged step
//   meta   schema_version
//
//   Store store("results/demo");
//   store.put(load_run("results/demo/trials/1f…"));        // after each trial
//   store.rebuild(load_runs("results/demo"));
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/sweep/results.h"

namespace isobar {

/// What a run says of itself, all of it: a column of `runs` each, in SQLite and in tables/runs.csv of
/// reports. Kinds of nets have keys of their own: a run has no column for those of others.
struct RunColumn {
  std::string name, type;  // of SQL
  nlohmann::json value;    // null: not known
};
std::vector<RunColumn> run_columns(const RunRecord& r);

class Store {
 public:
  static constexpr int kSchemaVersion = 3;

  explicit Store(const std::filesystem::path& results_dir);

  /// Writes a new index beside the old one and renames it into place.
  void rebuild(const std::vector<RunRecord>& runs) const;
  /// Adds or replaces one run. Returns false, leaving the file alone, when the index is missing, damaged or
  /// of another schema: then it wants a rebuild().
  bool put(const RunRecord& run) const;

  const std::filesystem::path& file() const { return file_; }

 private:
  static void fill(const std::filesystem::path& fresh, const std::vector<RunRecord>& runs);
  std::filesystem::path file_;
};

}  // namespace isobar
