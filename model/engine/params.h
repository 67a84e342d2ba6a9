// Parameters in the arena: first values, and their way in and out under plain PyTorch names.
#pragma once
#include "model/engine/safetensors.h"
#include "model/plan/plan.h"

namespace isobar {

/// Values depend on (seed, parameter name, index) alone, so every layout starts alike. `params`: the whole
/// buffer.
void init_params(const Plan& plan, uint64_t seed, float* params);

/// One view a parameter into a buffer that is laid out like params (params itself, a moment); names get
/// `prefix`.
std::vector<TensorView> named_tensors(const Plan& plan, const float* buffer, const std::string& prefix = "");
/// Reads them back. Throws ConfigError naming the parameter that is missing or has another shape.
void load_tensors(const Plan& plan, const TensorFile& file, const std::string& path,
                  const std::string& prefix, float* buffer);

}  // namespace isobar
