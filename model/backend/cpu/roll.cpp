// From one step of a roll-out to the next: a predicted row is [p][p][C'], a row that is read [C][p][p], with
// several times among the channels C if the net has a history.
#include "model/backend/cpu/isa/kernels.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {
namespace {

// A number of a type known at run time, as f32: for kernels that copy and add without vector code.

inline float read(const void* p, DType t, int64_t i) {
  switch (t) {
    case DType::bf16:
      return to_float(static_cast<const bf16*>(p)[i]);
    case DType::f16:
      return to_float(static_cast<const f16*>(p)[i]);
    default:
      return static_cast<const float*>(p)[i];
  }
}

inline void write(void* p, DType t, int64_t i, float x) {
  switch (t) {
    case DType::bf16:
      static_cast<bf16*>(p)[i] = to_bf16(x);
      return;
    case DType::f16:
      static_cast<f16*>(p)[i] = to_f16(x);
      return;
    default:
      static_cast<float*>(p)[i] = x;
  }
}

}  // namespace

void roll(const Patch& s, const Roll& r, const void* prediction, const void* before, const float* forcing,
          void* patches) {
  const int64_t of_a_time = s.channels / r.history, area = s.p * s.p, columns = s.channels * area;
  const int64_t known = of_a_time - r.predicted, newest = (r.history - 1) * of_a_time;
  const int64_t across = s.width / s.p;
  parallel(s.rows * columns, [&](int t, int threads) {
    const Range mine = share(s.rows, t, threads);
    for (int64_t row = mine.begin; row < mine.end; ++row) {
      // `before` may be these patches: in ascending order nothing is overwritten before it is read.
      for (int64_t i = 0; i < newest * area; ++i)
        write(patches, s.act, row * columns + i, read(before, s.act, row * columns + of_a_time * area + i));
      const int64_t to = row * columns + newest * area, from = row * area * r.predicted;
      for (int64_t c = 0; c < r.predicted; ++c)
        for (int64_t i = 0; i < area; ++i)
          write(patches, s.act, to + c * area + i, read(prediction, r.type, from + i * r.predicted + c));
      const int64_t place = s.row0 + row, token = s.token0 + place % s.tokens;
      for (int64_t c = 0; c < known; ++c)
        for (int64_t i = 0; i < area; ++i) {
          const int64_t line = ((place / s.tokens) * known + c) * s.height + token / across * s.p + i / s.p;
          write(patches, s.act, to + (r.predicted + c) * area + i,
                forcing[line * s.width + token % across * s.p + i % s.p]);
        }
    }
  });
}

void unroll(const Patch& s, const Roll& r, const void* patches, void* prediction, void* carried) {
  const int64_t of_a_time = s.channels / r.history, area = s.p * s.p, columns = s.channels * area;
  const int64_t newest = (r.history - 1) * of_a_time * area;
  parallel(s.rows * columns, [&](int t, int threads) {
    const Range mine = share(s.rows, t, threads);
    for (int64_t row = mine.begin; row < mine.end; ++row) {
      const int64_t from = row * columns + newest, to = row * area * r.predicted;
      for (int64_t c = 0; c < r.predicted; ++c)
        for (int64_t i = 0; i < area; ++i)
          write(prediction, r.type, to + i * r.predicted + c, read(patches, s.act, from + c * area + i));
      if (!carried) continue;
      const int64_t begin = row * columns;
      for (int64_t i = 0; i < of_a_time * area; ++i) write(carried, s.act, begin + i, 0);
      for (int64_t i = 0; i < newest; ++i)
        write(carried, s.act, begin + of_a_time * area + i, read(patches, s.act, begin + i));
    }
  });
}

}  // namespace isobar::cpu
