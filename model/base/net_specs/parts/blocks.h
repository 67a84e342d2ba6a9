// Shared by nets of transformer blocks.
#pragma once
#include "model/base/net_specs/net_answers.h"
#include "model/base/spec/spec_check.h"

namespace isobar {

/// Blocks on `tokens` of this width, between ends that map each token to and from `ends` numbers. `wide`:
/// weights of a block, relative to one of the net's width.
template <class Net>
RoughSize rough_size_of_blocks(const Net& n, double ends, bool unfused, double wide = 1) {
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  const double width = real(n.embed_dim), tokens = real(n.tokens()), depth = real(n.blocks());
  const double hidden = real(n.hidden());
  const double scores = unfused ? real(n.num_heads) * tokens * tokens : 0;
  return {wide * depth * width * (4 * width + 3 * hidden) + width * (ends + tokens),
          tokens * (ends + depth * (8 * width + 3 * hidden)) + depth * scores};
}

}  // namespace isobar
