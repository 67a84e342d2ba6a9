// Runs of a published table, imported and read back like a user's own.
#pragma once
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "bench/import/import.h"
#include "model/base/spec/settings_of_others.h"
#include "perfmodel/fitting/fit.h"
#include "tests/paths.h"

namespace isobar::test {

inline std::string config(const std::string& file) {
  return source_dir() + "/configs/" + file;
}

inline perf::Machine machine(const std::string& name) {
  return perf::load_machine(config("machines/" + name + ".yaml"));
}

/// The runs on `accelerator`: at most `most` of them, spread over the table.
inline std::vector<perf::MeasuredRun> published_runs(const std::string& table, const std::string& accelerator,
                                                     size_t most = SIZE_MAX) {
  const std::filesystem::path out = std::filesystem::temp_directory_path() /
                                    ("isobar_runs_" + table + std::to_string(std::random_device{}()));
  foreign::import_published(config("published/" + table + ".csv"), out, accelerator);
  std::vector<perf::MeasuredRun> all, some;
  for (const records::RunRecord& r : records::load_runs(out)) {
    if (r.run_class != records::RunClass::ok) continue;
    perf::MeasuredRun m;
    m.id = r.id;
    m.spec = without_settings_of_others(r.spec);  // as the nearest run of our own engine
    m.host.ranks_on_host = r.ranks_on_host;
    m.step_s = r.step_s.median;
    m.campaign = r.provenance.at("source");
    all.push_back(m);
  }
  std::filesystem::remove_all(out);
  const size_t n = std::min(most, all.size());
  for (size_t i = 0; i < n; ++i) some.push_back(all[i * all.size() / n]);
  return some;
}

}  // namespace isobar::test
