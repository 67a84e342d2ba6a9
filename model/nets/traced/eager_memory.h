// Memory of a recorded net's step as PyTorch's caching allocator holds it: a tensor from the op that makes it
// to the last that reads it, gradients from their backward pass to the optimizer. Isobar's arena would keep
// all gradients, and saved and scratch buffers in regions of their own.
//
//   const Memory m = step_memory(spec, plan);      // of any net: its arena, or this
#pragma once
#include "model/base/spec/spec.h"
#include "model/plan/plan.h"

namespace isobar::nets {

/// Bytes at the step's fullest moment, by kind; they add up to `arena`.
plan::Memory eager_memory(const plan::Plan& plan);
plan::Memory step_memory(const RunSpec& spec, const plan::Plan& plan);
/// DistributedDataParallel reduces gradients in buckets of their whole size, beside them
/// ("gradient_as_bucket_view" in its documentation).
inline bool has_buckets(const NetSpec& net, int64_t dp, int64_t zero) {
  return net.recorded() && dp > 1 && zero == 0;
}

}  // namespace isobar::nets
