// From counted terms to seconds: the fast gear. Every time is a count times a coefficient times what sharing
// the host does to it; the replay (simulate.h) prices ops with the same rates.
//
//   StepCost s = step_cost(terms, machine.values());
//   s.total, s.part(Coef::gemm_f32), s.exposed, s.data_wait
//
// Between cores a cache line takes time to go and come (Conditions::core_trip_s): the start and end of a team
// takes hops.fork of these round trips beside what it takes anywhere (for each doubling of its threads), a
// message inside the host hops.message, and of the lines of a product's operands, which other threads wrote
// in part, hops.line each.
//
// Sharing: t threads of one rank take (1 + serial (t - 1)) / t of one thread's time; with A busy cores on a
// host of C everything slows by 1 + share (A - 1) / (C - 1); more threads than cores take turns.
// Where no core is left for communication, compute stands still while a transfer inside the host is under
// way; one over the network is the network's to move.
#pragma once
#include <array>

#include "perfmodel/step/terms.h"

namespace isobar {

/// Seconds per unit of each coefficient under these conditions.
Counts rates(const Counts& coefficients, const Conditions& where);
double seconds(const Counts& counts, const Counts& rates);

/// Data loading of a step beside `compute` seconds of work.
struct ReadTime {
  double serial = 0;         // the compute thread reads, or takes over what was read: on the critical path
  double stolen = 0;         // loader threads take cores from compute
  double supply = 0;         // the step cannot be shorter: who reads delivers no faster
  double landing = 0;        // copies to the accelerator, on a lane of their own
  bool by_launcher = false;  // no workers: the host launches a step, then reads for the next
  /// What the rest of a step of so many seconds waits for data. A launcher that is late with the copy of one
  /// step begins to read for the next while that one is late: the mean of both lanes where they are near.
  double wait(double step) const;
};
ReadTime read_time(const StepTerms& terms, const Counts& coefficients, const Counts& rates);

using LaneSeconds = std::array<double, kLanes>;

struct StepCost {
  double total = 0;          // seconds of one optimizer step
  Counts parts{};            // seconds by coefficient: compute, wire (busy, hidden or not), step
  double compute = 0;        // all compute ops
  double communication = 0;  // all collectives, hidden or not
  double exposed = 0;        // compute waits for communication
  LaneSeconds by_lane{},
      exposed_by_lane{};  // of both the shares of each lane; sends and receives are of none
  double slowdown = 0;    // compute is slower while communication runs
  double bubble = 0;      // waiting for other stages of the pipeline to fill and to drain
  double imbalance = 0;   // waiting for the slowest rank
  double read_serial = 0, stolen = 0;
  double data_wait = 0;  // loader workers are the bottleneck
  double step = 0;       // per-step constant
  double part(Coef c) const { return parts[index_of(c)]; }
};
StepCost step_cost(const StepTerms& terms, const Counts& coefficients);
/// The same without the breakdown: what the fit evaluates thousands of times.
double step_seconds(const StepTerms& terms, const Counts& coefficients);

/// Least possible seconds of the step: its FLOPs at the peak of all cores that the rank can use.
double ceiling_seconds(const StepTerms& terms, double peak_f32, double peak_bf16);

}  // namespace isobar
