// The nodes, node-hours, charge and jobs that a training needs at a computing facility.
//
//   const Allocation a = allocation_of(facility, scheduled);
//   a.nodes, a.node_hours.value, a.jobs.value
#pragma once
#include <cstdint>

#include "perfmodel/ask/choose/schedule.h"

namespace isobar::perf {

/// Limits and charge, from the `cluster:` section of a machine file.
struct Facility {
  int64_t ranks_per_node = 1, max_nodes = 0;  // max_nodes: of a job; 0: as many as there are
  double max_time_s = 0;                      // of a job
  double charge = 1;                          // of a node and hour
  bool shares_nodes = false;                  // jobs are charged for their ranks' part of a node
};

struct Allocation {
  int64_t nodes = 0;
  Known node_hours, charged, jobs;  // jobs: one after the other, each within the limit
};
Allocation allocation_of(const Facility& f, const Scheduled& s);

}  // namespace isobar::perf
