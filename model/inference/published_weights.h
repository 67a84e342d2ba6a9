// Weights in the form of the program that a net was published with (nets/published.h), as safetensors.
//
//   write_published(spec, TrainedWeights(checkpoint, state), "theirs.safetensors");
//   import_published_weights(spec, SafetensorsWeights("theirs.safetensors"), "theirs.safetensors",
//                            "ours.safetensors");                              // for train.init_from
#pragma once
#include <filesystem>

#include "model/base/spec.h"
#include "model/inference/named_weights.h"
#include "model/inference/trained_weights.h"

namespace isobar {

enum class Adapters : uint8_t { merged, apart };

/// Returns how many weights have adapters, which are merged or stay apart as that program has them. Throws
/// ConfigError where the net was published in no other form, or with other adapters.
int64_t write_published(const RunSpec& spec, const TrainedWeights& weights, const std::filesystem::path& to,
                        Adapters adapters = Adapters::merged);
/// `named`: what the file is called in errors. Adapters in it stay apart where the spec has some, else they
/// are merged: returns into how many weights. Throws ConfigError naming the tensor that is missing, has
/// another shape, or is of no part of the net.
/// Numbers are read of tensors alone that the net has, in the net's shapes.
int64_t import_published_weights(const RunSpec& spec, const NamedWeights& file, const std::string& named,
                                 const std::filesystem::path& to);

}  // namespace isobar
