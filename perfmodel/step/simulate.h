// The replay: executes the linked program as events. Lanes are in-order queues; an op begins when its lane is
// free and its waits are over; compute slows during a collective, or stops if its core makes the transfer
// (Conditions::stops_compute); loader workers fill batch slots concurrently. Gives the engine's Span records.
//
//   Replay r = simulate(spec, plan, link(plan, plan.train), machine.values(), where, cache_share);
//   r.step_s; r.busiest.compute; r.timeline.spans
//
// A pipeline's stages are replayed together: a transfer between replayed ranks begins when all have reached
// it; ranks of other collectives that are not replayed are assumed equal.
//
//   Replay r = simulate(spec, nets::stages_of(spec, {}), machine.values(), where, cache_share);
//
// It shares only rates() with the closed form (layouts/layout_model.h); tests hold the two together.
#pragma once
#include <array>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/nets/build.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"
#include "model/trace/span.h"
#include "perfmodel/step/conditions.h"

namespace isobar::perf {

using LaneSeconds = std::array<double, plan::kLanes>;

/// Seconds of a rank's steady step, by what its compute lane does; without `lanes` they add up to the step.
struct RankTimes {
  double compute = 0;              // its ops, as fast as alone, without reading
  double slowdown = 0;             // … beside communication
  LaneSeconds exposed{};           // waits for collectives, by lane
  LaneSeconds lanes{};             // all collectives, by lane, hidden or not
  double bubble = 0;               // waits for other stages
  double host = 0;                 // waits for launches
  double data_wait = 0;            // waits for batches
  double reading = 0, stolen = 0;  // by the compute thread; compute displaced by loader threads
  double imbalance = 0, step = 0;  // waits for the slowest rank; constant of each step
  Counts counts{};                 // of the step, hidden or not
  Counts parts{};                  // seconds of `compute`, and of `step`, by coefficient
};

struct Replay {
  double step_s = 0;         // steady state
  double data_wait_s = 0;    // of it, waiting for the loader: all ranks
  RankTimes busiest;         // the rank that computes longest
  trace::Timeline timeline;  // of one steady step, all replayed ranks; times from its start
};

Replay simulate(const RunSpec& spec, const std::vector<nets::StageProgram>& stages,
                const Counts& coefficients, const Conditions& where, double cache_share);
/// One rank alone: its sends and receives find their peers ready at once.
Replay simulate(const RunSpec& spec, const plan::Plan& plan, const plan::Program& program,
                const Counts& coefficients, const Conditions& where, double cache_share);

}  // namespace isobar::perf
