// Elementwise passes, strided copies and column sums.
#include <cstring>

#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"
#include "model/backend/cpu/widen.h"

namespace isobar::cpu {
namespace {

constexpr int64_t kGrain = 64;    // elements: threads split on cache lines
constexpr int64_t kRowGrain = 8;  // rows: the blocks of rows.h

const char* at(const void* p, DType t, int64_t i) {
  return static_cast<const char*>(p) + i * size_of(t);
}
char* at(void* p, DType t, int64_t i) {
  return static_cast<char*>(p) + i * size_of(t);
}

int64_t padded(int64_t cols) {
  return (cols + 15) / 16 * 16;
}

// Runs rows_of(range, partial column sums) on every thread, then adds the partials in thread order to `sum`
template <class RowsOf>
void with_column_sums(int64_t rows, int64_t cols, float* sum, bool accumulate, const RowsOf& rows_of) {
  const int64_t stride = padded(cols);
  float* partials = scratch(threads_for(rows * cols) * stride);
  parallel(rows * cols, [&](int t, int threads) {
    rows_of(share(rows, t, threads, kRowGrain), partials + t * stride);
    if (sum == nullptr) return;
    barrier();
    sum_parts(partials, stride, threads, share(cols, t, threads, kGrain), sum, accumulate);
  });
}

}  // namespace

void activation_forward(Activation f, int64_t n, DType act, const void* u, void* g) {
  const auto kernel = kernels().activation_forward[of(f)][of(act)];
  parallel(n, [&](int t, int threads) {
    const Range r = share(n, t, threads, kGrain);
    kernel(r.end - r.begin, at(u, act, r.begin), at(g, act, r.begin));
  });
}

void activation_backward(Activation f, int64_t rows, int64_t cols, DType act, const void* u, const void* dg,
                         void* du, float* dbias, bool accumulate) {
  const auto kernel = kernels().activation_backward[of(f)][of(act)];
  with_column_sums(rows, cols, dbias, accumulate, [&](Range r, float* sums) {
    const int64_t i = r.begin * cols;
    kernel(r.end - r.begin, cols, at(u, act, i), at(dg, act, i), at(du, act, i), sums);
  });
}

void column_sum(int64_t rows, int64_t cols, DType t, const void* x, float* sum, bool accumulate) {
  const auto kernel = kernels().column_sum[of(t)];
  with_column_sums(rows, cols, sum, accumulate, [&](Range r, float* sums) {
    kernel(r.end - r.begin, cols, at(x, t, r.begin * cols), sums);
  });
}

void period_sum(int64_t rows, int64_t cols, int64_t period, int64_t row0, const float* dx, float* dpos,
                bool accumulate) {
  const KernelTable& k = kernels();
  parallel(rows * cols, [&](int t, int threads) {
    const Range range = share(period, t, threads);
    for (int64_t i = range.begin; i < range.end; ++i) {
      float* sum = dpos + i * cols;
      const int64_t first = (i - row0 % period + period) % period;  // row that falls on position i
      if (!accumulate && first < rows) std::memcpy(sum, dx + first * cols, cols * sizeof(float));
      if (!accumulate && first >= rows) std::memset(sum, 0, cols * sizeof(float));
      for (int64_t r = accumulate ? first : first + period; r < rows; r += period)
        k.add(cols, dx + r * cols, sum);
    }
  });
}

void copy(const Copy& c, const void* x, void* y) {
  const int64_t elements = c.extent[0] * c.extent[1] * c.extent[2] * c.n;
  parallel(elements, [&](int t, int threads) {
    // shares of elements, so that one long block is also split
    const Range mine = share(elements, t, threads, kGrain);
    for (int64_t i = mine.begin; i < mine.end;) {
      const int64_t block = i / c.n, within = i % c.n;
      const int64_t length = std::min(c.n - within, mine.end - i);
      const int64_t index[3] = {block / c.extent[2] / c.extent[1], block / c.extent[2] % c.extent[1],
                                block % c.extent[2]};
      int64_t from = within, to = within;
      for (int d = 0; d < 3; ++d) {
        from += index[d] * c.from[d];
        to += index[d] * c.to[d];
      }
      std::memcpy(at(y, c.t, to), at(x, c.t, from), length * size_of(c.t));
      i += length;
    }
  });
}

void cast(int64_t n, DType from, DType to, const void* x, void* y) {
  const auto kernel = kernels().cast[of(from)][of(to)];
  parallel(n, [&](int t, int threads) {
    const Range r = share(n, t, threads, kGrain);
    kernel(r.end - r.begin, at(x, from, r.begin), at(y, to, r.begin));
  });
}

void cast_add(int64_t n, DType from, DType to, const void* x, void* y) {
  const KernelTable& k = kernels();
  parallel(n, [&](int t, int threads) {
    in_f32(x, from, share(n, t, threads, kGrain), [&](Range r, const float* part) {
      const int64_t m = r.end - r.begin;
      if (to == DType::f32) return k.add(m, part, static_cast<float*>(y) + r.begin);
      float sum[kBlock];
      for (int64_t i = 0; i < m; i += kBlock) {
        const int64_t block = std::min(kBlock, m - i);
        k.cast[of(to)][of(DType::f32)](block, at(y, to, r.begin + i), sum);
        k.add(block, part + i, sum);
        k.cast[of(DType::f32)][of(to)](block, sum, at(y, to, r.begin + i));
      }
    });
  });
}

void round_tf32(int64_t n, const float* x, float* y) {
  const KernelTable& k = kernels();
  parallel(n, [&](int t, int threads) {
    const Range r = share(n, t, threads, kGrain);
    k.round_tf32(r.end - r.begin, x + r.begin, y + r.begin);
  });
}

void add(int64_t n, const float* x, float* y) {
  const KernelTable& k = kernels();
  parallel(n, [&](int t, int threads) {
    const Range r = share(n, t, threads, kGrain);
    k.add(r.end - r.begin, x + r.begin, y + r.begin);
  });
}

void normalise(int64_t n, const float* x, const float* mean, const float* std, float* y) {
  kernels().normalise(n, x, mean, std, y);
}

double squared_sum(int64_t n, const void* x, DType type) {
  // runs of fixed length: the summation tree does not depend on the number of threads
  constexpr int64_t kRun = 1 << 16;
  const KernelTable& k = kernels();
  const int64_t runs = (n + kRun - 1) / kRun;
  double* partial = reinterpret_cast<double*>(scratch(2 * runs));
  parallel(n, [&](int t, int threads) {
    const Range r = share(runs, t, threads);
    for (int64_t i = r.begin; i < r.end; ++i) {
      partial[i] = 0;
      in_f32(x, type, {i * kRun, std::min(n, (i + 1) * kRun)}, [&](Range part, const float* values) {
        partial[i] += k.squared_sum(part.end - part.begin, values);
      });
    }
  });
  double total = 0;
  for (int64_t i = 0; i < runs; ++i) total += partial[i];
  return total;
}

// ---- ops ----

namespace {

void run_zero(const CpuCall<plan::OpKind::zero>& c) {
  std::memset(c.out("x"), 0, c.view_out("x").count * size_of(c.type_out("x")));
}

void run_cast(const CpuCall<plan::OpKind::cast>& c) {
  const auto run = c.a.accumulate ? cast_add : cast;
  run(c.a.count, c.type_in("x"), c.type_out("y"), c.in("x"), c.out("y"));
}

void run_copy(const CpuCall<plan::OpKind::copy>& c) {
  if (c.op.lane != plan::Lane::compute) {  // other lanes must not use the compute lane's threads
    std::memcpy(c.out("y"), c.in("x"), c.view_in("x").count * size_of(c.type_in("x")));
    return;
  }
  copy(copy_of(c.a, c.type_in("x")), c.in("x"), c.out("y"));
}

void run_squared_sum(const CpuCall<plan::OpKind::squared_sum>& c) {
  float* const sum = c.out("sum");
  const double before = c.a.accumulate ? static_cast<double>(*sum) : 0.0;
  *sum = static_cast<float>(squared_sum(c.a.count, c.in("x"), c.type_in("x")) + before);
}

}  // namespace

CpuRows pointwise_ops() {
  static constexpr CpuRow kRows[] = {row<run_zero>, row<run_cast>, row<run_copy>, row<run_squared_sum>};
  return kRows;
}

}  // namespace isobar::cpu
