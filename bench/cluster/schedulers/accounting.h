// Resources that a sweep's jobs used, read from the scheduler's accounting (sacct, qstat -x) after their end.
//
//   DIR/jobs/<name>/accounting.json    the lives of a job (a requeued one has several), as accounted
//
//   if (const auto used = read_back("results/demo", *scheduler)) … used->node_s / 3600   // node hours
#pragma once
#include <filesystem>
#include <optional>

#include "bench/cluster/schedulers/scheduler.h"
#include "bench/sweep/run/runner.h"

namespace isobar::cluster {

/// Sums over all ended jobs of a results directory; nothing where the scheduler keeps no accounting.
std::optional<sweep::ClusterUse> read_back(const std::filesystem::path& results, Scheduler& scheduler);

}  // namespace isobar::cluster
