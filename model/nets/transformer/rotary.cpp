#include "model/nets/transformer/rotary.h"

#include <algorithm>
#include <cmath>

#include "model/nets/constants.h"

namespace isobar::nets {
namespace {

double llama3(const RotarySpec& r, double frequency) {
  constexpr double kLow = 1, kHigh = 4;  // Llama 3.1's low_freq_factor and high_freq_factor
  const double turns = static_cast<double>(r.original_length) * frequency / (2 * M_PI);
  return std::clamp((turns - kLow) / (kHigh - kLow), 0.0, 1.0);
}

// Its passage is linear in the number of the pair, between whole ones.
double yarn(const RotarySpec& r, int64_t d, int64_t pair) {
  const double width = static_cast<double>(d);
  const auto pair_of = [&](double turns) {
    return width * std::log(static_cast<double>(r.original_length) / (turns * 2 * M_PI)) /
           (2 * std::log(r.theta));
  };
  const double first = std::max(0.0, std::floor(pair_of(r.beta_fast))),
               last = std::min(width - 1, std::ceil(pair_of(r.beta_slow)));
  constexpr double kApart = 1e-3;  // of equal ones, as its authors' code
  return 1 -
         std::clamp((static_cast<double>(pair) - first) / (last == first ? kApart : last - first), 0.0, 1.0);
}

double yarn_growth(double factor, double mscale) {
  return 0.1 * mscale * std::log(factor) + 1;
}

double growth_of_angles(const RotarySpec& r) {
  if (r.scaling != RopeScaling::yarn) return 1;
  if (r.mscale == 0 || r.mscale_all_dim == 0) return yarn_growth(r.factor, 1);
  return yarn_growth(r.factor, r.mscale) / yarn_growth(r.factor, r.mscale_all_dim);
}

}  // namespace

std::vector<double> rotary_frequencies(const RotarySpec& r, int64_t d) {
  std::vector<double> out;
  for (int64_t i = 0; i < d / 2; ++i) {
    const double f = std::pow(r.theta, -2.0 * static_cast<double>(i) / static_cast<double>(d));
    const double kept = r.scaling == RopeScaling::yarn ? yarn(r, d, i) : llama3(r, f);
    out.push_back(kept * f + (1 - kept) * f / r.factor);
  }
  return out;
}

std::vector<float> rotary_values(const RotarySpec& r, int64_t d, const TokenRuns& tokens) {
  const std::vector<double> frequencies = rotary_frequencies(r, d);
  const double growth = growth_of_angles(r);
  std::vector<float> table;
  table.reserve(static_cast<size_t>(tokens.size() * d));
  for (int64_t i = 0; i < tokens.size(); ++i) {
    const auto place = static_cast<double>(tokens.place(i));
    for (const double f : frequencies) table.push_back(static_cast<float>(growth * std::cos(place * f)));
    for (const double f : frequencies) table.push_back(static_cast<float>(growth * std::sin(place * f)));
  }
  return table;
}

plan::View rotary_table(plan::Builder& b, const RotarySpec& r, int64_t d, const TokenRuns& tokens) {
  return numbers(b, "rotary", DType::f32, tokens.size() * d, [=] { return rotary_values(r, d, tokens); });
}

double score_growth(const LlamaSpec& n) {
  if (!n.latent.any() || n.rotary.scaling != RopeScaling::yarn) return 1;
  const double of_each = yarn_growth(n.rotary.factor, n.rotary.mscale_all_dim);  // queries and keys
  return of_each * of_each;
}

}  // namespace isobar::nets
