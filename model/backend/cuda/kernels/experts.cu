// Mixtures of experts: routing by counting, without atomics, so that copies of an expert are in the order of
// rows; and sums in a fixed order.
#include <cmath>

#include "model/backend/cuda/kernels/cuda_ops.h"
#include "model/backend/cuda/kernels/pack.cuh"
#include "model/plan/plan.h"

namespace isobar::cuda {
namespace {

__device__ inline float largest_of_warp(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

// Sum over the block of one number a thread, in a fixed order
template <class N>
__device__ N block_sum(N x, N* shared) {
  shared[threadIdx.x] = x;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  const N sum = shared[0];
  __syncthreads();  // shared is used again
  return sum;
}

// A logit and its expert in the order of choice: larger first, of equal ones the first expert
struct Choice {
  float logit;
  int expert;  // -1: none
  __device__ bool before(const Choice& o) const {
    if (expert < 0 || o.expert < 0) return o.expert < 0 && expert >= 0;
    return logit > o.logit || (logit == o.logit && expert < o.expert);
  }
};

__device__ __forceinline__ Choice first_of_warp(Choice c) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const Choice other{__shfl_xor_sync(0xffffffffu, c.logit, offset),
                       __shfl_xor_sync(0xffffffffu, c.expert, offset)};
    if (other.before(c)) c = other;
  }
  return c;
}

// A logit that is no number comes last, so that rows of such logits have experts too.
__device__ inline float logit_of(float x) {
  return x == x ? x : -INFINITY;
}

// ---- routing: a warp a row ----

// By the division that is no call
__device__ inline float sigmoid(float x) {
  return __fdividef(1.0f, 1.0f + expf(-x));
}

// Scores that a row's experts are chosen by; inlined, since a call takes stack
struct Scores {
  const float *logits, *bias;  // bias: or null
  bool sigmoid;
  __device__ __forceinline__ float operator()(int e) const {
    const float x = logits[e];
    return logit_of(!sigmoid ? x : cuda::sigmoid(x) + (bias == nullptr ? 0.0f : bias[e]));
  }
};

// The first of a warp's choices among `count` numbers of which `of` gives one, after those before `last`
template <class F>
__device__ __forceinline__ Choice next_choice(int count, int lane, Choice last, const F& of) {
  Choice best{0, -1};
  for (int i = lane; i < count; i += 32) {
    const Choice here = of(i);
    if ((last.expert < 0 || last.before(here)) && here.before(best)) best = here;
  }
  return first_of_warp(best);
}

// The sum of a group's two best scores
template <class F>
__device__ float best_two(int begin, int count, const F& score) {
  float first = -INFINITY, second = -INFINITY;
  for (int e = begin; e < begin + count; ++e) {
    const float x = score(e);
    second = fmaxf(second, fminf(first, x));
    first = fmaxf(first, x);
  }
  return first + second;
}

// The groups that a row chooses from, as bits: those with the largest sums. A lane sums groups lane and lane
// + 32 alone, since exchanges in a loop take stack.
template <class F>
__device__ __forceinline__ unsigned long long open_groups(const Route& p, int lane, const F& score) {
  if (p.groups == 1) return ~0ull;
  const int groups = static_cast<int>(p.groups), each = static_cast<int>(p.experts) / groups;
  const float low = lane < groups ? best_two(lane * each, each, score) : 0,
              high = lane + 32 < groups ? best_two((lane + 32) * each, each, score) : 0;
  unsigned long long open = 0;
  Choice last{0, -1};
  for (int j = 0; j < p.top_groups; ++j) {
    last = next_choice(static_cast<int>(p.groups), lane, last, [&](int g) {
      return Choice{g < 32 ? low : high, g};
    });
    open |= 1ull << last.expert;
  }
  return open;
}

__global__ void __launch_bounds__(kThreads)
    choose_kernel(Route p, const float* __restrict__ logits, const float* __restrict__ bias,
                  int32_t* __restrict__ chosen, float* __restrict__ lse) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kBlockWarps + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float* const own = logits + (row < p.rows ? row : 0) * p.experts;  // all warps take part in exchanges
  float largest = -INFINITY, sum = 0;
  for (int e = lane; e < p.experts && !p.sigmoid; e += 32) largest = fmaxf(largest, own[e]);
  largest = p.sigmoid ? 0 : largest_of_warp(largest);
  for (int e = lane; e < p.experts; e += 32) sum += p.sigmoid ? sigmoid(own[e]) : expf(own[e] - largest);
  sum = warp_sum(sum);
  if (row < p.rows && lane == 0) lse[row] = largest + logf(sum);
  const Scores score{own, p.sigmoid ? bias : nullptr, p.sigmoid};
  const unsigned long long open = open_groups(p, lane, score);
  const int each = static_cast<int>(p.experts) / static_cast<int>(p.groups);
  Choice last{0, -1};
  for (int j = 0; j < p.top; ++j) {
    last = next_choice(static_cast<int>(p.experts), lane, last, [&](int e) {
      return Choice{score(e), p.groups == 1 || (open >> (e / each) & 1) != 0 ? e : -1};
    });
    if (row < p.rows && lane == 0) chosen[row * p.top + j] = last.expert;
  }
}

