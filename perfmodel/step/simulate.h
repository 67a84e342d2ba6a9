// The replay: executes the linked program as events. Lanes are in-order queues; an op begins when its lane is
// free and its waits are over; compute slows during a collective, or stops if its core makes the transfer
// (Conditions::stops_compute); loader workers fill batch slots concurrently. Gives the engine's Span records.
//
//   Replay r = simulate(spec, plan, link(plan, plan.train), machine.values(), where, cache_share);
//   r.step_s; r.timeline.spans
//
// A pipeline's stages are replayed together: a transfer between replayed ranks begins when all have reached
// it; ranks of other collectives that are not replayed are assumed equal.
//
//   Replay r = simulate(spec, stages_of(spec, {}), machine.values(), where, cache_share);
//
// It shares only rates() with the closed form (cost.h); tests hold the two together.
#pragma once
#include "model/trace/span.h"
#include "perfmodel/step/pipeline.h"
#include "perfmodel/step/terms.h"

namespace isobar {

struct Replay {
  double step_s = 0;       // steady state
  double data_wait_s = 0;  // of it, waiting for the loader
  Timeline timeline;       // of one steady step, all replayed ranks; times from its start
};

Replay simulate(const RunSpec& spec, const std::vector<StageProgram>& stages, const Counts& coefficients,
                const Conditions& where, double cache_share);
/// One rank alone: its sends and receives find their peers ready at once.
Replay simulate(const RunSpec& spec, const Plan& plan, const Program& program, const Counts& coefficients,
                const Conditions& where, double cache_share);

}  // namespace isobar
