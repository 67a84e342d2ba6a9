// Merges attention over two sets of keys: softmax weights scale by exp(lse of the part - lse of both).
#include <cmath>

#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/isa/kernels.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {
namespace {

float as_float(float x) {
  return x;
}
template <class T>
float as_float(T x) {
  return to_float(x);
}

template <class T>
void merge(const Attention& a, bool first, const T* o, const float* lse, float* o_sum, float* lse_sum) {
  const int64_t rows = a.batch * a.tq;
  parallel(rows * a.heads * a.d, [&](int t, int threads) {
    const Range mine = share(rows, t, threads);
    for (int64_t r = mine.begin; r < mine.end; ++r)
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t stat = (r / a.tq * a.heads + h) * a.tq + r % a.tq, at = r * a.ld_o + h * a.d;
        float old_weight = 0, weight = 1, both = lse[stat];
        if (!first) {
          const float top = std::max(lse[stat], lse_sum[stat]);
          both = top + std::log(std::exp(lse[stat] - top) + std::exp(lse_sum[stat] - top));
          old_weight = std::exp(lse_sum[stat] - both);
          weight = std::exp(lse[stat] - both);
        }
        lse_sum[stat] = both;
        if (first)  // the sum is uninitialised, perhaps NaN
          for (int64_t c = 0; c < a.d; ++c) o_sum[at + c] = as_float(o[at + c]);
        else
          for (int64_t c = 0; c < a.d; ++c)
            o_sum[at + c] = old_weight * o_sum[at + c] + weight * as_float(o[at + c]);
      }
  });
}

}  // namespace

void attention_merge(const Attention& a, bool first, const void* o, const float* lse, float* o_sum,
                     float* lse_sum) {
  if (a.act == DType::f32)
    merge(a, first, static_cast<const float*>(o), lse, o_sum, lse_sum);
  else if (a.act == DType::f16)
    merge(a, first, static_cast<const f16*>(o), lse, o_sum, lse_sum);
  else
    merge(a, first, static_cast<const bf16*>(o), lse, o_sum, lse_sum);
}

// ---- ops ----

namespace {

void run_attention_merge(const CpuCall<plan::OpKind::attention_merge>& c) {
  attention_merge(attention_of(c.a.of, c.type_in("o")), c.a.first, c.in("o"), c.in("lse"), c.out("o"),
                  c.out("lse"));
}

}  // namespace

CpuRows attention_merge_ops() {
  static constexpr CpuRow kRows[] = {row<run_attention_merge>};
  return kRows;
}

}  // namespace isobar::cpu
