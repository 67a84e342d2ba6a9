// The angles of rotary position embedding (Su 2021): position t turns the i-th pair of a head by
// t theta^(-2 i / d), with Llama 3.1's scaling for longer contexts if asked for.
//
//   shape.rotary = rotary_table(b, {.theta = 500000}, 128, at.token0, at.tokens);
#pragma once
#include <vector>

#include "model/base/net_specs/words.h"
#include "model/plan/builder.h"

namespace isobar {

/// Llama 3.1: wavelengths above original_length are stretched `factor` times, those below a quarter of it
/// not at all, with a smooth passage between.
struct RotaryAngles {
  double theta = 10000;
  double factor = 1;
  int64_t original_length = 8192;
};

inline RotaryAngles angles_of(const LlamaSpec& n) {
  return {n.rope_theta, n.rope_scaling_factor, n.rope_original_length};
}

/// Angles of one token by pair, [d / 2], in radians
std::vector<double> rotary_frequencies(const RotaryAngles& r, int64_t d);

/// [tokens, 2, d / 2]: cosines, then sines, of positions token0, token0 + 1, …
std::vector<float> rotary_values(const RotaryAngles& r, int64_t d, int64_t token0, int64_t tokens);
/// The same as a constant in f32
View rotary_table(Builder& b, const RotaryAngles& r, int64_t d, int64_t token0, int64_t tokens);

}  // namespace isobar
