// What one optimizer step of one rank consists of, counted from its plan: nothing here is a time.
//
//   Plan plan = build_plan(spec, 0, {});
//   StepTerms t = count_terms(spec, plan, link(plan, plan.train), where, cache_share);
//   t.total[index_of(Coef::gemm_f32)]          // matrix FLOPs of the step in f32
//
// Ranks that differ by their data, tensor or context coordinate are alike, so the first of them speaks for
// all; stages of a pipeline are not, and are brought together in pipeline.h.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "model/base/spec.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"
#include "model/plan/work.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/collective.h"

namespace isobar {

/// Where a rank runs, and with whom it shares the host.
struct Conditions {
  int64_t ranks = 1;            // world size
  int64_t stages = 1;           // of its pipeline
  int64_t ranks_on_host = 1;    // those that share this rank's host
  int64_t threads = 1;          // compute threads of each rank
  int64_t cores = 1;            // of the host
  int64_t processors = 0;       // of an accelerator; 0: ranks compute on cores
  bool host_reduction = false;  // the switch inside a host adds up
  /// What the slowest rank costs, in shares of compute for each doubling of those that wait for one another
  /// in every micro-batch or step. Stages of a pipeline have the schedule's slack between them.
  double doublings() const { return std::log2(static_cast<double>(ranks) / static_cast<double>(stages)); }
  /// Compute goes on beside transfers. Cores that all compute make the transfers themselves.
  bool overlaps() const { return processors > 0 || core_for_communication(threads, ranks_on_host, cores); }
};

/// Of the ranks of a cluster of accelerators: as many on a host as it connects. `stages`: of each pipeline.
Conditions conditions_of(const Accelerator& a, int64_t ranks, int64_t stages = 1);

/// Threads that each rank computes with, as the engine chooses them.
int64_t threads_of(const RunSpec& spec, int64_t cores, int64_t ranks_on_host);

/// What pricing an op needs of it. Numbers are doubles: those of a larger micro-batch lie on the line through
/// two smaller ones.
struct OpShape {
  OpKind kind;
  DType dtype;  // of its first operand
  bool fp8 = false, tf32 = false, causal = false;
  bool to_host = false;                     // copies between an accelerator and its host
  double m = 0, n = 0, k = 0, batch = 1;    // gemm
  double heads = 0, tq = 0, tk = 0, d = 0;  // attention; batch as above
  Work work;
  double bytes = 0;  // collectives: as count_collective wants them
  Placement group;
};
OpShape shape_of(const Op& op, const Plan& plan, const Conditions& where);
/// Seconds of the op, and its counts (collectives: what is charged) added to `counts` if given.
double op_seconds(const OpShape& op, const Counts& rates, const Conditions& where, double cache_share,
                  Counts* counts = nullptr);

/// One op's counts: a few entries of (coefficient, amount). `dtype` is that of its first operand.
Counts count_op(OpKind kind, DType dtype, const Work& work, double cache_share);
/// World ranks fill hosts in order, `ranks_on_host` on each. A group inside a host exchanges through its
/// memory, any other over the network, where all groups like it share the link of each host.
Counts count_op(const Op& op, const Plan& plan, double cache_share, int64_t ranks_on_host);

struct Collective {
  Lane lane;  // in order with the others of its lane only
  Counts counts{};
  std::vector<int> after{};  // collectives of other lanes that it waits for
};

/// Compute ops between two points where lanes meet.
struct Chunk {
  std::vector<int> join{};                // the chunk begins when these collectives have ended
  Counts compute{};                       // one after the other
  std::vector<Collective> collectives{};  // launched when the chunk is over
};

struct StepTerms {
  Conditions where;
  std::vector<Chunk> chunks;
  Counts total{};       // of all chunks, their collectives, transfers and the step itself
  Counts micro{};       // of the total, what every micro-batch repeats and the next stage waits for
  Counts transfers{};   // of the total, sends and receives on lanes of their own: in no chunk
  Counts bubble{};      // what the other stages of the pipeline do while this one has nothing to do
  Counts read{};        // data loading of a step, whoever does it
  int64_t workers = 0;  // loader threads; 0: the compute thread reads
  double flops_f32 = 0, flops_bf16 = 0;  // for the ceiling
  int64_t samples = 0;                   // global batch
};

StepTerms count_terms(const RunSpec& spec, const Plan& plan, const Program& program, const Conditions& where,
                      double cache_share);

/// Counts of reading `samples` samples of this run's data.
Counts count_read(const RunSpec& spec, int64_t samples);

}  // namespace isobar
