// Mixtures of experts: threads own rows, samples or columns, and sums run in the order of rows, so that the
// number of threads does not matter.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/widen.h"

namespace isobar::cpu {
namespace {

constexpr int64_t kMostGroups = 64;  // net.n_group's
constexpr float kLeastSum = 1e-20f;  // of sigmoids, as DeepSeek's

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

// The n largest of `count` values, of equal ones the first; those that `open` closes are no choice. Not a
// number is never larger, so that rows of such logits have experts too.
template <class Open>
void largest(int64_t n, int64_t count, const float* values, int32_t* chosen, const Open& open) {
  const auto taken = [&](int64_t e, int64_t before) {
    return std::find(chosen, chosen + before, static_cast<int32_t>(e)) != chosen + before;
  };
  for (int64_t j = 0; j < n; ++j) {
    int64_t best = -1;
    for (int64_t e = 0; e < count; ++e)
      if (open(e) && !taken(e, j) && (best < 0 || values[e] > values[best])) best = e;
    chosen[j] = static_cast<int32_t>(best);
  }
}

// `room` [experts]: for scores
void choose(const Route& r, const float* logits, const float* bias, float* room, int32_t* chosen) {
  const auto all = [](int64_t) { return true; };
  if (!r.sigmoid) return largest(r.top, r.experts, logits, chosen, all);
  for (int64_t e = 0; e < r.experts; ++e) room[e] = sigmoid(logits[e]) + (bias != nullptr ? bias[e] : 0);
  if (r.groups == 1) return largest(r.top, r.experts, room, chosen, all);
  const int64_t each = r.experts / r.groups;
  float sums[kMostGroups];
  int32_t best[2], groups[kMostGroups];
  for (int64_t g = 0; g < r.groups; ++g) {
    largest(2, each, room + g * each, best, all);
    sums[g] = room[g * each + best[0]] + room[g * each + best[1]];
  }
  largest(r.top_groups, r.groups, sums, groups, all);
  largest(r.top, r.experts, room, chosen, [&](int64_t e) {
    return std::find(groups, groups + r.top_groups, static_cast<int32_t>(e / each)) != groups + r.top_groups;
  });
}

// Copies of each sample that each expert has had on ranks before this one, [samples, experts]
std::vector<int64_t> copies_before(const Route& r, const float* counts) {
  const int64_t samples = r.rows / r.tokens;
  std::vector<int64_t> before(static_cast<size_t>(samples * r.experts));
  for (int64_t rank = 0; rank < r.ranks_before; ++rank)
    for (int64_t s = 0; s < samples; ++s)
      for (int64_t e = 0; e < r.experts; ++e)
        before[static_cast<size_t>(s * r.experts + e)] +=
            static_cast<int64_t>(counts[(rank * samples + s) * 2 * r.experts + e]);
  return before;
}

// The group of each copy, into to.place: its expert, or behind all experts the same for one that is dropped
void group(const Route& r, const float* counts, const Routing& to) {
  const int64_t copies = r.rows * r.top;
  std::copy_n(to.chosen, copies, to.place);
  if (r.capacity == 0) return;
  std::vector<int64_t> seen = copies_before(r, counts);
  for (int64_t i = 0; i < copies; ++i) {
    const int64_t sample = i / r.top / r.tokens;
    if (seen[static_cast<size_t>(sample * r.experts + to.chosen[i])]++ >= r.capacity)
      to.place[i] += static_cast<int32_t>(r.experts);
  }
}

// Copies in the order of groups, by counting
void sort(const Route& r, const float* counts, const Routing& to) {
  const int64_t copies = r.rows * r.top, groups = (r.capacity > 0 ? 2 : 1) * r.experts;
  group(r, counts, to);
  std::vector<int32_t> next(static_cast<size_t>(groups + 1));
  for (int64_t i = 0; i < copies; ++i) ++next[static_cast<size_t>(to.place[i]) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::copy_n(next.begin(), r.experts + 1, to.offsets);
  for (int64_t i = 0; i < copies; ++i) {
    const int32_t at = next[static_cast<size_t>(to.place[i])]++;
    to.place[i] = at;
    to.order[at] = static_cast<int32_t>(i / r.top);
  }
}

void weigh(const Route& r, const float* logits, int64_t row, const Routing& to) {
  const int32_t *chosen = to.chosen + row * r.top, *place = to.place + row * r.top;
  float sum = 1, least = to.lse[row];
  const auto term = [&](int64_t j) {
    return r.sigmoid ? sigmoid(logits[chosen[j]]) : std::exp(logits[chosen[j]] - least);
  };
  if (r.normalised) {
    sum = r.sigmoid ? kLeastSum : 0, least = logits[chosen[0]];
    for (int64_t j = 0; j < r.top; ++j) sum += term(j);
  }
  for (int64_t j = 0; j < r.top; ++j) to.weights[place[j]] = r.factor * term(j) / sum;
}

// A row's scores over their sum
void probabilities_of(const Route& r, const float* logits, float lse, float* probabilities) {
  if (!r.sigmoid) return kernels().softmax[of(DType::f32)](r.experts, logits, lse, 1, probabilities);
  const float factor = std::exp(-lse);
  for (int64_t e = 0; e < r.experts; ++e) probabilities[e] = factor * sigmoid(logits[e]);
}

void sum_sample(const Route& r, const float* logits, int64_t sample, const Routing& to,
                float* probabilities) {
  float *const counts = to.sums + 2 * sample * r.experts, *const sums = counts + r.experts;
  std::fill_n(counts, 2 * r.experts, 0.0f);
  for (int64_t row = sample * r.tokens; row < (sample + 1) * r.tokens; ++row) {
    probabilities_of(r, logits + row * r.experts, to.lse[row], probabilities);
    kernels().add(r.experts, probabilities, sums);
    for (int64_t j = 0; j < r.top; ++j) counts[to.chosen[row * r.top + j]] += 1;
  }
}

float log_sum(const Route& r, const float* logits) {
  if (r.sigmoid) {
    double sum = 0;
    for (int64_t e = 0; e < r.experts; ++e) sum += static_cast<double>(sigmoid(logits[e]));
    return static_cast<float>(std::log(sum));
  }
  const KernelTable& k = kernels();
  const float most = k.largest[of(DType::f32)](r.experts, logits);
  return most + static_cast<float>(std::log(k.exponentials[of(DType::f32)](r.experts, logits, most)));
}

}  // namespace

void route(const Route& r, const float* logits, const float* bias, const float* counts, const Routing& to) {
  parallel(r.rows * r.experts, [&](int t, int threads) {
    const Range mine = share(r.rows, t, threads);
    float* const room = scratch(r.experts);
    for (int64_t row = mine.begin; row < mine.end; ++row) {
      to.lse[row] = log_sum(r, logits + row * r.experts);
      choose(r, logits + row * r.experts, bias, room, to.chosen + row * r.top);
    }
  });
  sort(r, counts, to);
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

// Slopes [experts] by a row's probabilities become those by its logits; of sigmoids, but for the factor one
// minus them.
void through_sum(const Route& r, const float* probabilities, float* slopes) {
  float mean = 0;
  for (int64_t e = 0; e < r.experts; ++e) mean += probabilities[e] * slopes[e];
  for (int64_t e = 0; e < r.experts; ++e) slopes[e] = probabilities[e] * (slopes[e] - mean);
}

}  // namespace

void route_backward(const Route& r, const float* logits, const Routing& routing, const float* dweights,
                    float scale, int64_t padding, DType act, void* dlogits) {
  const KernelTable& k = kernels();
  const int64_t counted = r.rows - padding * r.tokens;
  const int32_t taken = routing.offsets ? routing.offsets[r.experts] : static_cast<int32_t>(r.rows * r.top);
  const auto slope_of = [&](int32_t copy) { return copy < taken ? dweights[copy] : 0.0f; };
  parallel(r.rows * r.experts, [&](int t, int threads) {
    const Range mine = share(r.rows, t, threads);
    float *const probabilities = scratch(2 * r.experts), *const slopes = probabilities + r.experts;
    for (int64_t row = mine.begin; row < mine.end; ++row) {
      const int32_t *chosen = routing.chosen + row * r.top, *place = routing.place + row * r.top;
      const float* const counts = routing.sums + 2 * (row / r.tokens) * r.experts;
      const bool counts_here = row < counted;
      probabilities_of(r, logits + row * r.experts, routing.lse[row], probabilities);
      const float even = counts_here ? scale * r.balance / static_cast<float>(r.sample) : 0;
      for (int64_t e = 0; e < r.experts; ++e) slopes[e] = even == 0 ? 0 : even * share_of(r, counts, e);
      const bool through_all = !r.normalised && !r.sigmoid;  // weights are probabilities of all
      for (int64_t j = 0; through_all && j < r.top; ++j) slopes[chosen[j]] += r.factor * slope_of(place[j]);
      through_sum(r, probabilities, slopes);
      const float z = counts_here ? 2 * scale * r.z * routing.lse[row] : 0;
      for (int64_t e = 0; z != 0 && e < r.experts; ++e) slopes[e] += z * probabilities[e];
      float mean = 0;
      for (int64_t j = 0; r.normalised && j < r.top; ++j)
        mean += routing.weights[place[j]] * slope_of(place[j]) / r.factor;
      for (int64_t j = 0; !through_all && j < r.top; ++j)
        slopes[chosen[j]] += routing.weights[place[j]] * (slope_of(place[j]) - mean);
      for (int64_t e = 0; r.sigmoid && e < r.experts; ++e)
        slopes[e] *= 1 - sigmoid(logits[row * r.experts + e]);
      k.cast[of(DType::f32)][of(act)](r.experts, slopes,
                                      static_cast<char*>(dlogits) + row * r.experts * size_of(act));
    }
  });
}

void router_metrics(const Route& r, const float* sums, float weight, int64_t padding, float* metrics,
                    float* load) {
  double imbalance = 0, balance = 0, dropped = 0;
  for (int64_t s = 0; s < r.rows / r.tokens - padding; ++s) {
    const float *const counts = sums + 2 * s * r.experts, *const probabilities = counts + r.experts;
    float largest = 0;
    for (int64_t e = 0; e < r.experts; ++e) {
      const float part = share_of(r, counts, e);
      largest = std::max(largest, part);
      if (r.capacity > 0)
        dropped += std::max(0.0, static_cast<double>(counts[e]) - static_cast<double>(r.capacity));
      balance +=
          static_cast<double>(part) * static_cast<double>(probabilities[e]) / static_cast<double>(r.sample);
    }
    imbalance += static_cast<double>(largest);
    if (load != nullptr) kernels().add(r.experts, counts, load);
  }
  metrics[0] += static_cast<float>(static_cast<double>(weight) * imbalance);
  metrics[1] += static_cast<float>(static_cast<double>(weight) * balance);
  metrics[2] +=
      static_cast<float>(static_cast<double>(weight) * dropped / static_cast<double>(r.top * r.sample));
}

void combine(int64_t rows, int64_t cols, int64_t top, DType act, const void* x, const int32_t* place,
             int64_t end, void* y) {
  const KernelTable& k = kernels();
  parallel(rows * cols * top, [&](int t, int threads) {
    const Range mine = share(rows, t, threads);
    float sum[kBlock];
    for (int64_t r = mine.begin; r < mine.end; ++r)
      for (int64_t j = 0; j < cols; j += kBlock) {
        const int64_t n = std::min(kBlock, cols - j);
        std::fill_n(sum, n, 0.0f);
        for (int64_t i = 0; i < top; ++i) {
          if (place[r * top + i] >= end) continue;
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

void run_route_backward(const CpuCall<plan::OpKind::route_backward>& c) {
  const float* const scalars = c.in("scalars");
  const DType act = c.type_out("dlogits");
  const float scale = act == DType::f16 && scalars ? scalars[plan::kLossScale] : 1;
  route_backward(route_of(c.a), c.in("logits"), routing_of(c), c.in("dweights"), scale, padding_of(scalars),
                 act, c.out("dlogits"));
}

void run_router_metrics(const CpuCall<plan::OpKind::router_metrics>& c) {
  router_metrics(route_of(c.a), c.in("sums"), c.a.weight, padding_of(c.in("scalars")), c.out("metrics"),
                 c.out("load"));
}

void run_shift_bias(const CpuCall<plan::OpKind::shift_bias>& c) {
  const float* const load = c.in("load");
  float* const bias = c.out("bias");
  const double mean = std::accumulate(load, load + c.a.cols, 0.0) / static_cast<double>(c.a.cols);
  for (int64_t e = 0; e < c.a.cols; ++e) {
    const double lacks = mean - static_cast<double>(load[e]);
    if (lacks != 0) bias[e] += lacks > 0 ? c.a.weight : -c.a.weight;
  }
}

// An expert's copies of all ranks come together.
void run_expert_offsets(const CpuCall<plan::OpKind::expert_offsets>& c) {
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

void run_combine(const CpuCall<plan::OpKind::combine>& c) {
  const int32_t* const offsets = c.in("offsets");
  const int64_t end = offsets ? offsets[c.view_in("offsets").count - 1] : c.a.rows * c.a.top;
  combine(c.a.rows, c.a.cols, c.a.top, c.type_in("x"), c.in("x"), c.in("place"), end, c.out("y"));
}

void run_grouped_gemm(const CpuCall<plan::OpKind::grouped_gemm>& c) {
  const Gemm g{c.a.m,          c.a.n,           c.a.k, c.a.trans_a,    c.a.trans_b, c.type_in("A"),
               c.type_in("B"), c.type_out("C"), false, c.a.accumulate, c.a.tf32};
  grouped_gemm(g, c.a.groups, c.in("offsets"), c.in("A"), c.in("B"), c.out("C"));
}

}  // namespace

CpuRows expert_ops() {
  static constexpr CpuRow kRows[] = {row<run_route_backward>, row<run_router_metrics>, row<run_shift_bias>,
                                     row<run_expert_offsets>, row<run_combine>,        row<run_grouped_gemm>};
  return kRows;
}

}  // namespace isobar::cpu
