// Low-rank adapters that a checkpoint holds beside its weights (nets/adapter.h), added to them: W + s B A. The
// result is a net like any other.
//
//   merge_adapters(plan, SafetensorsReader(weights), state.spec.lora_scale(), params);   // of a plan without
//   export_merged(checkpoint, state, "merged.safetensors");
#pragma once
#include "model/inference/checkpoint_state.h"
#include "model/inference/safetensors.h"
#include "model/plan/plan.h"

namespace isobar {

/// A tensor of the file with its adapter's product, if it has one, added in f64.
std::vector<float> merged(const SafetensorsReader& file, const std::string& name, double scale);
/// `params`: of one rank, with the file's weights. Those that have an adapter there become merged ones.
void merge_adapters(const Plan& plan, const SafetensorsReader& file, double scale, float* params);
/// Writes a checkpoint's weights, merged, as a safetensors file with the metadata of the checkpoint. Returns
/// how many had an adapter.
int64_t export_merged(const std::filesystem::path& checkpoint, const CheckpointState& state,
                      const std::filesystem::path& to);

}  // namespace isobar
