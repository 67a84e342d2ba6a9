// The conditions of a rank on which prices depend.
//
//   Conditions where = conditions_of(spec, machine);                   // of a run, on any device
//   Conditions where = conditions_of(*machine.accelerator, 1024, 8);   // or {.ranks = 2, .threads = 1, ...}
#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "model/base/spec/spec.h"
#include "model/plan/plan.h"
#include "perfmodel/machine/machine.h"

namespace isobar::perf {

/// A rank's place, and how it shares its host.
struct Conditions {
  int64_t ranks = 1;                                     // world size
  int64_t stages = 1;                                    // of its pipeline
  int64_t meeting = 1;                                   // that synchronise between ops: tp x cp, or ep
  int64_t ranks_on_host = 1;                             // on this rank's host
  int64_t threads = 1;                                   // compute threads of each rank
  int64_t cores = 1;                                     // of the host
  int64_t processors = 0;                                // of an accelerator; 0: ranks compute on cores
  bool host_reduction = false;                           // the switch inside a host reduces
  std::shared_ptr<const ShapeFactors> shapes = nullptr;  // of timed ops
  std::string precision = {};                            // key of `shapes` (shapes.h)
  /// Doublings of the ranks that wait for one another in every micro-batch or step, each of which costs a
  /// share of compute. Stages of a pipeline have the schedule's slack between them.
  double doublings() const { return std::log2(static_cast<double>(ranks) / static_cast<double>(stages)); }
  /// All waits of ranks for one another, as a share of compute: at the end of a step, and between ops for
  /// those that synchronise there, where the slowest rank of each stretch counts.
  double waits(const Counts& k) const {
    return k[index_of(Coef::imbalance)] * doublings() +
           k[index_of(Coef::lockstep)] * std::log2(static_cast<double>(meeting));
  }
  /// True if compute overlaps transfers inside the host; cores that all compute make those themselves.
  bool overlaps() const { return processors > 0 || core_for_communication(threads, ranks_on_host, cores); }
  /// True if the transfer blocks its rank's compute. Network transfers do not: the network moves them, and
  /// MPI is polled between ops.
  bool stops_compute(const Counts& transfer) const {
    return !overlaps() && transfer[index_of(Coef::message_host)] + transfer[index_of(Coef::wire_host)] > 0;
  }
};

/// Conditions of a cluster's ranks, with as many on a host as it connects. `stages`: of each pipeline.
Conditions conditions_of(const Accelerator& a, int64_t ranks, int64_t stages = 1);

/// A run's place on its hosts, which its specification leaves open. For accelerators the machine's tiers give
/// the ranks on a host.
struct HostShare {
  int64_t ranks_on_host = 0;  // on cores; 0: all
  int64_t threads = 0;        // of each rank; 0: the engine's choice
};
Conditions conditions_of(const RunSpec& spec, const Machine& machine, const HostShare& host = {});

/// Compute threads of each rank, as the engine chooses them.
int64_t threads_of(const RunSpec& spec, int64_t cores, int64_t ranks_on_host);

}  // namespace isobar::perf
