// Dropout without a stored mask: the backward pass draws it again.
#include "model/backend/cpu/cpu_backend.h"
#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/kernels.h"
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

void dropout(const DropoutDraw& draw, int64_t first, int64_t n, DType act, void* x, int64_t each) {
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

// ---- ops ----

namespace {

// With loss scaling kStep counts the steps before this one until the step's end.
int64_t steps_begun(DType act) {
  return act == DType::f16 ? 1 : 0;
}

template <OpKind K>
void run_dropout(const CpuCall<K>& c, DType act, void* x) {
  const float* const scalars = c.in("scalars");
  if (!scalars || scalars[kTraining] == 0) return;
  const DropoutDraw draw{static_cast<uint64_t>(c.backend.train().seed), static_cast<uint64_t>(c.a.stream),
                         c.a.rate, static_cast<int64_t>(scalars[kStep]) + steps_begun(act)};
  for_dropped_rows(c.a, c.micro, [&](int64_t row, int64_t first, int64_t rows) {
    void* const at = static_cast<char*>(x) + row * c.a.n * c.a.each * size_of(act);
    dropout(draw, first * c.a.n, rows * c.a.n, act, at, c.a.each);
  });
}

void run_dropout_forward(const CpuCall<OpKind::dropout>& c) {
  run_dropout(c, c.type_in("x"), c.out("x"));
}

void run_dropout_backward(const CpuCall<OpKind::dropout_backward>& c) {
  run_dropout(c, c.type_in("dx"), c.out("dx"));
}

}  // namespace

CpuRows dropout_ops() {
  static constexpr CpuRow kRows[] = {row<run_dropout_forward>, row<run_dropout_backward>};
  return kRows;
}

}  // namespace isobar::cpu
