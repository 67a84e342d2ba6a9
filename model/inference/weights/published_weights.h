// Weights as safetensors in the form of the program with which a net was published
// (nets/published/published.h).
//
//   write_published(spec, TrainedWeights(checkpoint, state), "theirs.safetensors");
//   import_published_weights(spec, SafetensorsWeights("theirs.safetensors"), "theirs.safetensors",
//                            "ours.safetensors");                              // for train.init_from
#pragma once
#include <filesystem>

#include "model/base/spec/spec.h"
#include "model/inference/weights/named_weights.h"
#include "model/inference/weights/trained_weights.h"

namespace isobar::inference {

enum class Adapters : uint8_t { merged, apart };

struct PublishedFiles {
  Adapters adapters = Adapters::merged;
  DType type = DType::f32;
  int64_t most_bytes = 5'000'000'000;  // of a file; more are several beside an index (sharded_safetensors.h)
};

/// Returns the number of weights with adapters, which are merged or written separately. Writes config.json
/// beside the file, replacing one, if that program reads the net from it (gpt and llama: transformers).
/// Throws ConfigError for a net without a published form, or with other adapters.
int64_t write_published(const RunSpec& spec, const TrainedWeights& weights, const std::filesystem::path& to,
                        const PublishedFiles& how = {});
/// Adapters stay separate if the spec has adapters, else they are merged; returns the number of merged
/// weights. Throws ConfigError, with `named` as the file's name, for a tensor that is missing, has another
/// shape or is unknown, before it reads any values.
int64_t import_published_weights(const RunSpec& spec, const NamedWeights& file, const std::string& named,
                                 const std::filesystem::path& to);

}  // namespace isobar::inference
