// The rows of a Patch in runs that are contiguous in the image: one sample, one band (a row of patches),
// patches x0 … x1-1 of it. A sample's first and last segment may be part of a band.
//
//   const Segments segments(s);
//   for (int64_t i = 0; i < segments.count(); ++i) {
//     const Segment g = segments[i];  // g.row: the rank's row of patch x0
//   }
#pragma once
#include <algorithm>
#include <cstdint>

#include "model/backend/cpu/isa/kernels.h"

namespace isobar::cpu {

struct Segment {
  int64_t sample, band, x0, x1;  // empty if x0 >= x1
  int64_t row;
};

// Segments are computed from their index, so threads need no list. Every sample has the same number; those
// that this rank does not hold are empty.
class Segments {
 public:
  explicit Segments(const Patch& s)
      : s_(s),
        across_(s.width / s.p),
        first_band_(s.token0 / across_),
        per_sample_((s.token0 + s.tokens - 1) / across_ + 1 - first_band_),
        first_sample_(s.row0 / s.tokens),
        samples_(s.rows > 0 ? (s.row0 + s.rows - 1) / s.tokens + 1 - first_sample_ : 0) {}

  int64_t count() const { return samples_ * per_sample_; }
  Segment operator[](int64_t i) const {
    const int64_t sample = first_sample_ + i / per_sample_, band = first_band_ + i % per_sample_;
    const int64_t row_of_token0 = sample * s_.tokens - s_.row0;  // negative: the sample begins on another
                                                                 // rank
    const int64_t held_from = s_.token0 + std::max<int64_t>(0, -row_of_token0);
    const int64_t held_to = s_.token0 + std::min(s_.tokens, s_.rows - row_of_token0);
    const int64_t from = std::max(held_from, band * across_), to = std::min(held_to, (band + 1) * across_);
    return {sample, band, from - band * across_, to - band * across_, row_of_token0 + from - s_.token0};
  }

 private:
  const Patch& s_;
  int64_t across_, first_band_, per_sample_, first_sample_, samples_;
};

}  // namespace isobar::cpu
