// Activation functions of nets; their words: base/spec/settings.h.
#pragma once
#include <cstdint>

namespace isobar {

enum class Activation : uint8_t {
  gelu,       // u Phi(u), exact
  gelu_tanh,  // its tanh approximation, which cuBLASLt can fuse into a product
  relu,       // max(u, 0); slope 0 at 0
  silu,       // u / (1 + exp(-u))
  tanh
};
constexpr int kActivations = 5;

}  // namespace isobar
