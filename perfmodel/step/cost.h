// The closed form of a step: counts times coefficients times the effects of sharing the host. The replay
// (simulate.h) prices ops with the same rates.
//
//   StepCost s = step_cost(terms, machine.values());
//   s.total, s.part(Coef::gemm_f32), s.exposed, s.data_wait
//
// Sharing: t threads of one rank take (1 + serial (t - 1)) / t of one thread's time; with A busy cores on a
// host of C everything slows by 1 + share (A - 1) / (C - 1); more threads than cores take turns. Without a
// spare core, intra-host transfers block compute; network transfers do not.
#pragma once
#include <array>

#include "perfmodel/step/terms.h"

namespace isobar {

/// Seconds per unit of each coefficient under these conditions.
Counts rates(const Counts& coefficients, const Conditions& where);
double seconds(const Counts& counts, const Counts& rates);

/// Data loading of a step beside `compute` seconds of work.
struct ReadTime {
  double serial = 0;         // on the critical path: the compute thread reads, or takes over a batch
  double stolen = 0;         // compute displaced by loader threads
  double supply = 0;         // least time of a step by the rate of reading
  double landing = 0;        // copies to the accelerator, on a lane of their own
  bool by_launcher = false;  // no workers: the host launches a step, then reads for the next
  /// Seconds that a step of `step` seconds waits for data. A launcher whose copy is late begins the next read
  /// late, so near balance a step takes the mean of both lanes.
  double wait(double step) const;
};
ReadTime read_time(const StepTerms& terms, const Counts& coefficients, const Counts& rates);

using LaneSeconds = std::array<double, kLanes>;

struct StepCost {
  double total = 0;                          // seconds of one optimizer step
  Counts parts{};                            // seconds by coefficient: compute, wire (hidden or not), step
  double compute = 0;                        // all compute ops
  double communication = 0;                  // all collectives, hidden or not
  double exposed = 0;                        // waits of compute for communication
  LaneSeconds by_lane{}, exposed_by_lane{};  // each lane's share of both, without sends and receives
  double slowdown = 0;                       // of compute during communication
  double bubble = 0;                         // waiting for other stages to fill and drain the pipeline
  double imbalance = 0;                      // waiting for the slowest rank
  double read_serial = 0, stolen = 0;
  double data_wait = 0;  // waiting for loader workers
  double step = 0;       // per-step constant
  double part(Coef c) const { return parts[index_of(c)]; }
};
StepCost step_cost(const StepTerms& terms, const Counts& coefficients);
/// The total only, for the fit, which evaluates it thousands of times.
double step_seconds(const StepTerms& terms, const Counts& coefficients);

/// Least possible seconds of the step: its FLOPs at the peak of all cores that the rank can use.
double ceiling_seconds(const StepTerms& terms, double peak_f32, double peak_bf16);

}  // namespace isobar
