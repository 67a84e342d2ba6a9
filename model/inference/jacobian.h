// d(prediction)/d(input) of a net, on this host's cores and one rank: the backward program of its plan,
// extended to the input and without gradients of parameters. The loss is the projection of the prediction on
// a seed, so that one pass gives a row of the Jacobian for each sample of the batch. Computed in fp32 for
// normalised values; for physical units multiply by std of the output over std of the input. A classifier's
// outputs are its logits.
//
//   Jacobian jacobian(spec, 8, threads);
//   jacobian.take_weights(forecaster);                                    // from a checkpoint
//   const std::vector<float> rows = jacobian.rows(input, {0, 1, 2});      // [3, in…]
#pragma once
#include <vector>

#include "model/backend/cpu/cpu_backend.h"
#include "model/inference/arena.h"
#include "model/inference/forecaster.h"
#include "model/plan/link.h"

namespace isobar::inference {

class Jacobian {
 public:
  /// `batch`: rows per pass. Throws ConfigError for a net without kernels, or one that reads words.
  Jacobian(const RunSpec& spec, int64_t batch, int threads);
  const plan::Plan& plan() const { return plan_; }
  float* weights() const { return floats(plan_.params_all); }  // in the order of plan().params
  void weights_changed();
  void take_weights(const Forecaster& net);  // of the same net

  int64_t inputs() const { return sample("input"); }  // elements of a sample: [C,H,W]
  int64_t outputs() const { return sample("target"); }
  /// The rows for the outputs `which` at one sample `input` [inputs]: [which.size(), inputs]
  std::vector<float> rows(const float* input, const std::vector<int64_t>& which);

 private:
  void pass(const float* input, const int64_t* which, int64_t count, float* rows);
  void take(int64_t b, float* row) const;  // from patches to [C,H,W]
  int64_t sample(const char* tensor) const;
  float* floats(const plan::View& v) const { return reinterpret_cast<float*>(backend_.at(v)); }

  const RunSpec spec_;
  const plan::Plan plan_;
  const plan::Program program_;
  Arena arena_;
  CpuBackend backend_;
  plan::ImageAttrs patches_;  // of the input; none for a net on table rows
};

}  // namespace isobar::inference
