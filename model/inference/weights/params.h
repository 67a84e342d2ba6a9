// Parameters in the arena: initial values, and input and output under plain PyTorch names. A rank holds parts
// of the net's tensors, but initial values and files are defined by whole tensors, so that all layouts start
// equal and read each other's files.
//
//   init_params(plan, seed, params);
//   load_tensors(plan, SafetensorsReader(path), "exp_avg.", &Shard::moments, adam_m);
#pragma once
#include "model/inference/weights/safetensors.h"
#include "model/plan/plan.h"

namespace isobar::inference {

struct ElementRun {  // elements adjacent both in the whole tensor and in this rank's part
  int64_t whole;     // index of the first, row-major in the whole tensor
  int64_t offset;    // index of the first in the flat parameters, or in a buffer (kept_runs)
  int64_t count;
};
/// A part cut on axis 0 is one run; a part cut on axis 1 has one run a row.
std::vector<ElementRun> runs_of(const plan::Param& p);
/// The runs in this rank's shards, with offsets into one of the shards' buffers:
///   kept_runs(plan, p, &Shard::moments)
std::vector<ElementRun> kept_runs(const plan::Plan& plan, const plan::Param& p, int64_t plan::Shard::*buffer);

/// The buffers params and params16. Frozen parameters of matrix products may be stored only in params16
/// (Param::half).
struct Weights {
  Weights(float* params, void* params16 = nullptr) : params(params), params16(params16) {}  // NOLINT: either
  float* params;
  void* params16;
};

/// Initial values depend only on (seed, parameter name, index in the whole tensor). Parameters outside this
/// rank's shards are left to the plan's init.
void init_params(const plan::Plan& plan, uint64_t seed, const Weights& to);

/// The tensors with `prefix` before each name.
std::vector<plan::Tensor> prefixed(const std::vector<plan::Tensor>& tensors, const std::string& prefix);
/// The tensors that have optimizer moments
std::vector<plan::Tensor> trained(const std::vector<plan::Tensor>& tensors);
/// Writes the parts for which this rank is the writer. `data`: the whole buffer that `buffer` refers to;
/// frozen parameters have no moments.
void write_tensors(const plan::Plan& plan, const SafetensorsWriter& file, const std::string& prefix,
                   int64_t plan::Shard::*buffer, const float* data);
void write_weights(const plan::Plan& plan, const SafetensorsWriter& file, const Weights& from);
/// Reads this rank's parts. Throws ConfigError naming a parameter that is missing or has another shape.
void load_tensors(const plan::Plan& plan, const SafetensorsReader& file, const std::string& prefix,
                  int64_t plan::Shard::*buffer, float* data);
/// Handling of parameters that the file does not have: an error, or they keep their values. adapters_stay is
/// for weights from another run or program, and refuses NaN and infinity.
enum class Absent : uint8_t { refused, adapters_stay, stays };
void load_weights(const plan::Plan& plan, const SafetensorsReader& file, const std::string& prefix,
                  const Weights& to, Absent absent = Absent::refused);

}  // namespace isobar::inference
