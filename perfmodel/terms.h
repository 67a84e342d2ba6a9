// What one optimizer step of one rank consists of, counted from its plan: nothing here is a time.
//
//   Plan plan = build_plan(spec, 0, {});
//   StepTerms t = count_terms(spec, plan, link(plan, plan.train), where, cache_share);
//   t.total[index_of(Coef::gemm_f32)]          // matrix FLOPs of the step in f32
//
// Ranks of a data-parallel step are alike, so one rank speaks for all of them.
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec.h"
#include "model/plan/link.h"
#include "model/plan/plan.h"
#include "model/plan/work.h"
#include "perfmodel/coefficient.h"

namespace isobar {

/// Where a rank runs, and with whom it shares the host.
struct Conditions {
  int64_t ranks = 1;          // world size
  int64_t ranks_on_host = 1;  // those that share this rank's host
  int64_t threads = 1;        // compute threads of each rank
  int64_t cores = 1;          // of the host
};

/// One op's counts: a few entries of (coefficient, amount). `dtype` is that of its first operand.
Counts count_op(OpKind kind, DType dtype, const Work& work, double cache_share);
Counts count_op(const Op& op, const Plan& plan, double cache_share);

/// Compute ops between two points where lanes meet.
struct Chunk {
  int join = -1;                      // the chunk begins when this collective has ended; -1: at once
  Counts compute{};                   // one after the other
  std::vector<Counts> collectives{};  // launched when the chunk is over, on one lane, in order
};

struct StepTerms {
  Conditions where;
  std::vector<Chunk> chunks;
  Counts total{};                        // of all chunks, their collectives and the step itself
  Counts read{};                         // data loading of a step, whoever does it
  int64_t workers = 0;                   // loader threads; 0: the compute thread reads
  double flops_f32 = 0, flops_bf16 = 0;  // for the ceiling
  int64_t samples = 0;                   // global batch
};

StepTerms count_terms(const RunSpec& spec, const Plan& plan, const Program& program, const Conditions& where,
                      double cache_share);

/// Counts of reading `samples` samples of this run's data.
Counts count_read(const RunSpec& spec, int64_t samples);

}  // namespace isobar
