// Patches: im2col of a convolution whose stride is its kernel.
#include <cstring>

#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"
#include "model/backend/cpu/rows/segments.h"

namespace isobar::cpu {

namespace {

// Scatters adjacent runs of `bytes` to places `apart` bytes from one another
template <int64_t kBytes>
void deal(int64_t count, int64_t bytes, const char* from, char* to, int64_t apart) {
  const int64_t each = kBytes > 0 ? kBytes : bytes;  // a constant: no call
  for (int64_t i = 0; i < count; ++i, from += each, to += apart)
    std::memcpy(to, from, static_cast<size_t>(each));
}

auto dealer(int64_t bytes) {
  return bytes == 4    ? deal<4>
         : bytes == 8  ? deal<8>
         : bytes == 16 ? deal<16>
         : bytes == 32 ? deal<32>
         : bytes == 64 ? deal<64>
                       : deal<0>;
}

}  // namespace

void patch_gather(const Patch& s, const float* image, void* patches) {
  const Segments segments(s);
  const int64_t columns = s.channels * s.p * s.p, size = size_of(s.act);
  const auto convert = kernels().cast[0][of(s.act)];
  const auto deal_out = dealer(s.p * size);
  const int64_t line_floats = s.act == DType::f32 ? 0 : s.width;
  float* lines = scratch(threads_for(s.rows * columns) * line_floats);
  parallel(s.rows * columns, [&](int t, int threads) {
    const Range mine = share(segments.count(), t, threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const Segment g = segments[i];
      if (g.x0 >= g.x1) continue;
      for (int64_t c = 0; c < s.channels; ++c)
        for (int64_t row = 0; row < s.p; ++row) {
          const float* line =
              image + ((g.sample * s.channels + c) * s.height + g.band * s.p + row) * s.width + g.x0 * s.p;
          if (s.act != DType::f32) {
            float* const converted = lines + t * line_floats;
            convert((g.x1 - g.x0) * s.p, line, converted);
            line = converted;
          }
          deal_out(g.x1 - g.x0, s.p * size, reinterpret_cast<const char*>(line),
                   static_cast<char*>(patches) + (g.row * columns + (c * s.p + row) * s.p) * size,
                   columns * size);
        }
    }
  });
}

}  // namespace isobar::cpu