// A sample's copies of an expert on this rank: the first of them are taken, the others dropped
struct Copies {
  int all, taken;
};

__device__ inline Copies copies_of(const Route& p, const float* sums, const float* counts, int64_t sample,
                                   int64_t expert) {
  const int all = static_cast<int>(sums[2 * sample * p.experts + expert]);
  if (p.capacity == 0) return {all, all};
  int64_t left = p.capacity;
  for (int64_t rank = 0; rank < p.ranks_before; ++rank)
    left -= static_cast<int64_t>(counts[(rank * (p.rows / p.tokens) + sample) * 2 * p.experts + expert]);
  return {all, left <= 0 ? 0 : left < all ? static_cast<int>(left) : all};
}

// A block an expert: counts the copies before its own, then gives its own their places in order
__global__ void __launch_bounds__(kThreads)
    place_kernel(Route p, const float* __restrict__ logits, const float* __restrict__ counts, Routing to) {
  __shared__ int shared[kThreads];
  const int64_t copies = p.rows * p.top, samples = p.rows / p.tokens;
  const int expert = static_cast<int>(blockIdx.x);
  int before = 0, dropped_before = 0, taken = 0;
  for (int64_t i = threadIdx.x; i < samples * p.experts; i += kThreads) {
    const int64_t other = i % p.experts;
    const Copies c = copies_of(p, to.sums, counts, i / p.experts, other);
    taken += c.taken;
    if (other < expert) before += c.taken, dropped_before += c.all - c.taken;
  }
  before = block_sum(before, shared);
  dropped_before = block_sum(dropped_before, shared);
  taken = block_sum(taken, shared);
  if (threadIdx.x == 0) to.offsets[expert] = before;
  if (threadIdx.x == 0 && expert == 0) to.offsets[p.experts] = taken;
  int next = 0;
  for (int64_t first = 0; first < copies; first += kThreads) {
    const int64_t i = first + threadIdx.x;
    const int mine = i < copies && to.chosen[i] == expert ? 1 : 0;
    shared[threadIdx.x] = mine;
    __syncthreads();
    for (int step = 1; step < kThreads; step *= 2) {  // inclusive sums
      const int more = static_cast<int>(threadIdx.x) >= step ? shared[threadIdx.x - step] : 0;
      __syncthreads();
      shared[threadIdx.x] += more;
      __syncthreads();
    }
    const int all = shared[kThreads - 1];
    int number = next + shared[threadIdx.x] - 1;  // among the expert's; below, among those of its sample
    __syncthreads();
    next += all;
    if (mine == 0) continue;
    const int64_t row = i / p.top;
    int at = before, dropped_at = taken + dropped_before;
    Copies own_sample = copies_of(p, to.sums, counts, 0, expert);
    for (int64_t s = 0; s < row / p.tokens; own_sample = copies_of(p, to.sums, counts, ++s, expert)) {
      at += own_sample.taken, dropped_at += own_sample.all - own_sample.taken;
      number -= own_sample.all;
    }
    at = number < own_sample.taken ? at + number : dropped_at + number - own_sample.taken;
    const float* const own = logits + row * p.experts;
    const int32_t* const chosen = to.chosen + row * p.top;
    float least = to.lse[row], sum = 1;
    const auto term = [&](int e) { return p.sigmoid ? sigmoid(own[e]) : expf(own[e] - least); };
    if (p.normalised) {
      least = own[chosen[0]], sum = p.sigmoid ? 1e-20f : 0.0f;
      for (int j = 0; j < p.top; ++j) sum += term(chosen[j]);
    }
    to.place[i] = at;
    to.order[at] = static_cast<int32_t>(row);
    to.weights[at] = p.factor * term(expert) / sum;
  }
}

