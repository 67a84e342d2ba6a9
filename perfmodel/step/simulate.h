// The full gear: the linked program replayed as events. Lanes are in-order queues; an op begins when its lane
// is free and its waits are over; compute runs slower while a collective is under way, or
// stands still where its core makes the transfer (Conditions::stops_compute); loader workers fill
// batch slots beside it. Gives the same Span records that the engine measures.
//
//   Replay r = simulate(spec, plan, link(plan, plan.train), machine.values(), where, cache_share);
//   r.step_s; r.timeline.spans
//
// The stages of a pipeline are replayed together: what several replayed ranks take part in begins when all of
// them have come to it; of other collectives the ranks that are not replayed are taken to be alike.
//
//   Replay r = simulate(spec, stages_of(spec, {}), machine.values(), where, cache_share);
//
// It shares rates() with the closed form (cost.h) and nothing else; a test holds the two together.
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
