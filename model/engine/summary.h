// The first and the last line of result.jsonl.
#pragma once
#include <nlohmann/json.hpp>
#include <vector>

#include "model/base/spec.h"
#include "model/engine/executor.h"

namespace isobar {

nlohmann::json start_of_run(const RunSpec& spec, const Plan& plan, int ranks, int ranks_on_host, int threads,
                            bool resumed);
/// Op times summed by path over routines and micro-batches. `step_seconds`: without warm-up.
nlohmann::json summary_of_run(const RunSpec& spec, const Plan& plan, const std::vector<OpTime>& times,
                              std::vector<double> step_seconds);
nlohmann::json memory_json(const Plan& plan);  // {"arena": …, "by_category": {…}}

}  // namespace isobar
