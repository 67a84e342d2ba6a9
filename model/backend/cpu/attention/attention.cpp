// Attention: distributes units of work over threads; arithmetic is in attention_forward.h and
// attention_backward.h.
#include <vector>

#include "model/backend/cpu/cpu_backend.h"
#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/parallel.h"

namespace isobar::cpu {
namespace {

// Ends of consecutive shares of units with about equal cost; cost(unit) > 0
template <class Cost>
void cut(int64_t units, int threads, const Cost& cost, int64_t* ends) {
  double total = 0;
  for (int64_t u = 0; u < units; ++u) total += cost(u);
  double done = 0;
  int64_t u = 0;
  for (int t = 0; t < threads; ++t) {
    const double goal = total * (t + 1) / threads;
    while (u < units && (t == threads - 1 || done + 0.5 * cost(u) <= goal)) done += cost(u++);
    ends[t] = u;
  }
}

double forward_cost(const Attention& a, const AttentionSizes& s, int64_t unit) {
  const int64_t query0 = unit % s.query_tiles * kQueryTile;
  const int64_t last = std::min(query0 + kQueryTile, a.tq) - 1;
  return static_cast<double>(end_of_keys(a, last) - first_block(a, query0)) + 16.0;  // + packing, writing
}

double backward_cost(const Attention& a, const AttentionSizes& s, int64_t unit) {
  const int64_t key0 = unit % s.key_spans * s.key_span;
  const int64_t keys = std::min(s.key_span, a.tk - key0);
  // queries that see the middle of the span
  const int64_t middle = key0 + keys / 2 - a.shift();
  const int64_t first = a.causal ? std::clamp<int64_t>(middle, 0, a.tq) : 0;
  const int64_t end = a.window > 0 ? std::clamp<int64_t>(middle + a.window, 0, a.tq) : a.tq;
  return static_cast<double>(keys) * static_cast<double>(end - first + 16);
}

int64_t lanes_per_thread(const Attention& a, bool backward) {
  const AttentionSizes s(a);
  return backward ? BackwardBuffers(a, s, nullptr).lanes : ForwardBuffers(a, s, nullptr).lanes;
}

// Sums the parts of a group's dQ that several threads computed, in thread order
void add_shared_dq(const AttentionArgs& args, const AttentionSizes& s, const int64_t* ends, int threads,
                   int t, float* workspace, int64_t stride) {
  const Attention& a = args.shape;
  const auto kernel = kernels().attention_dq_shared[of(a)];
  const int64_t tiles = s.group * s.query_tiles;
  thread_local std::vector<float*> parts;
  const auto first_of = [&](int thread) { return thread == 0 ? 0 : ends[thread - 1]; };
  for (int owner = 0; owner + 1 < threads; ++owner) {
    if (ends[owner] == first_of(owner) || ends[owner] % s.key_spans == 0)
      continue;  // no work, or ends with a group
    const int64_t group = ends[owner] / s.key_spans;
    if (first_of(owner) > group * s.key_spans) continue;  // not the first thread of this group
    parts.clear();
    for (int i = owner; i < threads && first_of(i) < (group + 1) * s.key_spans; ++i)
      if (ends[i] > first_of(i)) {
        const BackwardBuffers w(a, s, workspace + i * stride);
        parts.push_back(w.dq[first_of(i) / s.key_spans == group ? 0 : 1]);
      }
    const Range mine = share(tiles, t, threads);
    for (int64_t at = mine.begin; at < mine.end; ++at)
      kernel(args, group, at, parts.data(), static_cast<int>(parts.size()));
  }
}

// Sums the threads' parts of a bias's gradient, in thread order
void add_shared_dbias(const Attention& a, const AttentionSizes& s, int threads, int t, float* workspace,
                      int64_t stride) {
  const Range mine = share(a.heads * a.tk * a.tq, t, threads);
  for (int part = 0; part < threads; ++part) {
    const float* from = BackwardBuffers(a, s, workspace + part * stride).dbias;
    for (int64_t i = mine.begin; i < mine.end; ++i) a.dbias[i] = (part == 0 ? 0.0f : a.dbias[i]) + from[i];
  }
}

// share(i) for i < n, one thread each as far as OpenMP has them. Wakes all its threads or none
// (model/base/system/team.h).
template <class Share>
void each_share(int n, const Share& share) {
  on_threads(n > 1 ? omp_get_max_threads() : 1, [&](int t, int threads) {
    for (int i = t; i < n; i += threads) share(i);
  });
}

}  // namespace

int64_t attention_workspace(const Attention& a, bool backward, int threads) {
  return lanes_per_thread(a, backward) * threads * static_cast<int64_t>(sizeof(float));
}

void attention_forward(const Attention& a, const void* q, const void* k, const void* v, void* o, float* lse,
                       void* workspace) {
  const AttentionSizes s(a);
  const int64_t units = a.batch * a.heads * s.query_tiles;
  const int64_t stride = lanes_per_thread(a, false);
  const AttentionArgs args{.shape = a, .q = q, .k = k, .v = v, .o_out = o, .lse_out = lse};
  const auto kernel = kernels().attention_forward[of(a)];
  const int threads = static_cast<int>(std::min<int64_t>(units, omp_get_max_threads()));
  thread_local std::vector<int64_t> shares;
  shares.resize(threads);
  int64_t* const ends = shares.data();  // thread_local: the threads below must use this thread's
  cut(
      units, threads, [&](int64_t u) { return forward_cost(a, s, u); }, ends);
  each_share(threads, [&](int t) {
    kernel(args, t == 0 ? 0 : ends[t - 1], ends[t], static_cast<float*>(workspace) + t * stride);
  });
}

void attention_backward(const Attention& a, const void* q, const void* k, const void* v, const void* o,
                        const float* lse, const void* d_o, void* dq, void* dk, void* dv, int64_t ld_dq,
                        int64_t ld_dkv, void* workspace) {
  const AttentionSizes s(a);
  const int64_t units = a.batch * a.kv_heads * s.key_spans;
  const int64_t stride = lanes_per_thread(a, true);
  const AttentionArgs args{.shape = a,
                           .q = q,
                           .k = k,
                           .v = v,
                           .o = o,
                           .d_o = d_o,
                           .dq = dq,
                           .dk = dk,
                           .dv = dv,
                           .lse = lse,
                           .ld_dq = ld_dq,
                           .ld_dkv = ld_dkv};
  const auto kernel = kernels().attention_backward[of(a)];
  const int threads = static_cast<int>(std::min<int64_t>(units, omp_get_max_threads()));
  thread_local std::vector<int64_t> shares;
  shares.resize(threads);
  int64_t* const ends = shares.data();  // thread_local: the threads below must use this thread's
  cut(
      units, threads, [&](int64_t u) { return backward_cost(a, s, u); }, ends);
  float* base = static_cast<float*>(workspace);
  each_share(threads, [&](int t) { kernel(args, t == 0 ? 0 : ends[t - 1], ends[t], base + t * stride); });
  each_share(threads, [&](int t) {
    add_shared_dq(args, s, ends, threads, t, base, stride);
    if (a.dbias) add_shared_dbias(a, s, threads, t, base, stride);
  });
}

// ---- ops ----

Attention attention_of(const plan::AttentionAttrs& a, DType act, bool biased) {
  return {a.batch,  a.heads, a.kv_heads, a.tq,          a.tk,
          a.d,      a.scale, a.causal,   act,           a.ld_q,
          a.ld_kv,  a.ld_o,  a.tf32,     a.last_counts, a.causal ? a.token0 : -1,
          a.window, biased};
}

namespace {

// The workspace depends on the number of threads, which may have changed since planning.
template <plan::OpKind K>
void check_workspace(const CpuCall<K>& c) {
  const int threads = omp_get_max_threads();
  const int64_t planned = c.view_out("workspace").count * static_cast<int64_t>(sizeof(float));
  const int64_t needed = cpu_workspace(threads)(c.op);
  if (planned < needed)
    throw std::logic_error(c.op.path + ": its workspace is planned for fewer threads than the " +
                           std::to_string(threads) + " of OpenMP (" + std::to_string(planned) + " of " +
                           std::to_string(needed) +
                           " bytes); call omp_set_num_threads with what was planned");
}

template <plan::OpKind K>
Attention shape_of(const CpuCall<K>& c) {
  Attention a = attention_of(c.a, c.type_in("q"), static_cast<bool>(c.in("bias")));
  a.bias = c.in("bias");
  return a;
}

void run_attention(const CpuCall<plan::OpKind::attention>& c) {
  check_workspace(c);
  attention_forward(shape_of(c), c.in("q"), c.in("k"), c.in("v"), c.out("o"), c.out("lse"),
                    c.out("workspace"));
}

void run_attention_backward(const CpuCall<plan::OpKind::attention_backward>& c) {
  check_workspace(c);
  Attention a = shape_of(c);
  a.dbias = c.out("dbias");
  attention_backward(a, c.in("q"), c.in("k"), c.in("v"), c.in("o"), c.in("lse"), c.in("do"), c.out("dq"),
                     c.out("dk"), c.out("dv"), c.a.ld_q, c.a.ld_kv, c.out("workspace"));
}

}  // namespace

CpuRows attention_ops() {
  static constexpr CpuRow kRows[] = {row<run_attention>, row<run_attention_backward>};
  return kRows;
}

}  // namespace isobar::cpu

namespace isobar {

plan::Workspace cpu_workspace(int threads) {
  return [threads](const plan::Op& op) -> int64_t {
    if (op.kind != plan::OpKind::attention && op.kind != plan::OpKind::attention_backward) return 0;
    // Buffers are not declared yet when a plan asks, so this covers the wider type.
    const bool backward = op.kind == plan::OpKind::attention_backward;
    const auto bytes = [&](DType act) {
      const auto biased = static_cast<bool>(plan::bias_of_scores(op));
      return cpu::attention_workspace(cpu::attention_of(op.as<plan::AttentionAttrs>(), act, biased), backward,
                                      threads);
    };
    return std::max(bytes(DType::f32), bytes(DType::bf16));
  };
}

}  // namespace isobar
