// Mixtures of experts: threads own rows, samples or columns, and sums run in the order of rows, so that the
// number of threads does not matter.
#include <algorithm>
#include <cmath>
#include <vector>

#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/widen.h"

namespace isobar::cpu {
namespace {

// The `top` largest logits, of equal ones the first. Not a number is never larger, so that rows of such
// logits have experts too.
void choose(const Route& r, const float* logits, int32_t* chosen) {
  const auto taken = [&](int64_t e, int64_t before) {
    return std::find(chosen, chosen + before, static_cast<int32_t>(e)) != chosen + before;
  };
  for (int64_t j = 0; j < r.top; ++j) {
    int64_t best = -1;
    for (int64_t e = 0; e < r.experts; ++e)
      if (!taken(e, j) && (best < 0 || logits[e] > logits[best])) best = e;
    chosen[j] = static_cast<int32_t>(best);
  }
}

// Copies in the order of experts, by counting
void sort(const Route& r, const Routing& to) {
  const int64_t copies = r.rows * r.top;
  std::fill_n(to.offsets, r.experts + 1, 0);
  for (int64_t i = 0; i < copies; ++i) ++to.offsets[to.chosen[i] + 1];
  for (int64_t e = 0; e < r.experts; ++e) to.offsets[e + 1] += to.offsets[e];
  std::vector<int32_t> next(to.offsets, to.offsets + r.experts);
  for (int64_t i = 0; i < copies; ++i) {
    const int32_t at = next[static_cast<size_t>(to.chosen[i])]++;
    to.place[i] = at;
    to.order[at] = static_cast<int32_t>(i / r.top);
  }
}

void weigh(const Route& r, const float* logits, int64_t row, const Routing& to) {
  const int32_t *chosen = to.chosen + row * r.top, *place = to.place + row * r.top;
  float sum = 1, least = to.lse[row];
  if (r.normalised) {
    sum = 0, least = logits[chosen[0]];
    for (int64_t j = 0; j < r.top; ++j) sum += std::exp(logits[chosen[j]] - least);
  }
  for (int64_t j = 0; j < r.top; ++j) to.weights[place[j]] = std::exp(logits[chosen[j]] - least) / sum;
}

void sum_sample(const Route& r, const float* logits, int64_t sample, const Routing& to,
                float* probabilities) {
  float *const counts = to.sums + 2 * sample * r.experts, *const sums = counts + r.experts;
  std::fill_n(counts, 2 * r.experts, 0.0f);
  for (int64_t row = sample * r.tokens; row < (sample + 1) * r.tokens; ++row) {
    kernels().softmax[of(DType::f32)](r.experts, logits + row * r.experts, to.lse[row], 1, probabilities);
    kernels().add(r.experts, probabilities, sums);
    for (int64_t j = 0; j < r.top; ++j) counts[to.chosen[row * r.top + j]] += 1;
  }
}

}  // namespace

void route(const Route& r, const float* logits, const Routing& to) {
  const KernelTable& k = kernels();
  parallel(r.rows * r.experts, [&](int t, int threads) {
    const Range mine = share(r.rows, t, threads);
    for (int64_t row = mine.begin; row < mine.end; ++row) {
      const float* const own = logits + row * r.experts;
      const float largest = k.largest[of(DType::f32)](r.experts, own);
      to.lse[row] =
          largest + static_cast<float>(std::log(k.exponentials[of(DType::f32)](r.experts, own, largest)));
      choose(r, own, to.chosen + row * r.top);
    }
  });
  sort(r, to);
  parallel(r.rows * r.experts, [&](int t, int threads) {
    const Range mine = share(r.rows, t, threads), samples = share(r.rows / r.tokens, t, threads);
    for (int64_t row = mine.begin; row < mine.end; ++row) weigh(r, logits + row * r.experts, row, to);
    float* const probabilities = scratch(r.experts);
    for (int64_t s = samples.begin; s < samples.end; ++s) sum_sample(r, logits, s, to, probabilities);
  });
}

namespace {

// Shares of a sample's copies, times the number of experts
float share_of(const Route& r, const float* counts, int64_t expert) {
  return counts[expert] * static_cast<float>(r.experts) / static_cast<float>(r.top * r.sample);
}

// Slopes [experts] by a row's probabilities become those by its logits.
void through_softmax(const Route& r, const float* probabilities, float* slopes) {
  float mean = 0;
  for (int64_t e = 0; e < r.experts; ++e) mean += probabilities[e] * slopes[e];
  for (int64_t e = 0; e < r.experts; ++e) slopes[e] = probabilities[e] * (slopes[e] - mean);
}

}  // namespace

void route_backward(const Route& r, const float* logits, const Routing& routing, const float* dweights,
                    float scale, int64_t padding, DType act, void* dlogits) {
  const KernelTable& k = kernels();
  const int64_t counted = r.rows - padding * r.tokens;
  parallel(r.rows * r.experts, [&](int t, int threads) {
    const Range mine = share(r.rows, t, threads);
    float *const probabilities = scratch(2 * r.experts), *const slopes = probabilities + r.experts;
    for (int64_t row = mine.begin; row < mine.end; ++row) {
      const int32_t *chosen = routing.chosen + row * r.top, *place = routing.place + row * r.top;
      const float* const counts = routing.sums + 2 * (row / r.tokens) * r.experts;
      const bool counts_here = row < counted;
      k.softmax[of(DType::f32)](r.experts, logits + row * r.experts, routing.lse[row], 1, probabilities);
      const float even = counts_here ? scale * r.balance / static_cast<float>(r.sample) : 0;
      for (int64_t e = 0; e < r.experts; ++e) slopes[e] = even == 0 ? 0 : even * share_of(r, counts, e);
      if (!r.normalised)
        for (int64_t j = 0; j < r.top; ++j) slopes[chosen[j]] += dweights[place[j]];
      through_softmax(r, probabilities, slopes);
      const float z = counts_here ? 2 * scale * r.z * routing.lse[row] : 0;
      for (int64_t e = 0; z != 0 && e < r.experts; ++e) slopes[e] += z * probabilities[e];
      float mean = 0;
      for (int64_t j = 0; r.normalised && j < r.top; ++j)
        mean += routing.weights[place[j]] * dweights[place[j]];
      for (int64_t j = 0; r.normalised && j < r.top; ++j)
        slopes[chosen[j]] += routing.weights[place[j]] * (dweights[place[j]] - mean);
      k.cast[of(DType::f32)][of(act)](r.experts, slopes,
                                      static_cast<char*>(dlogits) + row * r.experts * size_of(act));
    }
  });
}

void router_metrics(const Route& r, const float* sums, float weight, int64_t padding, float* metrics) {
  double imbalance = 0, balance = 0;
  for (int64_t s = 0; s < r.rows / r.tokens - padding; ++s) {
    const float *const counts = sums + 2 * s * r.experts, *const probabilities = counts + r.experts;
    float largest = 0;
    for (int64_t e = 0; e < r.experts; ++e) {
      const float part = share_of(r, counts, e);
      largest = std::max(largest, part);
      balance +=
          static_cast<double>(part) * static_cast<double>(probabilities[e]) / static_cast<double>(r.sample);
    }
    imbalance += static_cast<double>(largest);
  }
  metrics[0] += static_cast<float>(static_cast<double>(weight) * imbalance);
  metrics[1] += static_cast<float>(static_cast<double>(weight) * balance);
}

void combine(int64_t rows, int64_t cols, int64_t top, DType act, const void* x, const int32_t* place,
             void* y) {
  const KernelTable& k = kernels();
  parallel(rows * cols * top, [&](int t, int threads) {
    const Range mine = share(rows, t, threads);
    float sum[kBlock];
    for (int64_t r = mine.begin; r < mine.end; ++r)
      for (int64_t j = 0; j < cols; j += kBlock) {
        const int64_t n = std::min(kBlock, cols - j);
        std::fill_n(sum, n, 0.0f);
        for (int64_t i = 0; i < top; ++i) {
          const int64_t from = place[r * top + i] * cols + j;
          in_f32(x, act, {from, from + n}, [&](Range part, const float* values) {
            k.add(part.end - part.begin, values, sum + (part.begin - from));
          });
        }
        k.cast[of(DType::f32)][of(act)](n, sum, static_cast<char*>(y) + (r * cols + j) * size_of(act));
      }
  });
}

// ---- ops ----

namespace {

Route route_of(const RouteAttrs& a) {
  return {a.rows, a.cols, a.top, a.tokens, a.sample, a.normalised, a.balance, a.z};
}

void run_route(const CpuCall<OpKind::route>& c) {
  route(route_of(c.a), c.in("logits"),
        {c.out("order"), c.out("place"), c.out("chosen"), c.out("offsets"), c.out("weights"), c.out("lse"),
         c.out("sums")});
}

void run_route_backward(const CpuCall<OpKind::route_backward>& c) {
  const float* const scalars = c.in("scalars");
  const DType act = c.type_out("dlogits");
  const Routing routing{.order = nullptr,
                        .place = c.in("place"),
                        .chosen = c.in("chosen"),
                        .offsets = nullptr,
                        .weights = c.in("weights"),
                        .lse = c.in("lse"),
                        .sums = c.in("sums")};
  const float scale = act == DType::f16 && scalars ? scalars[kLossScale] : 1;
  route_backward(route_of(c.a), c.in("logits"), routing, c.in("dweights"), scale, padding_of(scalars), act,
                 c.out("dlogits"));
}

void run_router_metrics(const CpuCall<OpKind::router_metrics>& c) {
  router_metrics(route_of(c.a), c.in("sums"), c.a.weight, padding_of(c.in("scalars")), c.out("metrics"));
}

// An expert's copies of all ranks come together.
void run_expert_offsets(const CpuCall<OpKind::expert_offsets>& c) {
  const int32_t* const all = c.in("all");
  int32_t* const offsets = c.out("offsets");
  offsets[0] = 0;
  for (int64_t e = 0; e < c.a.held; ++e) {
    offsets[e + 1] = offsets[e];
    for (int64_t r = 0; r < c.a.ranks; ++r) {
      const int32_t* const of_rank = all + r * (c.a.experts + 1) + c.a.first;
      offsets[e + 1] += of_rank[e + 1] - of_rank[e];
    }
  }
}

void run_dispatch(const CpuCall<OpKind::dispatch>& c) {
  const DType act = c.type_in("x");
  gather({1, c.a.rows * c.a.top, c.a.cols, c.a.rows, 0, act, act}, nullptr, c.in("x"), c.in("order"), nullptr,
         nullptr, c.out("y"));
}

void run_combine(const CpuCall<OpKind::combine>& c) {
  combine(c.a.rows, c.a.cols, c.a.top, c.type_in("x"), c.in("x"), c.in("place"), c.out("y"));
}

void run_grouped_gemm(const CpuCall<OpKind::grouped_gemm>& c) {
  const Gemm g{c.a.m,          c.a.n,           c.a.k, c.a.trans_a,    c.a.trans_b, c.type_in("A"),
               c.type_in("B"), c.type_out("C"), false, c.a.accumulate, c.a.tf32};
  grouped_gemm(g, c.a.groups, c.in("offsets"), c.in("A"), c.in("B"), c.out("C"));
}

}  // namespace

CpuRows expert_ops() {
  static constexpr CpuRow kRows[] = {
      row<run_route>,    row<run_route_backward>, row<run_router_metrics>, row<run_expert_offsets>,
      row<run_dispatch>, row<run_combine>,        row<run_grouped_gemm>};
  return kRows;
}

}  // namespace isobar::cpu
