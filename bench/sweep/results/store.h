// DIR/index.sqlite: the results of a sweep as SQL tables. It is only an index: rebuild() recreates it from
// the trials' JSON lines, so a damaged or outdated file is simply replaced.
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

#include "model/records/results.h"

namespace isobar::sweep {

class Store {
 public:
  static constexpr int kSchemaVersion = 3;

  explicit Store(const std::filesystem::path& results_dir);

  /// Writes a new index and renames it into place.
  void rebuild(const std::vector<records::RunRecord>& runs) const;
  /// Adds or replaces one run. Returns false without changing the file if the index is missing, damaged or of
  /// another schema; then rebuild() is needed.
  bool put(const records::RunRecord& run) const;

  const std::filesystem::path& file() const { return file_; }

 private:
  static void fill(const std::filesystem::path& fresh, const std::vector<records::RunRecord>& runs);
  std::filesystem::path file_;
};

}  // namespace isobar::sweep
