// Settings that are one of a fixed set of words: an enum class for each, and the words of configurations.
//
//   name_of(Amp::bf16)                   // "bf16"
//   value_named<CpKind>("ring")          // CpKind::ring; std::nullopt: no such word
//   names_of<Recompute>()                // {"none", "selective", "full"}
//
// A value's word has the same place in kWordsOf as the value has in its enum.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "model/base/activation.h"

namespace isobar {

/// A whole number that stands for the word that a key takes beside numbers (Allowed::word)
constexpr int64_t kWordNumber = -1;

// ---- policy ----

/// none: fp32 | tf32: in matrix products | fp16: with a scaled loss | fp8: bf16 with linears in fp8 | mxfp8,
/// nvfp4: the same with a scale of every 32 fp8 or 16 fp4 values (settings_of_others.h)
enum class Amp : uint8_t { none, tf32, bf16, fp16, fp8, mxfp8, nvfp4 };
enum class PipelineSchedule : uint8_t { gpipe, one_f_one_b, interleaved, zb_h1 };
enum class GradientType : uint8_t { fp32, bf16 };  // in which gradients are accumulated and reduced
enum class CpKind : uint8_t { allgather, ring, ulysses };
/// selective: attention's core | full: blocks, by RecomputeMethod
enum class Recompute : uint8_t { none, selective, full };
/// Megatron's. uniform: all blocks, N at a time from the input of the first | block: the first N of a stage
/// chunk, one at a time
enum class RecomputeMethod : uint8_t { uniform, block };
enum class AttentionKind : uint8_t { flash, unfused };  // unfused: the matrix of weights is in memory

// ---- train ----

/// Formulas: backend/cpu/kernels.h. `projection` has no word: inference/jacobian.h sets it.
enum class LossKind : uint8_t { relative_l2, mae, mse, huber, cross_entropy, projection };
enum class LevelWeights : uint8_t { none, pressure };  // pressure: by level, with a mean of 1 in a variable
/// channels: as they are | mean: divided by their mean | aurora: surface and upper air separately
enum class LossWeighting : uint8_t { channels, mean, aurora };
/// all: the mean over a roll-out's steps, with the gradient through all of them | last: of the last step
/// alone, whose input is a constant (the push-forward of Brandstetter 2022)
enum class RolloutGradient : uint8_t { all, last };
enum class PredictionKind : uint8_t { state, increment };  // increment: change of the newest input state
enum class OptimizerKind : uint8_t { adam, adamw, sgd };
enum class LrSchedule : uint8_t { cosine, constant, step, plateau };  // inference/schedule_lr.h
/// sqrt: lr * sqrt(global_batch / lr_base_batch) | linear: lr * global_batch / lr_base_batch
enum class LrScaling : uint8_t { none, sqrt, linear };

// ---- run ----

/// cuda: an NVIDIA GPU of the host for each rank | automatic ("auto"): cuda where there is one
enum class RunDevice : uint8_t { cpu, cuda, automatic };
/// Algorithms of matrix products. heuristic: cuBLASLt's choice, which repeats | timed: the fastest by timing
enum class GemmChoice : uint8_t { heuristic, timed };
/// Kernels of attention on Hopper. cudnn: cuDNN's where it takes the shape | own: ours where they do |
/// automatic ("auto"): the faster on an H200 (backend/cuda/kernels/attention/attention_choice.h)
enum class AttentionChoice : uint8_t { automatic, cudnn, own };

// ---- data and nets ----

/// Rows that are samples. ocean: ice below min_ice_concentration | sea_ice: at least that
enum class MaskMode : uint8_t { both, ocean, sea_ice };
enum class RouterScores : uint8_t { softmax, sigmoid };  // of experts, by a router's logits
enum class RopeScaling : uint8_t { llama3, yarn };       // of rotary angles (nets/transformer/rotary.h)
enum class Gelu : uint8_t { erf, tanh };  // tanh: the approximation that cuBLASLt can fuse into a product
/// Assignment of nodes to ranks of context parallelism. bands: of latitude | metis: METIS' cut of the graph
enum class GraphPartition : uint8_t { bands, metis };

// ---- words ----

/// The words of an enum's values, in their order; defined for settings alone.
template <class E>
inline constexpr int kWordsOf = 0;
template <>
inline constexpr auto kWordsOf<Amp> = std::to_array<const char*>({"none", "tf32", "bf16", "fp16", "fp8",
                                                                  "mxfp8", "nvfp4"});
template <>
inline constexpr auto kWordsOf<PipelineSchedule> = std::to_array<const char*>({"gpipe", "1f1b", "interleaved",
                                                                               "zb-h1"});
template <>
inline constexpr auto kWordsOf<GradientType> = std::to_array<const char*>({"fp32", "bf16"});
template <>
inline constexpr auto kWordsOf<CpKind> = std::to_array<const char*>({"allgather", "ring", "ulysses"});
template <>
inline constexpr auto kWordsOf<Recompute> = std::to_array<const char*>({"none", "selective", "full"});
template <>
inline constexpr auto kWordsOf<RecomputeMethod> = std::to_array<const char*>({"uniform", "block"});
template <>
inline constexpr auto kWordsOf<AttentionKind> = std::to_array<const char*>({"flash", "unfused"});
template <>
inline constexpr auto kWordsOf<LossKind> = std::to_array<const char*>({"relative-l2", "mae", "mse", "huber",
                                                                       "cross_entropy"});
template <>
inline constexpr auto kWordsOf<LevelWeights> = std::to_array<const char*>({"none", "pressure"});
template <>
inline constexpr auto kWordsOf<LossWeighting> = std::to_array<const char*>({"channels", "mean", "aurora"});
template <>
inline constexpr auto kWordsOf<RolloutGradient> = std::to_array<const char*>({"all", "last"});
template <>
inline constexpr auto kWordsOf<PredictionKind> = std::to_array<const char*>({"state", "increment"});
template <>
inline constexpr auto kWordsOf<OptimizerKind> = std::to_array<const char*>({"adam", "adamw", "sgd"});
template <>
inline constexpr auto kWordsOf<LrSchedule> = std::to_array<const char*>({"cosine", "constant", "step",
                                                                         "plateau"});
template <>
inline constexpr auto kWordsOf<LrScaling> = std::to_array<const char*>({"none", "sqrt", "linear"});
template <>
inline constexpr auto kWordsOf<RunDevice> = std::to_array<const char*>({"cpu", "cuda", "auto"});
template <>
inline constexpr auto kWordsOf<GemmChoice> = std::to_array<const char*>({"heuristic", "timed"});
template <>
inline constexpr auto kWordsOf<AttentionChoice> = std::to_array<const char*>({"auto", "cudnn", "own"});
template <>
inline constexpr auto kWordsOf<MaskMode> = std::to_array<const char*>({"both", "ocean", "sea_ice"});
template <>
inline constexpr auto kWordsOf<RouterScores> = std::to_array<const char*>({"softmax", "sigmoid"});
template <>
inline constexpr auto kWordsOf<RopeScaling> = std::to_array<const char*>({"llama3", "yarn"});
template <>
inline constexpr auto kWordsOf<Gelu> = std::to_array<const char*>({"erf", "tanh"});
template <>
inline constexpr auto kWordsOf<GraphPartition> = std::to_array<const char*>({"bands", "metis"});
template <>
inline constexpr auto kWordsOf<Activation> = std::to_array<const char*>({"gelu", "gelu_tanh", "relu", "silu",
                                                                         "tanh"});

template <class E>
concept Setting = std::is_enum_v<E> && !std::is_same_v<decltype(kWordsOf<E>), const int>;

template <Setting E>
std::string name_of(E value) {
  const auto i = static_cast<size_t>(value);
  return i < kWordsOf<E>.size() ? kWordsOf<E>[i] : "";
}

/// As readers know it: none is "fp32".
inline std::string precision_name(Amp amp) {
  return amp == Amp::none ? "fp32" : name_of(amp);
}

template <Setting E>
std::optional<E> value_named(std::string_view word) {
  for (size_t i = 0; i < kWordsOf<E>.size(); ++i)
    if (word == kWordsOf<E>[i]) return static_cast<E>(i);
  return std::nullopt;
}

/// The same for the word of a record; any other text stays as it is.
inline std::string precision_name(const std::string& word) {
  const std::optional<Amp> amp = value_named<Amp>(word);
  return amp ? precision_name(*amp) : word;
}

template <Setting E>
std::vector<std::string> names_of() {
  return {kWordsOf<E>.begin(), kWordsOf<E>.end()};
}

}  // namespace isobar
