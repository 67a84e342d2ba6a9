// What a sweep's jobs took, read back from the scheduler's books (sacct, qstat -x) once they are over.
//
//   DIR/jobs/<name>/accounting.json    the lives of a job (a requeued one has several), as the books have
//   them
//
//   if (const auto used = read_back("results/demo", *scheduler)) … used->node_s / 3600   // node hours
#pragma once
#include <filesystem>
#include <optional>

#include "bench/cluster/scheduler.h"
#include "bench/sweep/runner.h"

namespace isobar {

/// Of all jobs of a results directory that are over; nothing where the scheduler keeps no books.
std::optional<ClusterUse> read_back(const std::filesystem::path& results, Scheduler& scheduler);

}  // namespace isobar
