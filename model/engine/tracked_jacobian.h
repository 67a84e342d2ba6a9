// The Jacobian of a net that trains, over the first validation samples that rank 0 reads: the same ones every
// time. Ranks that hold parts of the parameters bring them together on rank 0, where it is computed.
//
//   TrackedJacobian tracked(spec, plan, mpi, threads);
//   tracked.sample(batch.at("input"), micro_batch);      // while a validation reads, on rank 0
//   std::optional<JacobianRecord> r = tracked(params);   // collective; on rank 0
#pragma once
#include <optional>
#include <vector>

#include "model/comm/comm.h"
#include "model/inference/jacobian.h"
#include "model/records/records.h"

namespace isobar {

class TrackedJacobian {
 public:
  TrackedJacobian(const RunSpec& spec, const Plan& plan, const Mpi& mpi, int threads);
  void sample(const float* inputs, int64_t count);
  /// `params`: what this rank holds of them, as its plan's shards say.
  std::optional<JacobianRecord> operator()(const float* params);

 private:
  const Plan& plan_;
  const Mpi& mpi_;
  const int64_t wanted_;
  std::optional<Jacobian> jacobian_;  // rank 0
  std::vector<std::vector<float>> samples_;
};

}  // namespace isobar
