// Dropout by random numbers, which are drawn again where no mask was kept.
#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/isa/kernels.h"
#include "model/backend/cpu/widen.h"
#include "model/backend/dropped_rows.h"

namespace isobar::cpu {

namespace {

// Runs of elements with a common factor
void drop_runs(const DropoutDraw& draw, int64_t first, int64_t n, DType act, void* x, int64_t each) {
  parallel(n * each, [&](int t, int threads) {
    const Range mine = share(n * each, t, threads);
    float product[kBlock];
    for (int64_t i0 = mine.begin; i0 < mine.end;) {
      const int64_t run = i0 / each, i1 = std::min({mine.end, (run + 1) * each, i0 + kBlock});
      const float factor = draw.factor(draw.words((first + run) / 4), static_cast<int>((first + run) % 4));
      in_f32(x, act, {i0, i1}, [&](Range r, const float* values) {
        for (int64_t i = 0; i < r.end - r.begin; ++i) product[i] = factor * values[i];
        kernels().cast[of(DType::f32)][of(act)](r.end - r.begin, product,
                                                static_cast<char*>(x) + r.begin * size_of(act));
      });
      i0 = i1;
    }
  });
}

}  // namespace

void dropout(const DropoutDraw& draw, int64_t first, int64_t n, DType act, void* x, int64_t each,
             uint8_t* mask) {
  if (each > 1) return drop_runs(draw, first, n, act, x, each);
  // Numbers are drawn in fours, so threads split between groups of four.
  const int64_t groups = (first + n + 3) / 4 - first / 4;
  parallel(n, [&](int t, int threads) {
    const Range mine = share(groups, t, threads);
    const int64_t from = std::max(first, (first / 4 + mine.begin) * 4) - first,
                  to = std::min(first + n, (first / 4 + mine.end) * 4) - first;
    float factors[kBlock];
    for (int64_t i0 = from; i0 < to; i0 += kBlock) {
      const int64_t i1 = std::min(to, i0 + kBlock);
      PhiloxWords words{};
      for (int64_t i = i0; i < i1; ++i) {
        const auto k = static_cast<int>((first + i) % 4);
        if (k == 0 || i == i0) words = draw.words((first + i) / 4);
        factors[i - i0] = draw.factor(words, k);
        if (mask != nullptr) mask[i] = factors[i - i0] != 0 ? 1 : 0;
      }
      in_f32(x, act, {i0, i1}, [&](Range r, const float* values) {
        float* const product = factors + (r.begin - i0);
        for (int64_t i = r.begin; i < r.end; ++i) product[i - r.begin] *= values[i - r.begin];
        kernels().cast[of(DType::f32)][of(act)](r.end - r.begin, product,
                                                static_cast<char*>(x) + r.begin * size_of(act));
      });
    }
  });
}

void dropout_by_mask(float rate, const uint8_t* mask, int64_t n, DType act, void* x) {
  const float kept = 1.0f / (1.0f - rate);
  parallel(n, [&](int t, int threads) {
    in_f32(x, act, share(n, t, threads, 64), [&](Range r, const float* values) {
      float product[kBlock];
      for (int64_t i0 = r.begin; i0 < r.end; i0 += kBlock) {
        const int64_t i1 = std::min(r.end, i0 + kBlock);
        for (int64_t i = i0; i < i1; ++i)
          product[i - i0] = (mask[i] != 0 ? kept : 0.0f) * values[i - r.begin];
        kernels().cast[of(DType::f32)][of(act)](i1 - i0, product, static_cast<char*>(x) + i0 * size_of(act));
      }
    });
  });
}

// ---- ops ----

namespace {

// With loss scaling kStep counts the steps before this one until the step's end.
int64_t steps_begun(DType act) {
  return act == DType::f16 ? 1 : 0;
}

// `mask`: bytes, null if none is kept; `read`: the forward pass has written it
template <plan::OpKind K>
void run_dropout(const CpuCall<K>& c, DType act, void* x, uint8_t* mask, bool read) {
  const float* const scalars = c.in("scalars");
  if (!scalars || scalars[plan::kTraining] == 0) return;
  if (read) return dropout_by_mask(c.a.rate, mask, c.a.rows * c.a.cols, act, x);
  const DropoutDraw draw{static_cast<uint64_t>(c.a.seed), static_cast<uint64_t>(c.a.stream), c.a.rate,
                         static_cast<int64_t>(scalars[plan::kStep]) + steps_begun(act)};
  for_dropped_rows(c.a, c.micro, [&](int64_t row, int64_t first, int64_t rows) {
    const int64_t at = row * c.a.cols;
    dropout(draw, first * c.a.cols, rows * c.a.cols, act,
            static_cast<char*>(x) + at * c.a.each * size_of(act), c.a.each,
            mask != nullptr ? mask + at : nullptr);
  });
}

void run_dropout_forward(const CpuCall<plan::OpKind::dropout>& c) {
  run_dropout(c, c.type_in("x"), c.out("x"), c.out("mask"), false);
}

void run_dropout_backward(const CpuCall<plan::OpKind::dropout_backward>& c) {
  run_dropout(c, c.type_in("dx"), c.out("dx"), c.in("mask"), static_cast<bool>(c.view_in("mask")));
}

}  // namespace

CpuRows dropout_ops() {
  static constexpr CpuRow kRows[] = {row<run_dropout_forward>, row<run_dropout_backward>};
  return kRows;
}

}  // namespace isobar::cpu
