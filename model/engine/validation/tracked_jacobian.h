// Jacobian of a net during training, over the first validation samples that rank 0 reads, always the same.
// Ranks send their parts of the parameters to rank 0, which computes it.
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

namespace isobar::engine {

class TrackedJacobian {
 public:
  TrackedJacobian(const RunSpec& spec, const plan::Plan& plan, const comm::Mpi& mpi, int threads);
  void sample(const float* inputs, int64_t count);
  /// `params`: this rank's shards, as in its plan.
  std::optional<records::JacobianRecord> operator()(const float* params);

 private:
  const plan::Plan& plan_;
  const comm::Mpi& mpi_;
  const int64_t wanted_;
  std::optional<inference::Jacobian> jacobian_;  // rank 0
  std::vector<std::vector<float>> samples_;
};

}  // namespace isobar::engine
