// Limits of what is planned, and the memory of planning, estimated beforehand. A plan grows with a rank's
// blocks, its linked program also with micro-batches, and the check of all ranks with the world.
//
//   check_equal_parts(spec);                       // before a net's parts are listed: check_plan_size()
//   check_plan_size(spec);                         // before a plan is built: build_plan()
//   check_step_size(spec, plan);                   // before it is linked: link_step()
//   const RunSpec part = world_to_check(spec, w);  // a world that check_world() can hold
//
// Counts what is stored: an op with its operands and path, an invocation, an instruction with its waits and
// clocks. A test compares the estimate with plans that were built.
#pragma once
#include "model/base/spec/spec.h"
#include "model/plan/plan.h"

namespace isobar::nets {

inline constexpr int64_t kMostPlanBytes = int64_t{4} << 30;  // of one rank
inline constexpr int64_t kMostEqualParts = 4096;             // of a net: the deepest published has 126 blocks
inline constexpr int64_t kMostMicroBatches = 65536;          // of a step
inline constexpr int64_t kMostWorldBytes = int64_t{1} << 30;  // of the ranks that are checked together

/// Upper bound of one rank's plan, from the specification alone.
double plan_bytes(const RunSpec& spec);
/// Bytes of an existing plan, and of its linked step.
double plan_bytes(const plan::Plan& plan);
double step_bytes(const plan::Plan& plan);

/// Throws ConfigError with key, limit and remedy for a net of more than kMostEqualParts blocks or steps.
void check_equal_parts(const RunSpec& spec);
/// The same also for more than kMostMicroBatches, and for a plan above kMostPlanBytes.
void check_plan_size(const RunSpec& spec);
/// The same for the linked programs of `ranks` ranks like it.
void check_step_size(const RunSpec& spec, const plan::Plan& plan, int64_t ranks = 1);

/// The run with just enough micro-batches for steady state on every stage. Memory is the same, except under
/// gpipe, which keeps all.
RunSpec with_few_micro_batches(RunSpec spec);
/// The run whose ranks can be checked within kMostWorldBytes: the same, or one with fewer micro-batches
/// (enough for steady state) and then fewer replicas, which all run the same program. Throws ConfigError if
/// two replicas are still too many.
RunSpec world_to_check(const RunSpec& spec, const plan::Workspace& workspace);

}  // namespace isobar::nets