// A score over the sum of its row's
__device__ inline float probability_of(const Route& p, float logit, float lse) {
  return p.sigmoid ? sigmoid(logit) * expf(-lse) : expf(logit - lse);
}

// A block a sample and expert
__global__ void __launch_bounds__(kThreads)
    sums_kernel(Route p, const float* __restrict__ logits, const int32_t* __restrict__ chosen,
                const float* __restrict__ lse, float* __restrict__ sums) {
  __shared__ float shared[kThreads];
  const int64_t expert = blockIdx.x, sample = blockIdx.y, row0 = sample * p.tokens;
  float count = 0, sum = 0;
  for (int64_t i = threadIdx.x; i < p.tokens * p.top; i += kThreads)
    count += chosen[row0 * p.top + i] == expert ? 1.0f : 0.0f;
  for (int64_t t = threadIdx.x; t < p.tokens; t += kThreads)
    sum += probability_of(p, logits[(row0 + t) * p.experts + expert], lse[row0 + t]);
  count = block_sum(count, shared);
  sum = block_sum(sum, shared);
  if (threadIdx.x != 0) return;
  sums[2 * sample * p.experts + expert] = count;
  sums[(2 * sample + 1) * p.experts + expert] = sum;
}

// An expert's share of a sample's copies, times the number of experts
__device__ inline float share_of(const Route& p, const float* counts, int64_t expert) {
  return __fdividef(counts[expert] * static_cast<float>(p.experts), static_cast<float>(p.top * p.sample));
}

// A warp a row
template <class T>
__global__ void __launch_bounds__(kThreads)
    route_backward_kernel(Route p, const float* __restrict__ logits, Routing of,
                          const float* __restrict__ dweights, const float* __restrict__ scalars, bool scaled,
                          T* __restrict__ dlogits) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kBlockWarps + threadIdx.x / 32;
  const int64_t at = row < p.rows ? row : 0;  // all warps take part in exchanges
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t *const chosen = of.chosen + at * p.top, *const place = of.place + at * p.top;
  const int tokens = static_cast<int>(p.tokens);  // of 64 bits a division is a call, which takes stack
  const int sample = static_cast<int>(at) / tokens;
  const int padding = scalars != nullptr ? static_cast<int>(scalars[plan::kPadding]) : 0;
  const bool counts_here = sample < static_cast<int>(p.rows) / tokens - padding;
  const float scale = !counts_here ? 0 : scaled && scalars != nullptr ? scalars[plan::kLossScale] : 1;
  const float* const counts = of.sums + 2 * sample * p.experts;
  const float even = scale * p.balance / static_cast<float>(p.sample), z = 2 * scale * p.z * of.lse[at];
  float mean = 0;  // of the balance loss's slopes
  for (int e = lane; e < p.experts; e += 32)
    mean += probability_of(p, logits[at * p.experts + e], of.lse[at]) * even * share_of(p, counts, e);
  mean = warp_sum(mean);
  const int taken = of.offsets != nullptr ? of.offsets[p.experts] : static_cast<int>(p.rows * p.top);
  const auto slope_of = [&](int copy) { return copy < taken ? dweights[copy] : 0.0f; };
  float weighted = 0;  // of the weights' slopes
  for (int j = 0; j < p.top; ++j) weighted += of.weights[place[j]] * slope_of(place[j]);
  if (row >= p.rows) return;
  const float common = p.normalised ? weighted / p.factor : 0.0f;
  for (int e = lane; e < p.experts; e += 32) {
    const float probability = probability_of(p, logits[at * p.experts + e], of.lse[at]);
    float slope = probability * (even * share_of(p, counts, e) - mean + z);
    if (!p.normalised && !p.sigmoid) slope -= probability * weighted;
    for (int j = 0; j < p.top; ++j)
      if (chosen[j] == e) slope += of.weights[place[j]] * (slope_of(place[j]) - common);
    if (p.sigmoid) slope *= 1.0f - sigmoid(logits[at * p.experts + e]);
    dlogits[at * p.experts + e] = as<T>(slope);
  }
}

