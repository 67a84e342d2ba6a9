// Softmax and its cross-entropy: rows are shared by threads. Row losses are added in order, in double, so the
// result does not depend on the number of threads.
#include <cmath>
#include <cstring>

#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/isa/kernels.h"
#include "model/backend/cpu/widen.h"

namespace isobar::cpu {
namespace {

template <class T>
T* row_of(const Classes& c, T* logits, int64_t row) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return static_cast<Byte*>(logits) + row * c.cols * size_of(c.act);
}

int64_t classes_in(const Classes& c) {
  return c.cols - c.padding;
}

float logit_at(const Classes& c, const void* row, int64_t column) {
  float out;
  in_f32(row, c.act, {column, column + 1}, [&](Range, const float* x) { out = *x; });
  return out;
}

float largest_of(const Classes& c, const void* logits, int64_t row) {
  return kernels().largest[of(c.act)](classes_in(c), row_of(c, logits, row));
}

double sum_of(const Classes& c, const void* logits, int64_t row, float largest) {
  return kernels().exponentials[of(c.act)](classes_in(c), row_of(c, logits, row), largest);
}

// True if no column before this one has the row's largest logit, as it has itself
bool first_largest(const Classes& c, const void* row, int64_t column, float largest) {
  if (!(logit_at(c, row, column) == largest)) return false;
  bool before = false;
  in_f32(row, c.act, {0, column}, [&](Range r, const float* x) {
    for (int64_t j = 0; j < r.end - r.begin; ++j) before |= x[j] == largest;
  });
  return !before;
}

// Column of the row's label; outside [0, cols) another rank holds it.
int64_t column_of(const Classes& c, const void* labels, int64_t row) {
  const int64_t label = c.labels == DType::i32 ? static_cast<const int32_t*>(labels)[row]
                                               : static_cast<int64_t>(static_cast<const float*>(labels)[row]);
  return label - c.column0;
}

template <class F>
void each_row(const Classes& c, const F& f) {
  parallel(c.rows * c.cols, [&](int t, int threads) {
    const Range mine = share(c.rows, t, threads);
    for (int64_t r = mine.begin; r < mine.end; ++r) f(r);
  });
}

}  // namespace

void cross_entropy_max(const Classes& c, const void* logits, float* largest) {
  each_row(c, [&](int64_t r) { largest[r] = largest_of(c, logits, r); });
}

void cross_entropy_sums(const Classes& c, const void* logits, const void* labels, const float* largest,
                        float* sums) {
  each_row(c, [&](int64_t r) {
    sums[r] = static_cast<float>(sum_of(c, logits, r, largest[r]));
    const int64_t label = column_of(c, labels, r);
    const bool here = 0 <= label && label < classes_in(c);
    sums[c.rows + r] = here ? logit_at(c, row_of(c, logits, r), label) - largest[r] : 0.0f;
  });
}

void cross_entropy(const Classes& c, const void* logits, const void* labels, const float* largest,
                   const float* sums, float weight, float slope, int64_t padding, void* dlogits, float* loss,
                   float* accuracy) {
  float* const right = scratch(c.rows);
  const int64_t size = size_of(c.act);
  each_row(c, [&](int64_t r) {
    const void* const x = row_of(c, logits, r);
    char* const d = static_cast<char*>(row_of(c, dlogits, r));
    const int64_t label = column_of(c, labels, r), n = classes_in(c);
    const bool here = 0 <= label && label < n;
    const float inverse = 1 / sums[r], at_label = here ? logit_at(c, x, label) : 0.0f;
    right[r] = accuracy && here && first_largest(c, x, label, largest[r]) ? 1.0f : 0.0f;
    kernels().softmax[of(c.act)](n, x, largest[r], slope * inverse, d);
    if (here) {
      const float less = slope * (std::exp(at_label - largest[r]) * inverse - 1.0f);
      kernels().cast[of(DType::f32)][of(c.act)](1, &less, d + label * size);
    }
    std::memset(d + n * size, 0, static_cast<size_t>(c.padding * size));
  });
  double loss_sum = 0, right_sum = 0;
  for (int64_t r = 0; r < c.rows - padding; ++r) {
    loss_sum += std::log(static_cast<double>(sums[r])) - static_cast<double>(sums[c.rows + r]);
    right_sum += static_cast<double>(right[r]);
  }
  *loss += static_cast<float>(static_cast<double>(weight) * loss_sum);
  if (accuracy) *accuracy += static_cast<float>(static_cast<double>(weight) * right_sum);
}

void softmax(int64_t rows, int64_t cols, const float* logits, float* weights) {
  const Classes c{rows, cols};
  each_row(c, [&](int64_t r) {
    const float largest = largest_of(c, logits, r);
    const auto inverse = static_cast<float>(1 / sum_of(c, logits, r, largest));
    kernels().softmax[of(DType::f32)](cols, logits + r * cols, largest, inverse, weights + r * cols);
  });
}

// ---- ops ----

namespace {

void run_cross_entropy(const CpuCall<plan::OpKind::cross_entropy>& c) {
  const float* const scalars = c.in("scalars");
  const bool scaled = c.type_in("logits") == DType::f16;  // fp16's loss is
  const float slope = scaled ? c.a.weight * (scalars ? scalars[plan::kLossScale] : 0.0f) : c.a.weight;
  float* const metrics = c.out("metrics");
  cross_entropy(classes_of(c, c.type_in("labels")), c.in("logits"), c.in("labels"), c.in("largest"),
                c.in("sums"), c.a.weight, slope, padding_of(scalars) * c.a.tokens, c.out("dlogits"), metrics,
                c.view_out("metrics").count > 1 ? metrics + 1 : nullptr);
}

}  // namespace

CpuRows class_ops() {
  static constexpr CpuRow kRows[] = {row<run_cross_entropy>};
  return kRows;
}

}  // namespace isobar::cpu
