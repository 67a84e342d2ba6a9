// An op's cost in countable things, and the only place where FLOPs and bytes are written down:
// micro-benchmarks, tracer, predictor and reports all use it.
#pragma once
#include "model/plan/plan.h"

namespace isobar::plan {

struct Work {
  double flops = 0;  // multiply and add of matrix products and attention
  double vector_flops =
      0;  // arithmetic of row kernels, roughly; sums of collectives; of attention its scores, one each
  double bytes_read = 0;  // operands, each once
  double bytes_written = 0;
  double wire_bytes = 0;  // sent by this rank (ring algorithm, nccl-tests' busbw factors)
  double messages = 0;    // latency-bound steps of the collective
  double bytes() const { return bytes_read + bytes_written; }
  Work& operator+=(const Work& o);
};

Work work(const Op& op, const Plan& plan);
/// Expected bytes of data in a view (Buffer::filled); 0: it is absent.
double bytes_of(const View& v, const Plan& plan);
/// Path by which records name a fetch's copies from the host to a GPU, which run beside the step.
inline std::string landing_path(const Op& fetch) {
  return fetch.path + "/landing";
}

struct Totals {
  Work step;                 // one optimizer step of this rank
  double forward_flops = 0;  // matrix FLOPs of one sample's forward pass (all ranks)
  int64_t ops = 0;           // launches in a step
};
Totals totals(const Plan& plan, int64_t micro_batch);

}  // namespace isobar::plan
