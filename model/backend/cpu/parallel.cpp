#include "model/backend/cpu/parallel.h"

#include <memory>
#include <new>

namespace isobar::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};
struct Free {
  void operator()(float* p) const { ::operator delete(p, kAlignment); }
};

}  // namespace

float* scratch(int64_t floats) {
  thread_local std::unique_ptr<float, Free> buffer;
  thread_local int64_t size = 0;
  if (floats > size) {
    buffer.reset();
    size = 0;
    buffer.reset(static_cast<float*>(::operator new(floats * sizeof(float), kAlignment)));
    size = floats;
  }
  return buffer.get();
}

void sum_parts(const float* parts, int64_t stride, int count, Range columns, float* out, bool accumulate) {
  for (int64_t j = columns.begin; j < columns.end; ++j) {
    float sum = parts[j];
    for (int i = 1; i < count; ++i) sum += parts[i * stride + j];
    out[j] = accumulate ? out[j] + sum : sum;
  }
}

}  // namespace isobar::cpu
