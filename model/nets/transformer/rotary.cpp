#include "model/nets/transformer/rotary.h"

#include <algorithm>
#include <cmath>

#include "model/nets/constants.h"

namespace isobar {

std::vector<double> rotary_frequencies(const RotaryAngles& r, int64_t d) {
  constexpr double kLow = 1, kHigh = 4;  // Llama 3.1's low_freq_factor and high_freq_factor
  std::vector<double> out;
  for (int64_t i = 0; i < d / 2; ++i) {
    const double f = std::pow(r.theta, -2.0 * static_cast<double>(i) / static_cast<double>(d));
    const double turns = static_cast<double>(r.original_length) * f / (2 * M_PI);
    const double kept = std::clamp((turns - kLow) / (kHigh - kLow), 0.0, 1.0);
    out.push_back(kept * f + (1 - kept) * f / r.factor);
  }
  return out;
}

std::vector<float> rotary_values(const RotaryAngles& r, int64_t d, int64_t token0, int64_t tokens) {
  const std::vector<double> frequencies = rotary_frequencies(r, d);
  std::vector<float> table;
  table.reserve(static_cast<size_t>(tokens * d));
  for (int64_t t = token0; t < token0 + tokens; ++t) {
    for (const double f : frequencies)
      table.push_back(static_cast<float>(std::cos(static_cast<double>(t) * f)));
    for (const double f : frequencies)
      table.push_back(static_cast<float>(std::sin(static_cast<double>(t) * f)));
  }
  return table;
}

View rotary_table(Builder& b, const RotaryAngles& r, int64_t d, int64_t token0, int64_t tokens) {
  return numbers(b, "rotary", DType::f32, tokens * d, [=] { return rotary_values(r, d, token0, tokens); });
}

}  // namespace isobar
