// d(prediction)/d(input) of a net, on this host's cores and one rank, whatever layout trained it: the
// backward program of the same plan, which goes on to the input and leaves out the gradients of parameters.
// Its loss is the projection of the prediction on a seed, so that one pass gives a row of the Jacobian for
// each sample of the batch. In fp32, normalised on both sides; times std of the output over std of the input
// it is that of physical units. A net that classifies predicts logits here: those are what is differentiated.
//
//   Jacobian jacobian(spec, 8, threads);
//   jacobian.take_weights(forecaster);                                    // of a checkpoint
//   const std::vector<float> rows = jacobian.rows(input, {0, 1, 2});      // [3, in…]
#pragma once
#include <vector>

#include "model/backend/cpu/cpu_backend.h"
#include "model/inference/arena.h"
#include "model/inference/forecaster.h"
#include "model/plan/link.h"

namespace isobar {

class Jacobian {
 public:
  /// `batch`: rows of a pass. Throws ConfigError for a net without kernels or that reads words.
  Jacobian(const RunSpec& spec, int64_t batch, int threads);
  const Plan& plan() const { return plan_; }
  float* weights() const { return floats(plan_.params_all); }  // as plan().params has them
  void weights_changed();
  void take_weights(const Forecaster& net);  // of the same net

  int64_t inputs() const { return sample("input"); }  // elements of a sample: [C,H,W]
  int64_t outputs() const { return sample("target"); }
  /// Of one sample, [inputs]: the rows of these outputs, [which.size(), inputs]
  std::vector<float> rows(const float* input, const std::vector<int64_t>& which);

 private:
  void pass(const float* input, const int64_t* which, int64_t count, float* rows);
  void take(int64_t b, float* row) const;  // out of the patches that it lies in
  int64_t sample(const char* tensor) const;
  float* floats(const View& v) const { return reinterpret_cast<float*>(backend_.at(v)); }

  const RunSpec spec_;
  const Plan plan_;
  const Program program_;
  Arena arena_;
  CpuBackend backend_;
  Attrs patches_;  // of the input; none of a net that reads rows
};

}  // namespace isobar
