// Activation functions of nets.
//
//   activation_named("silu")              // std::nullopt: there is none of this name
//   name_of(Activation::gelu_tanh)        // "gelu_tanh"
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isobar {

enum class Activation : uint8_t {
  gelu,       // u Phi(u), exact
  gelu_tanh,  // its tanh approximation, which cuBLASLt can fuse into a product
  relu,       // max(u, 0); slope 0 at 0
  silu,       // u / (1 + exp(-u))
  tanh
};
constexpr int kActivations = 5;

constexpr const char* name_of(Activation a) {
  constexpr const char* kNames[kActivations] = {"gelu", "gelu_tanh", "relu", "silu", "tanh"};
  return kNames[static_cast<int>(a)];
}

inline std::optional<Activation> activation_named(std::string_view name) {
  for (int i = 0; i < kActivations; ++i)
    if (name == name_of(static_cast<Activation>(i))) return static_cast<Activation>(i);
  return std::nullopt;
}

inline std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kActivations; ++i) names.emplace_back(name_of(static_cast<Activation>(i)));
  return names;
}

}  // namespace isobar
