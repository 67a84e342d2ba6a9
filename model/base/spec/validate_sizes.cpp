// Rough size of all tensors of a run.
#include <algorithm>
#include <cstdio>

#include "model/base/spec/validate_parts.h"

namespace isobar {
namespace {

double real(int64_t v) {
  return static_cast<double>(v);
}

}  // namespace

// Bytes of all tensors on a rank if nothing were sharded, roughly and in floating point. Whatever passes can
// be counted in 64 bits.
void refuse_astronomical(const RunSpec& s, const SpecCheck& check) {
  const auto [weights, sample] =
      s.net.visit([&](const auto& n) { return n.rough_size(s.policy.attention == AttentionKind::unfused); });
  const double read = real(s.net.sample_numbers()) / 2;
  const double batches = real(std::max<int64_t>(1, s.data.workers) * s.data.prefetch + 2);
  const double batch = real(s.train.global_batch) / real(s.layout.dp);
  const double bytes = 16 * weights + batch * (8 * sample + 8 * batches * read);
  constexpr double kMost = 0x1p60;
  if (bytes <= kMost) return;
  char text[96];
  std::snprintf(text, sizeof text, "needs about %.1e bytes of tensors, above %.1e (2^60)", bytes, kMost);
  const bool of_batch = 16 * weights + 8 * (sample + batches * read) <= kMost;
  check.that(false, of_batch ? "train.global_batch" : "net", text,
             of_batch ? "give a smaller batch" : "make the net or its samples smaller");
}

}  // namespace isobar
