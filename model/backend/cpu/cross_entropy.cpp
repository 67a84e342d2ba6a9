// Softmax and its cross-entropy: rows are shared by threads and read in blocks as f32 (widen.h). Row losses
// are added in order, in double, so the result does not depend on the number of threads.
#include <cmath>
#include <cstring>

#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/kernels.h"
#include "model/backend/cpu/widen.h"

namespace isobar::cpu {
namespace {

// f(first column, count, values) for the row's logits of classes as f32, in order
template <class F>
void over_row(const Classes& c, const void* logits, int64_t row, const F& f) {
  in_f32(logits, c.act, {row * c.cols, (row + 1) * c.cols - c.padding},
         [&](Range r, const float* x) { f(r.begin - row * c.cols, r.end - r.begin, x); });
}

float largest_of(const Classes& c, const void* logits, int64_t row) {
  float most = -INFINITY;
  bool nan = false;
  over_row(c, logits, row, [&](int64_t, int64_t n, const float* x) {
    for (int64_t j = 0; j < n; ++j) {
      most = x[j] > most ? x[j] : most;
      nan |= std::isnan(x[j]);
    }
  });
  return nan ? NAN : most;
}

double sum_of(const Classes& c, const void* logits, int64_t row, float largest) {
  double sum = 0;
  over_row(c, logits, row, [&](int64_t, int64_t n, const float* x) {
    for (int64_t j = 0; j < n; ++j) sum += static_cast<double>(std::exp(x[j] - largest));
  });
  return sum;
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
    sums[c.rows + r] = 0;
    over_row(c, logits, r, [&](int64_t first, int64_t n, const float* x) {
      if (first <= label && label < first + n) sums[c.rows + r] = x[label - first] - largest[r];
    });
  });
}

void cross_entropy(const Classes& c, const void* logits, const void* labels, const float* largest,
                   const float* sums, float weight, float slope, int64_t padding, void* dlogits, float* loss,
                   float* accuracy) {
  float* const right = scratch(c.rows);
  const int64_t size = size_of(c.act);
  each_row(c, [&](int64_t r) {
    const int64_t label = column_of(c, labels, r);
    const float inverse = 1 / sums[r];
    int64_t best = -1;
    over_row(c, logits, r, [&](int64_t first, int64_t n, const float* x) {
      float d[kBlock];  // f32 rows are passed whole
      for (int64_t from = 0; from < n; from += kBlock) {
        const int64_t count = std::min(kBlock, n - from);
        for (int64_t j = 0; j < count; ++j) {
          const int64_t column = first + from + j;
          if (best < 0 && x[from + j] == largest[r]) best = column;
          const float p = std::exp(x[from + j] - largest[r]) * inverse;
          d[j] = slope * (p - (column == label ? 1.0f : 0.0f));
        }
        kernels().cast[of(DType::f32)][of(c.act)](
            count, d, static_cast<char*>(dlogits) + (r * c.cols + first + from) * size);
      }
    });
    std::memset(static_cast<char*>(dlogits) + ((r + 1) * c.cols - c.padding) * size, 0,
                static_cast<size_t>(c.padding * size));
    right[r] = best == label ? 1.0f : 0.0f;
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
    const double sum = sum_of(c, logits, r, largest);
    for (int64_t j = r * cols; j < (r + 1) * cols; ++j)
      weights[j] = static_cast<float>(static_cast<double>(std::exp(logits[j] - largest)) / sum);
  });
}

// ---- ops ----

namespace {

template <OpKind K>
Classes classes_of(const CpuCall<K>& c, DType labels = DType::f32) {
  return {c.a.rows, c.a.cols, c.type_in("logits"), labels, c.a.column0, c.a.padding};
}

void run_cross_entropy_max(const CpuCall<OpKind::cross_entropy_max>& c) {
  cross_entropy_max(classes_of(c), c.in("logits"), c.out("largest"));
}

void run_cross_entropy_sums(const CpuCall<OpKind::cross_entropy_sums>& c) {
  cross_entropy_sums(classes_of(c, c.type_in("labels")), c.in("logits"), c.in("labels"), c.in("largest"),
                     c.out("sums"));
}

void run_cross_entropy(const CpuCall<OpKind::cross_entropy>& c) {
  const float* const scalars = c.in("scalars");
  const bool scaled = c.type_in("logits") == DType::f16;  // fp16's loss is
  const float slope = scaled ? c.a.weight * (scalars ? scalars[kLossScale] : 0.0f) : c.a.weight;
  float* const metrics = c.out("metrics");
  cross_entropy(classes_of(c, c.type_in("labels")), c.in("logits"), c.in("labels"), c.in("largest"),
                c.in("sums"), c.a.weight, slope, padding_of(scalars) * c.a.tokens, c.out("dlogits"), metrics,
                c.view_out("metrics").count > 1 ? metrics + 1 : nullptr);
}

}  // namespace

CpuRows class_ops() {
  static constexpr CpuRow kRows[] = {row<run_cross_entropy_max>, row<run_cross_entropy_sums>,
                                     row<run_cross_entropy>};
  return kRows;
}

}  // namespace isobar::cpu
