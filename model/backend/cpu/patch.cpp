// Patches: im2col of a convolution whose stride is its kernel.
#include "model/backend/cpu/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {

void patch_gather(const Patch& s, const float* image, void* patches) {
  const int64_t down = s.height / s.p, across = s.width / s.p;
  const int64_t columns = s.channels * s.p * s.p, bands = s.batch * down;
  const auto convert = kernels().cast[0][is_half(s.act)];
  parallel(bands * across * columns, [&](int t, int threads) {
    const Range mine = share(bands, t, threads);
    for (int64_t band = mine.begin; band < mine.end; ++band) {
      const int64_t b = band / down, y0 = band % down * s.p;
      for (int64_t c = 0; c < s.channels; ++c)
        for (int64_t row = 0; row < s.p; ++row) {
          const float* line = image + ((b * s.channels + c) * s.height + y0 + row) * s.width;
          char* out = static_cast<char*>(patches) +
                      (band * across * columns + (c * s.p + row) * s.p) * size_of(s.act);
          for (int64_t x = 0; x < across; ++x, out += columns * size_of(s.act))
            convert(s.p, line + x * s.p, out);
        }
    }
  });
}

}  // namespace isobar::cpu
