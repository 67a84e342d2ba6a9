// Embedding of words: threads own rows forward. Backward they own columns and add rows in order, so that the
// number of threads does not matter.
#include <cstring>

#include "model/backend/cpu/isa/kernels.h"
#include "model/backend/cpu/widen.h"

namespace isobar::cpu {
namespace {

constexpr int64_t kColumnGrain = 16;  // columns: a cache line of f32

// sum [cols] += the row's part `columns` of dx
void add_row(const Embedding& p, const void* dx, int64_t row, Range columns, float* sum) {
  const int64_t first = row * p.cols;
  in_f32(dx, p.act, {first + columns.begin, first + columns.end}, [&](Range r, const float* values) {
    kernels().add(r.end - r.begin, values, sum + (r.begin - first));
  });
}

void clear(float* table, int64_t rows, int64_t cols, Range columns) {
  for (int64_t i = 0; i < rows; ++i)
    std::fill(table + i * cols + columns.begin, table + i * cols + columns.end, 0.0f);
}

}  // namespace

void embedding(const Embedding& p, const int32_t* words, const void* table, const void* positions, void* x) {
  const KernelTable& k = kernels();
  const auto at = [&](const void* of, int64_t i) {
    return static_cast<const char*>(of) + i * size_of(p.table);
  };
  parallel(p.rows * p.cols, [&](int t, int threads) {
    const Range mine = share(p.rows, t, threads);
    float sum[kBlock];
    for (int64_t r = mine.begin; r < mine.end; ++r) {
      const int64_t word = words[r] - p.first, position = p.tokens.place(r % p.tokens.size());
      const bool held = word >= 0 && word < p.words;
      for (int64_t j = 0; j < p.cols; j += kBlock) {
        const int64_t n = std::min(kBlock, p.cols - j);
        std::fill_n(sum, n, 0.0f);
        if (held) k.cast[of(p.table)][of(DType::f32)](n, at(table, word * p.cols + j), sum);
        if (positions != nullptr)
          in_f32(positions, p.table, {position * p.cols + j, position * p.cols + j + n},
                 [&](Range, const float* values) { k.add(n, values, sum); });
        k.cast[of(DType::f32)][of(p.act)](n, sum, static_cast<char*>(x) + (r * p.cols + j) * size_of(p.act));
      }
    }
  });
}

void embedding_backward(const Embedding& p, const int32_t* words, const void* dx, float* dtable,
                        float* dpositions, int64_t positions, AddsTo adds) {
  parallel(p.rows * p.cols, [&](int t, int threads) {
    const Range columns = share(p.cols, t, threads, kColumnGrain);
    if (columns.begin == columns.end) return;
    if (!adds.table && dtable != nullptr) clear(dtable, p.words, p.cols, columns);
    if (!adds.positions && dpositions != nullptr) clear(dpositions, positions, p.cols, columns);
    for (int64_t r = 0; r < p.rows; ++r) {
      const int64_t word = words[r] - p.first, position = p.tokens.place(r % p.tokens.size());
      if (dtable != nullptr && word >= 0 && word < p.words)
        add_row(p, dx, r, columns, dtable + word * p.cols);
      if (dpositions != nullptr) add_row(p, dx, r, columns, dpositions + position * p.cols);
    }
  });
}

}  // namespace isobar::cpu
