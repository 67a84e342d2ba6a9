// Patches: im2col of a convolution whose stride is its kernel.
#include "model/backend/cpu/kernel_table.h"
#include "model/backend/cpu/parallel.h"
#include "model/backend/cpu/segments.h"

namespace isobar::cpu {

void patch_gather(const Patch& s, const float* image, void* patches) {
  const Segments segments(s);
  const int64_t columns = s.channels * s.p * s.p;
  const auto convert = kernels().cast[0][of(s.act)];
  parallel(s.rows * columns, [&](int t, int threads) {
    const Range mine = share(segments.count(), t, threads);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      const Segment g = segments[i];
      for (int64_t c = 0; c < s.channels; ++c)
        for (int64_t row = 0; row < s.p; ++row) {
          const float* line = image + ((g.sample * s.channels + c) * s.height + g.band * s.p + row) * s.width;
          char* out =
              static_cast<char*>(patches) + (g.row * columns + (c * s.p + row) * s.p) * size_of(s.act);
          for (int64_t x = g.x0; x < g.x1; ++x, out += columns * size_of(s.act))
            convert(s.p, line + x * s.p, out);
        }
    }
  });
}

}  // namespace isobar::cpu