// One block; samples in order
__global__ void __launch_bounds__(kThreads)
    router_metrics_kernel(Route p, const float* __restrict__ sums, float weight,
                          const float* __restrict__ scalars, float* metrics, float* load) {
  __shared__ float shared[kThreads];
  const int64_t padding = scalars != nullptr ? static_cast<int64_t>(scalars[plan::kPadding]) : 0;
  double imbalance = 0, balance = 0, dropped = 0;
  for (int64_t s = 0; s < p.rows / p.tokens - padding; ++s) {
    const float *const counts = sums + 2 * s * p.experts, *const probabilities = counts + p.experts;
    float largest = 0, sum = 0, beyond = 0;
    for (int64_t e = threadIdx.x; e < p.experts; e += kThreads) {
      const float share = share_of(p, counts, e);
      if (p.capacity > 0) beyond += fmaxf(0.0f, counts[e] - static_cast<float>(p.capacity));
      if (load != nullptr) load[e] += counts[e];
      largest = fmaxf(largest, share);
      sum += share * probabilities[e] / static_cast<float>(p.sample);
    }
    balance += static_cast<double>(block_sum(sum, shared));
    dropped += static_cast<double>(block_sum(beyond, shared));
    shared[threadIdx.x] = largest;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
      __syncthreads();
    }
    imbalance += static_cast<double>(shared[0]);
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  metrics[0] += static_cast<float>(static_cast<double>(weight) * imbalance);
  metrics[1] += static_cast<float>(static_cast<double>(weight) * balance);
  metrics[2] +=
      static_cast<float>(static_cast<double>(weight) * dropped / static_cast<double>(p.top * p.sample));
}

// ---- moves: V neighbours of a row, in grid-stride loops ----

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    combine_kernel(int64_t n, int64_t cols, int64_t top, const T* __restrict__ x,
                   const int32_t* __restrict__ place, const int32_t* __restrict__ taken, T* __restrict__ y) {
  const int64_t end = taken != nullptr ? *taken : n / cols * top;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreads * V) {
    const int64_t row = i / cols, column = i - row * cols;
    float sum[V] = {}, more[V];
    for (int64_t j = 0; j < top; ++j) {
      if (place[row * top + j] >= end) continue;
      load<V>(x + place[row * top + j] * cols + column, more);
#pragma unroll
      for (int k = 0; k < V; ++k) sum[k] += more[k];
    }
    store<V>(y + i, sum);
  }
}

// One block. The sum of loads is exact: they are whole numbers.
__global__ void __launch_bounds__(kThreads)
    shift_bias_kernel(int64_t experts, float rate, const float* __restrict__ load, float* __restrict__ bias) {
  __shared__ double shared[kThreads];
  double sum = 0;
  for (int64_t e = threadIdx.x; e < experts; e += kThreads) sum += static_cast<double>(load[e]);
  const double mean = block_sum(sum, shared) / static_cast<double>(experts);
  for (int64_t e = threadIdx.x; e < experts; e += kThreads) {
    const double lacks = mean - static_cast<double>(load[e]);
    if (lacks != 0) bias[e] += lacks > 0 ? rate : -rate;
  }
}

// One block. An expert's copies of all ranks come together.
__global__ void __launch_bounds__(kThreads)
    expert_offsets_kernel(plan::HeldExpertsAttrs p, const int32_t* __restrict__ all, int32_t* offsets) {
  for (int64_t e = threadIdx.x; e < p.held; e += kThreads) {
    int32_t count = 0;
    for (int64_t r = 0; r < p.ranks; ++r) {
      const int32_t* const of_rank = all + r * (p.experts + 1) + p.first;
      count += of_rank[e + 1] - of_rank[e];
    }
    offsets[e + 1] = count;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  offsets[0] = 0;
  for (int64_t e = 0; e < p.held; ++e) offsets[e + 1] += offsets[e];
}

unsigned warps(int64_t rows) {
  return grid(ceil_div(rows, kBlockWarps));
}

}  // namespace

