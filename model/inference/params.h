// Parameters in the arena: first values, and their way in and out under plain PyTorch names. What a rank
// holds is parts of the net's tensors; values and files know whole tensors only, so every layout starts alike
// and reads what any other has written.
//
//   init_params(plan, seed, params);
//   load_tensors(plan, SafetensorsReader(path), "exp_avg.", &Shard::moments, adam_m);
#pragma once
#include "model/inference/safetensors.h"
#include "model/plan/plan.h"

namespace isobar {

struct ElementRun {  // elements that lie side by side in the whole tensor and in this rank's part
  int64_t whole;     // first one, row-major in the whole tensor
  int64_t offset;    // first one among the flat parameters; or in a buffer (kept_runs)
  int64_t count;
};
/// A part cut on axis 0 is one run, one cut on axis 1 has a run for each row.
std::vector<ElementRun> runs_of(const Param& p);
/// Those of them that lie in this rank's shards, with the place that one of a shard's buffers has for them:
///   kept_runs(plan, p, &Shard::moments)
std::vector<ElementRun> kept_runs(const Plan& plan, const Param& p, int64_t Shard::*buffer);

/// Of the whole buffers params and params16, which alone has frozen parameters of matrix products where those
/// are in 16 bits (Param::half).
struct Weights {
  Weights(float* params, void* params16 = nullptr) : params(params), params16(params16) {}  // NOLINT: either
  float* params;
  void* params16;
};

/// Values depend on (seed, parameter name, index in the whole tensor) alone. What is in no shard of this rank
/// is left to the plan's init.
void init_params(const Plan& plan, uint64_t seed, const Weights& to);

/// The net's tensors with `prefix` before each name.
std::vector<Tensor> prefixed(const std::vector<Tensor>& tensors, const std::string& prefix);
/// Those that have moments
std::vector<Tensor> trained(const std::vector<Tensor>& tensors);
/// Writes those parts of this rank's that it is the writer of. `data`: the whole of the buffer named; frozen
/// parameters have no moments.
void write_tensors(const Plan& plan, const SafetensorsWriter& file, const std::string& prefix,
                   int64_t Shard::*buffer, const float* data);
void write_weights(const Plan& plan, const SafetensorsWriter& file, const Weights& from);
/// Reads this rank's parts. Throws ConfigError naming the parameter that is missing or has another shape.
void load_tensors(const Plan& plan, const SafetensorsReader& file, const std::string& prefix,
                  int64_t Shard::*buffer, float* data);
/// The values of what the file does not have: an error, or kept. adapters_stay: first weights, of another run
/// or program, in which NaN and infinity are refused.
enum class Absent : uint8_t { refused, adapters_stay, stays };
void load_weights(const Plan& plan, const SafetensorsReader& file, const std::string& prefix,
                  const Weights& to, Absent absent = Absent::refused);

}  // namespace isobar
