// Preview of a submission (`--dry-run --launcher`): its jobs, their node hours and their scripts.
//
//   const json p = preview_json(matrix, sweep, options, cluster, *scheduler);
//   print(preview_text(p));
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "bench/cluster/schedulers/scheduler.h"
#include "bench/sweep/run/runner.h"
#include "bench/sweep/spec.h"

namespace isobar::cluster {

/// Jobs of the trials that have no verdict yet and are in no open job. Writes nothing. Throws ConfigError
/// where nothing could be submitted.
nlohmann::json preview_json(const sweep::Matrix& matrix, const sweep::SweepSpec& sweep,
                            const sweep::SweepOptions& options, const ClusterSpec& cluster,
                            const Scheduler& scheduler, const std::string& after = "");

/// A table of them, and one script of each shape.
std::string preview_text(const nlohmann::json& preview);

}  // namespace isobar::cluster
