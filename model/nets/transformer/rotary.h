// The angles of rotary position embedding (base/net_specs/parts/rotary.h).
//
//   shape.rotary = rotary_table(b, {.theta = 500000}, 128, at.runs());
#pragma once
#include <vector>

#include "model/base/net_specs/parts/words.h"
#include "model/plan/builder.h"

namespace isobar::nets {

/// Angles of one token by pair, [d / 2], in radians. llama3 (Llama 3.1): wavelengths above original_length
/// are stretched `factor` times, those below a quarter of it not at all, with a smooth passage between.
/// yarn (Peng 2023, section 3.2): the same between pairs, by their turns within original_length.
std::vector<double> rotary_frequencies(const RotarySpec& r, int64_t d);

/// [tokens, 2, d / 2]: cosines, then sines, of the tokens' places; YaRN's grow by a factor
std::vector<float> rotary_values(const RotarySpec& r, int64_t d, const TokenRuns& tokens);
/// The same as a constant in f32
plan::View rotary_table(plan::Builder& b, const RotarySpec& r, int64_t d, const TokenRuns& tokens);

/// Factor of attention's scores beside 1/sqrt(d): latent attention's have one with YaRN (DeepSeek-V2, 2024)
double score_growth(const LlamaSpec& n);

}  // namespace isobar::nets
