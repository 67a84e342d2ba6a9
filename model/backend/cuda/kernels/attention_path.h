// By which kernels an attention runs, and what scratch those take. Pure functions of shape and device, so
// that the arena can be predicted, and the choice tested, where there is no GPU.
//
//   16 bits   cuDNN's fused kernels where they take the shape, else our own on tensor cores
//   tf32      our own on tensor cores
//   f32       our own in f32 arithmetic: slow, and the only ones that keep f32's precision
#pragma once
#include <string>

#include "model/backend/cuda/kernels/kernels.h"

namespace isobar::cuda {

enum class AttentionPath : uint8_t { cudnn, tensor_cores, scalar };
const char* name_of(AttentionPath path);  // "cuDNN", "own kernels, tensor cores", …

/// What cuDNN 9 takes: whole 16-byte rows of a head of 16-bit numbers; backward of heads wider than 128 on
/// Hopper alone. `capability`: the device's, major (8: A100, 9: H100, 10: B200).
bool cudnn_takes(const Attention& a, bool backward, int capability);
/// `cudnn`: it is here. Throws std::invalid_argument for heads that no kernel takes.
AttentionPath attention_path(const Attention& a, bool backward, int capability, bool cudnn);
/// Bytes that any of them wants for the shape, whatever its type.
int64_t attention_workspace(const Attention& a, bool backward, int capability);
std::string text_of(const Attention& a, bool backward);  // "attention backward b4 h8/8 q4050 k4050 d192 bf16"

}  // namespace isobar::cuda
