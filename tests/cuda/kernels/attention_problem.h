// Problems of attention for tests of kernels, and softmax and its gradients in double.
#pragma once
#include <string>
#include <vector>

#include "tests/cuda/kernels/kernel_check.h"

// Beside the emulator a card without Hopper's instructions cannot run what is tested.
#ifdef ISOBAR_EMULATED
#define ISOBAR_NEEDS_HOPPER() (void)0
#else
#define ISOBAR_NEEDS_HOPPER() \
  ISOBAR_NEEDS_KERNELS();     \
  if (use_device("the test", 0).major != 9) GTEST_SKIP() << "needs a GPU of compute capability 9.0"
#endif

namespace isobar::cuda::testing {

struct Shape {
  int64_t batch, heads, kv_heads, tq, tk, d, pad;
  bool causal, tf32;
  float last_counts = 1;  // multiplicity of the last key
  bool biased = false;
  int64_t window = 0;
};

struct Problem {
  Attention a;
  Buffer q, k, v, d_o, bias;  // bias [heads, tk, tq], or a number that is not read
  Problem(const Shape& s, DType act, Random& random)
      : a{s.batch,
          s.heads,
          s.kv_heads,
          s.tq,
          s.tk,
          s.d,
          1 / std::sqrt(static_cast<float>(s.d)),
          s.causal,
          act,
          s.heads * s.d + s.pad,
          s.kv_heads * s.d + 2 * s.pad,
          s.heads * s.d + s.pad,
          s.tf32,
          false,
          std::log(s.last_counts) * std::sqrt(static_cast<float>(s.d)),
          -1,
          s.window,
          s.biased},
        q(random.buffer(act, s.batch * s.tq * a.ld_q)),
        k(random.buffer(act, s.batch * s.tk * a.ld_kv)),
        v(random.buffer(act, s.batch * s.tk * a.ld_kv)),
        d_o(random.buffer(act, s.batch * s.tq * a.ld_o)),
        bias(random.buffer(DType::f32, s.biased ? s.heads * s.tk * s.tq : 1)) {}
  cpu::Attention cpu() const {
    return {a.batch,  a.heads, a.kv_heads, a.tq,    a.tk,   a.d,   a.scale,
            a.causal, a.act,   a.ld_q,     a.ld_kv, a.ld_o, a.tf32};
  }
  int64_t rows() const { return a.batch * a.heads * a.tq; }
};

// softmax(q k' scale) v and its gradients, element by element
struct Reference {
  std::vector<double> o, lse, dq, dk, dv, dbias;
  // Squares of the terms of dq and dk before dp and delta, which round, cancel: what errors are relative to
  std::vector<double> dq_terms, dk_terms;
  explicit Reference(const Problem& x) {
    const Attention& a = x.a;
    o.assign(static_cast<size_t>(a.batch * a.tq * a.ld_o), 0);
    dq.assign(static_cast<size_t>(a.batch * a.tq * a.ld_q), 0);
    dk.assign(static_cast<size_t>(a.batch * a.tk * a.ld_kv), 0);
    dv = dk_terms = dk;
    dq_terms = dq;
    dbias.assign(static_cast<size_t>(x.bias.size()), 0);
    std::vector<double> p(static_cast<size_t>(a.tk)), dp(p);
    for (int64_t b = 0; b < a.batch; ++b)
      for (int64_t h = 0; h < a.heads; ++h)
        for (int64_t i = 0; i < a.tq; ++i) {
          const int64_t kv_head = h / (a.heads / a.kv_heads);
          const int64_t qi = (b * a.tq + i) * a.ld_q + h * a.d, oi = (b * a.tq + i) * a.ld_o + h * a.d;
          const auto kj = [&](int64_t j) { return (b * a.tk + j) * a.ld_kv + kv_head * a.d; };
          const int64_t seen = a.causal ? std::clamp<int64_t>(i + 1 + a.tk - a.tq, 0, a.tk) : a.tk;
          const int64_t first =
              a.window > 0 ? std::clamp<int64_t>(i + 1 + a.tk - a.tq - a.window, 0, a.tk) : 0;
          double sum = 0, delta = 0;
          for (int64_t j = first; j < seen; ++j) {
            double s = 0;
            for (int64_t e = 0; e < a.d; ++e) s += x.q[qi + e] * x.k[kj(j) + e];
            if (j + 1 == a.tk) s += static_cast<double>(a.last_more);
            const double bias = a.biased ? x.bias[(h * a.tk + j) * a.tq + i] : 0;
            p[j] = std::exp(s * static_cast<double>(a.scale) + bias);
            sum += p[j];
          }
          lse.push_back(std::log(sum));
          for (int64_t j = first; j < seen; ++j) {
            p[j] /= sum;
            dp[j] = 0;
            for (int64_t e = 0; e < a.d; ++e) {
              o[oi + e] += p[j] * x.v[kj(j) + e];
              dp[j] += x.d_o[oi + e] * x.v[kj(j) + e];
            }
            delta += p[j] * dp[j];
          }
          for (int64_t j = first; j < seen; ++j) {
            if (a.biased) dbias[(h * a.tk + j) * a.tq + i] += p[j] * (dp[j] - delta);
            const double ds = p[j] * (dp[j] - delta) * static_cast<double>(a.scale);
            const double terms = p[j] * (std::abs(dp[j]) + std::abs(delta)) * static_cast<double>(a.scale);
            for (int64_t e = 0; e < a.d; ++e) {
              dq_terms[qi + e] += std::pow(terms * x.k[kj(j) + e], 2);
              dk_terms[kj(j) + e] += std::pow(terms * x.q[qi + e], 2);
              dq[qi + e] += ds * x.k[kj(j) + e];
              dk[kj(j) + e] += ds * x.q[qi + e];
              dv[kj(j) + e] += p[j] * x.d_o[oi + e];
            }
          }
        }
  }
};

// Compares the heads' columns; gaps between them must still be NaN. `terms`: squares of what was summed,
// where it cancels
inline void expect_heads(const Buffer& got, const std::vector<double>& want, int64_t rows, int64_t columns,
                         int64_t ld, double tolerance, const std::string& what,
                         const std::vector<double>* terms = nullptr) {
  double error = 0, size = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < ld; ++c) {
      const double x = got[r * ld + c], y = want[static_cast<size_t>(r * ld + c)];
      if (c >= columns) {
        EXPECT_TRUE(std::isnan(x)) << what << ": column " << c << " is not a head's";
        continue;
      }
      error += (x - y) * (x - y);
      size += terms ? std::max(y * y, (*terms)[static_cast<size_t>(r * ld + c)]) : y * y;
    }
  EXPECT_TRUE(std::sqrt(error / size) <= tolerance) << what << ": off by " << std::sqrt(error / size);
}

}  // namespace isobar::cuda::testing
