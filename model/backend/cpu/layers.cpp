// Layers of small nets over many rows, for which a library's packing and prefilling of C with the bias cost
// more than they save. Bitwise equal to the library; larger weights (takes_layer) are left to it.
#include <algorithm>

#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {
namespace {

constexpr int64_t kTileRows = 6;                // of linear_rows' register tile
constexpr int64_t kRowsAtOnce = 8 * kTileRows;  // with the largest weights, a layer's data still fits in the
                                                // L1 cache

int64_t packed_floats(const Layer& l) {
  return (l.n + kQueryTile - 1) / kQueryTile * kQueryTile * l.k;  // whole cache lines, also of few outputs
}

// Applies all layers; `room`: for their packed weights and the rows between two layers
void through(int64_t m, std::span<const Layer> layers, const float* x, float* y, float* room) {
  const KernelTable& k = kernels();
  int64_t widest = 0;
  float* packed = room;
  for (const Layer& l : layers) {
    k.pack_linear(l.n, l.k, l.weight, packed);
    packed += packed_floats(l);
    widest = std::max(widest, l.n);
  }
  float* const between[2] = {packed, packed + kRowsAtOnce * widest};
  for (int64_t first = 0; first < m; first += kRowsAtOnce) {
    const int64_t rows = std::min(kRowsAtOnce, m - first);
    const float* from = x + first * layers.front().k;
    const float* columns = room;
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer& l = layers[i];
      float* const to = i + 1 == layers.size() ? y + first * l.n : between[i % 2];
      k.linear_rows(rows, l.n, l.k, from, columns, l.bias, to);
      if (l.activation) k.activation_forward[of(*l.activation)][of(DType::f32)](rows * l.n, to, to);
      columns += packed_floats(l);
      from = to;
    }
  }
}

}  // namespace

bool takes_layer(int64_t m, int64_t n, int64_t k) {
  return m >= 64 && (n % 16 == 0 || n <= kFewOutputs) && k <= kLinearTerms && n * k <= 64 * 128 &&
         current_isa() >= Isa::avx512;
}

void layers(int64_t m, std::span<const Layer> layers, const float* x, float* y) {
  int64_t outputs = 0, widest = 0, packed = 0;
  for (const Layer& l : layers) {
    outputs += l.n;
    widest = std::max(widest, l.n);
    packed += packed_floats(l);
  }
  parallel(m * outputs, [&](int t, int threads) {
    const Range rows = share(m, t, threads, kTileRows);
    if (rows.begin < rows.end)
      through(rows.end - rows.begin, layers, x + rows.begin * layers.front().k,
              y + rows.begin * layers.back().n, scratch(packed + 2 * kRowsAtOnce * widest));
  });
}

}  // namespace isobar::cpu
