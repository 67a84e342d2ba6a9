// Where ranks run: what their prices depend on beside the work itself.
//
//   Conditions where = conditions_of(spec, machine);                   // of a run, whatever it computes on
//   Conditions where = conditions_of(*machine.accelerator, 1024, 8);   // or {.ranks = 2, .threads = 1, ...}
#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "model/base/spec.h"
#include "model/plan/plan.h"
#include "perfmodel/machine/machine.h"

namespace isobar {

/// Where a rank runs, and with whom it shares the host.
struct Conditions {
  int64_t ranks = 1;                                     // world size
  int64_t stages = 1;                                    // of its pipeline
  int64_t meeting = 1;                                   // ranks that meet between ops: tp x cp
  int64_t ranks_on_host = 1;                             // those that share this rank's host
  int64_t threads = 1;                                   // compute threads of each rank
  int64_t cores = 1;                                     // of the host
  double core_trip_s = 0;                                // of a cache line between its cores; 0: not known
  int64_t processors = 0;                                // of an accelerator; 0: ranks compute on cores
  bool host_reduction = false;                           // the switch inside a host adds up
  std::shared_ptr<const ShapeFactors> shapes = nullptr;  // that were timed, with ops of
  std::string precision = {};                            // this kind (shapes.h)
  /// What the slowest rank costs, in shares of compute for each doubling of those that wait for one another
  /// in every micro-batch or step. Stages of a pipeline have the schedule's slack between them.
  double doublings() const { return std::log2(static_cast<double>(ranks) / static_cast<double>(stages)); }
  /// In shares of compute, all that ranks wait for one another: at the end of a step, and those that meet
  /// between ops there, too, where the slower of each stretch counts, whichever rank that is.
  double waits(const Counts& k) const {
    return k[index_of(Coef::imbalance)] * doublings() +
           k[index_of(Coef::lockstep)] * std::log2(static_cast<double>(meeting));
  }
  /// Compute goes on beside transfers inside the host. Cores that all compute make those themselves.
  bool overlaps() const { return processors > 0 || core_for_communication(threads, ranks_on_host, cores); }
  /// Of a transfer of these counts: whether its rank's compute stands still meanwhile. What crosses the
  /// network is moved by it, and MPI is asked between ops.
  bool stops_compute(const Counts& transfer) const {
    return !overlaps() && transfer[index_of(Coef::message_host)] + transfer[index_of(Coef::wire_host)] > 0;
  }
};

/// Of the ranks of a cluster of accelerators: as many on a host as it connects. `stages`: of each pipeline.
Conditions conditions_of(const Accelerator& a, int64_t ranks, int64_t stages = 1);

/// What of a run's place its specification leaves open. Of accelerators the machine's tiers say how many
/// share a host.
struct HostShare {
  int64_t ranks_on_host = 0;  // of cores; 0: all
  int64_t threads = 0;        // of each rank; 0: as the engine chooses
  double core_trip_ns = 0;  // of a cache line between its cores (model/engine/core_hops.h); 0: the machine's
};
Conditions conditions_of(const RunSpec& spec, const Machine& machine, const HostShare& host = {});

/// Threads that each rank computes with, as the engine chooses them.
int64_t threads_of(const RunSpec& spec, int64_t cores, int64_t ranks_on_host);

}  // namespace isobar
