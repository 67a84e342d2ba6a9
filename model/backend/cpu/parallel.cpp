#include "model/backend/cpu/parallel.h"

#include <vector>

namespace isobar::cpu {

void prepare_threads() {
  thread_local int prepared = 0;
  flush_denormals();
  const int threads = omp_get_max_threads();
  if (prepared >= threads) return;
  on_threads(threads, [](int, int) {});
  prepared = threads;
}

float* scratch(int64_t floats) {
  constexpr int64_t kLine = 16;  // floats in a cache line
  thread_local std::vector<float> buffer;
  if (static_cast<int64_t>(buffer.size()) < floats + kLine) {
    std::vector<float>().swap(buffer);  // frees the old buffer before the new one is allocated
    buffer.resize(floats + kLine);
  }
  const auto address = reinterpret_cast<uintptr_t>(buffer.data());
  return buffer.data() + (kLine - address / sizeof(float) % kLine) % kLine;
}

void sum_parts(const float* parts, int64_t stride, int count, Range columns, float* out, bool accumulate) {
  for (int64_t j = columns.begin; j < columns.end; ++j) {
    float sum = parts[j];
    for (int i = 1; i < count; ++i) sum += parts[i * stride + j];
    out[j] = accumulate ? out[j] + sum : sum;
  }
}

}  // namespace isobar::cpu
