// The kernels that run an attention, and their scratch. Pure functions of shape and device, so that the arena
// can be predicted and the choice tested without a GPU.
//
//   few tokens  our own without workspace, for any type: Perceivers with 13 queries and 3 keys
//   16 bits     on Hopper our own for it, where run.attention wants them; cuDNN's fused kernels where they
//               take the shape; else our own on tensor cores
//   tf32        our own on tensor cores
//   f32         our own in f32 arithmetic: slow, and the only ones that keep f32's precision
#pragma once
#include <string>

#include "model/backend/cuda/kernels/kernels.h"

namespace isobar::cuda {

enum class AttentionPath : uint8_t { cudnn, tensor_cores, scalar, few_tokens, hopper };
const char* name_of(AttentionPath path);  // "cuDNN", "own kernels, tensor cores", …

/// True if so few queries see so few keys that a warp holds a head: of cuDNN's 64 x 64 tiles they would fill
/// less than a 64th.
bool few_tokens(const Attention& a);
/// True if cuDNN 9 supports it: 16-bit types with rows of whole 16 bytes; backward of heads wider than 128 on
/// Hopper only. `capability`: the device's, major (8: A100, 9: H100, 10: B200).
bool cudnn_takes(const Attention& a, bool backward, int capability);
/// `cudnn`: it is available. Throws std::invalid_argument for head sizes that no kernel supports.
AttentionPath attention_path(const Attention& a, bool backward, int capability, bool cudnn,
                             AttentionChoice choice = AttentionChoice::automatic);
/// Most bytes that any of the paths needs for the shape, for any type: what cuDNN said for shapes that it was
/// asked about (attention_choice.h), else a closed form with a margin.
int64_t attention_workspace(const Attention& a, bool backward, int capability,
                            AttentionChoice choice = AttentionChoice::automatic);
/// The form alone, for backward by cuDNN.
int64_t workspace_by_form(const Attention& a, int capability);
std::string text_of(const Attention& a, bool backward);  // "attention backward b4 h8/8 q4050 k4050 d192 bf16"

}  // namespace isobar::cuda
