// Terminal tables of a dry run and of a finished sweep, and their JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "bench/sweep/run/runner.h"

namespace isobar::sweep {

std::string dry_run_table(const Matrix& m);
nlohmann::json dry_run_json(const Matrix& m, const SweepSpec& sweep);

/// Step times and rates use `statistic` of the steps, which is stated in the header.
std::string summary_table(const Matrix& m, const SweepOutcome& o, Statistic statistic = kStatistic);
nlohmann::json summary_json(const Matrix& m, const SweepOutcome& o, const SweepSpec& sweep,
                            const std::string& results, Statistic statistic = kStatistic);

}  // namespace isobar::sweep