void route(const Route& p, const float* logits, const float* bias, const float* counts, const Routing& to,
           cudaStream_t stream) {
  if (p.rows == 0) return;
  launch(choose_kernel, warps(p.rows), kThreads, 0, stream, p, logits, bias, to.chosen, to.lse);
  launch(sums_kernel, dim3(grid(p.experts), grid(p.rows / p.tokens)), kThreads, 0, stream, p, logits,
         to.chosen, to.lse, to.sums);
  launch(place_kernel, grid(p.experts), kThreads, 0, stream, p, logits, counts, to);
}

void route_backward(const Route& p, const float* logits, const Routing& of, const float* dweights,
                    const float* scalars, DType act, void* dlogits, cudaStream_t stream) {
  if (p.rows == 0) return;
  by_type(act, [&](auto type) {
    using T = decltype(type);
    launch(route_backward_kernel<T>, warps(p.rows), kThreads, 0, stream, p, logits, of, dweights, scalars,
           act == DType::f16, dlogits);
  });
}

void router_metrics(const Route& p, const float* sums, float weight, const float* scalars, float* metrics,
                    float* load, cudaStream_t stream) {
  launch(router_metrics_kernel, 1, kThreads, 0, stream, p, sums, weight, scalars, metrics, load);
}

void combine(int64_t rows, int64_t cols, int64_t top, DType act, const void* x, const int32_t* place,
             const int32_t* taken, void* y, cudaStream_t stream) {
  if (rows * cols == 0) return;
  by_widest_pack(act, cols, on_16_bytes(x, y), [&](auto type, auto width) {
    using T = decltype(type);
    launch(combine_kernel<T, width()>, filling_grid(rows * cols / width(), kThreads), kThreads, 0, stream,
           rows * cols, cols, top, x, place, taken, y);
  });
}

// ---- ops ----

namespace {

void run_route_backward(const CudaCall<plan::OpKind::route_backward>& c) {
  route_backward(route_of(c.a), c.in("logits"), routing_of(c), c.in("dweights"), c.in("scalars"),
                 c.type_out("dlogits"), c.out("dlogits"), c.stream);
}

void run_router_metrics(const CudaCall<plan::OpKind::router_metrics>& c) {
  router_metrics(route_of(c.a), c.in("sums"), c.a.weight, c.in("scalars"), c.out("metrics"), c.out("load"),
                 c.stream);
}

void run_shift_bias(const CudaCall<plan::OpKind::shift_bias>& c) {
  const float* const load = c.in("load");
  float* const bias = c.out("bias");
  launch(shift_bias_kernel, 1, kThreads, 0, c.stream, c.a.cols, c.a.weight, load, bias);
}

void run_expert_offsets(const CudaCall<plan::OpKind::expert_offsets>& c) {
  const int32_t* const all = c.in("all");
  int32_t* const offsets = c.out("offsets");
  launch(expert_offsets_kernel, 1, kThreads, 0, c.stream, c.a, all, offsets);
}

void run_combine(const CudaCall<plan::OpKind::combine>& c) {
  const int32_t* const offsets = c.in("offsets");  // their last: how many copies are taken
  const int32_t* const taken = offsets == nullptr ? nullptr : offsets + c.view_in("offsets").count - 1;
  combine(c.a.rows, c.a.cols, c.a.top, c.type_in("x"), c.in("x"), c.in("place"), taken, c.out("y"), c.stream);
}

void run_grouped_gemm(const CudaCall<plan::OpKind::grouped_gemm>& c) {
  const int64_t most_rows = c.view_in("A").count / (c.a.trans_a ? c.a.m : c.a.k);
  grouped_gemm({c.a.trans_a ? c.a.m : most_rows, c.a.n, c.a.k, c.a.groups, c.a.trans_a, c.a.trans_b,
                c.a.accumulate, c.type_in("A"), c.type_out("C"), c.a.tf32},
               c.in("offsets"), c.in("A"), c.in("B"), c.out("C"), c.stream);
}

}  // namespace

CudaRows expert_ops() {
  static constexpr CudaRow kRows[] = {row<run_route_backward>, row<run_router_metrics>,
                                      row<run_shift_bias>,     row<run_expert_offsets>,
                                      row<run_combine>,        row<run_grouped_gemm>};
  return kRows;
}

}  // namespace isobar::cuda
