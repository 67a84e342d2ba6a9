// What planning takes in memory, before it is taken. A plan grows with a rank's blocks, its linked program
// with micro-batches too, and the check of all ranks against one another with the world.
//
//   check_plan_size(spec);                         // before a plan is built: build_plan()
//   check_step_size(spec, plan);                   // before it is linked: link_step()
//   const RunSpec part = world_to_check(spec, w);  // what check_world() can look at
//
// Bytes are counted from what is stored: an op with its operands and path, an invocation, an instruction with
// its waits and clocks. A test holds the count before building to what was built.
#pragma once
#include "model/base/spec.h"
#include "model/plan/plan.h"

namespace isobar {

inline constexpr int64_t kMostPlanBytes = int64_t{4} << 30;  // of one rank
inline constexpr int64_t kMostPartsWhole = 1000;  // equal parts of a chunk; of more a net is folded
inline constexpr int64_t kMostWorldBytes = int64_t{1} << 30;  // of the ranks that are checked together

/// At most: bytes of the plan of one rank, from the specification alone.
double plan_bytes(const RunSpec& spec);
/// Bytes of a plan that is there, and of its step, linked.
double plan_bytes(const Plan& plan);
double step_bytes(const Plan& plan);

/// Throws ConfigError naming bytes, limit and mend for a plan above kMostPlanBytes.
void check_plan_size(const RunSpec& spec);
/// The same for the linked programs of so many ranks like it.
void check_step_size(const RunSpec& spec, const Plan& plan, int64_t ranks = 1);

/// The same run with no more micro-batches than bring every stage into its rhythm: what repeats itself is
/// then left out. Memory is the same, but gpipe's, which keeps all of them.
RunSpec with_few_micro_batches(RunSpec spec);
int64_t few_micro_batches(const RunSpec& spec);
/// The same run with so many micro-batches of the size that it has.
RunSpec with_micro_batches(RunSpec spec, int64_t micro_batches);

/// How many parts the net's longest run of equal ones has: blocks, of one resolution or side where a net has
/// several; message passing steps. 0: a net without such a run.
int64_t equal_parts(const NetSpec& net);
/// The same run with so many of them.
RunSpec with_equal_parts(RunSpec spec, int64_t parts);

/// The run whose ranks can be checked against one another within kMostWorldBytes: the same, or one with fewer
/// micro-batches (enough for every stage to come into its rhythm) and then with fewer replicas of its
/// data-parallel ranks, which run the same program. Throws ConfigError where two replicas are still too many.
RunSpec world_to_check(const RunSpec& spec, const Workspace& workspace);

}  // namespace isobar
