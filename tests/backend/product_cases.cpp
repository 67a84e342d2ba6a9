// Matrix products and attention.
#include <algorithm>

#include "tests/backend/op_case.h"

namespace isobar::testing {
namespace {

void gemm(Random& random, std::vector<OpCase>& to) {
  struct Size {
    int64_t m, n, k;
  };
  for (const DType act : kActs)
    for (const auto& [m, n, k] : {Size{33, 64, 48}, Size{7, 24, 136}, Size{65, 8, 16}})
      for (const bool trans_a : {false, true})
        for (const bool trans_b : {false, true}) {
          const bool in_f32 = act == DType::f32 || trans_a;  // as for weights' gradients
          const bool accumulates = trans_a && in_f32, biased = !accumulates && trans_b;
          const Operand A = normals(random, act, m * k), B = normals(random, act, n * k),
                        bias = biased ? normals(random, DType::f32, n) : Operand{};
          Numbers C(static_cast<size_t>(m * n));
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              double sum = biased ? bias.before[j] : 0;
              for (int64_t l = 0; l < k; ++l)
                sum += A.before[trans_a ? l * m + i : i * k + l] * B.before[trans_b ? j * k + l : l * n + j];
              C[i * n + j] = sum;
            }
          const DType out = in_f32 ? DType::f32 : act;
          to.push_back(
              {plan::OpKind::gemm,
               size_text(act, m, n) + "x" + std::to_string(k) + (trans_a ? " T" : " N") +
                   (trans_b ? "T" : "N"),
               plan::GemmAttrs{
                   .m = m, .n = n, .k = k, .trans_a = trans_a, .trans_b = trans_b, .accumulate = accumulates},
               {A, B, bias},
               {accumulates ? added(random, out, C) : written(out, C)}});
        }
}

struct Shape {
  int64_t batch, heads, kv_heads, tq, tk, d;
  bool causal;
  int64_t last_counts = 1;
  bool biased = false;
  int64_t token0 = -1;  // causal: of the first query, if not tk - tq
  int64_t shift() const { return token0 < 0 ? tk - tq : token0; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(d)); }
};

// o [batch tq, heads d], then lse [batch, heads, tq]; bias [heads, tk, tq], or none
Numbers attention_of(const Shape& s, const Numbers& q, const Numbers& k, const Numbers& v,
                     const Numbers& bias) {
  Numbers o(static_cast<size_t>(s.batch * s.tq * s.heads * s.d)), lse;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.tq; ++i) {
        const int64_t kv = h / (s.heads / s.kv_heads),
                      seen = s.causal ? std::min(s.tk, i + 1 + s.shift()) : s.tk;
        const auto of_key = [&](int64_t j) { return ((b * s.tk + j) * s.kv_heads + kv) * s.d; };
        const int64_t at = ((b * s.tq + i) * s.heads + h) * s.d;
        Numbers p(static_cast<size_t>(seen));
        double sum = 0;
        for (int64_t j = 0; j < seen; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < s.d; ++c) dot += q[at + c] * k[of_key(j) + c];
          const double more = bias.empty() ? 0 : bias[(h * s.tk + j) * s.tq + i];
          sum += p[j] =
              (j + 1 < s.tk ? 1.0 : static_cast<double>(s.last_counts)) * std::exp(dot * s.scale() + more);
        }
        for (int64_t j = 0; j < seen; ++j)
          for (int64_t c = 0; c < s.d; ++c) o[at + c] += p[j] / sum * v[of_key(j) + c];
        lse.push_back(std::log(sum));
      }
  o.insert(o.end(), lse.begin(), lse.end());
  return o;
}

void attention(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Shape& s :
         {Shape{2, 2, 2, 9, 9, 8, false}, Shape{1, 2, 1, 7, 19, 16, true}, Shape{1, 1, 1, 1, 5, 24, false},
          Shape{2, 2, 1, 21, 21, 8, false, 7}, Shape{3, 4, 2, 12, 12, 16, false, 1, true},
          Shape{1, 1, 1, 66, 3, 4, false, 1, true}, Shape{1, 1, 1, 2, 390, 4, false, 1, true},
          Shape{2, 2, 1, 6, 20, 16, true, 1, false, 5}}) {
      const int64_t queries = s.batch * s.tq * s.heads * s.d, keys = s.batch * s.tk * s.kv_heads * s.d;
      const plan::AttentionAttrs a{.batch = s.batch,
                                   .heads = s.heads,
                                   .kv_heads = s.kv_heads,
                                   .tq = s.tq,
                                   .tk = s.tk,
                                   .d = s.d,
                                   .ld_q = s.heads * s.d,
                                   .ld_kv = s.kv_heads * s.d,
                                   .ld_o = s.heads * s.d,
                                   .causal = s.causal,
                                   .scale = static_cast<float>(s.scale()),
                                   .last_counts = s.last_counts,
                                   .token0 = s.shift()};
      const Operand q = normals(random, act, queries), k = normals(random, act, keys),
                    v = normals(random, act, keys);
      const Operand bias = s.biased ? normals(random, DType::f32, s.heads * s.tk * s.tq) : Operand{};
      const Numbers all = attention_of(s, q.before, k.before, v.before, bias.before);
      const Numbers o(all.begin(), all.begin() + queries), lse(all.begin() + queries, all.end());
      const std::string what = std::string(name_of(act)) + " " + std::to_string(s.tq) + " queries, " +
                               std::to_string(s.tk) + " keys" + (s.causal ? ", causal" : "") +
                               (s.last_counts > 1 ? ", the last counts more" : "") +
                               (s.biased ? ", biased" : "") + (s.token0 >= 0 ? ", cut" : "");
      // Probabilities are rounded before they are multiplied.
      const double allowed = act == DType::f32 ? 1e-5 : 4 * cpu::testing::roundoff(act);
      if (kind == plan::OpKind::attention) {
        to.push_back({kind, what, a, {q, k, v, bias}, {written(act, o, allowed), written(DType::f32, lse)}});
        continue;
      }
      const Operand d_o = normals(random, act, queries);
      Numbers weights = d_o.before;
      weights.resize(all.size());  // lse has no gradient
      const auto slope = [&](const Operand& of, const Function& f) {
        return written(of.type, gradient(f, of.before, weights), 2 * allowed);
      };
      const auto all_of = [&](const Numbers& x, const Numbers& y, const Numbers& z, const Numbers& b) {
        return attention_of(s, x, y, z, b);
      };
      to.push_back(
          {kind,
           what,
           a,
           {q, k, v, given(act, o), given(DType::f32, lse), d_o, bias},
           {slope(q, [&](const Numbers& x) { return all_of(x, k.before, v.before, bias.before); }),
            slope(k, [&](const Numbers& x) { return all_of(q.before, x, v.before, bias.before); }),
            slope(v, [&](const Numbers& x) { return all_of(q.before, k.before, x, bias.before); }),
            s.biased ? slope(bias, [&](const Numbers& x) { return all_of(q.before, k.before, v.before, x); })
                     : Operand{}}});
    }
}

// Merges two results over different keys
void attention_merge(Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const bool first : {true, false}) {
      const int64_t batch = 2, heads = 3, tq = 7, d = 5, rows = batch * tq;
      const Operand o = normals(random, act, rows * heads * d),
                    lse = normals(random, DType::f32, rows * heads);
      Operand o_sum = normals(random, DType::f32, o.count()),
              lse_sum = normals(random, DType::f32, lse.count());
      o_sum.want.resize(o.before.size()), lse_sum.want.resize(lse.before.size());
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < tq; ++i) {
            const int64_t l = (b * heads + h) * tq + i;
            const double mine = std::exp(lse.before[l]), theirs = first ? 0 : std::exp(lse_sum.before[l]);
            lse_sum.want[l] = std::log(mine + theirs);
            for (int64_t c = 0; c < d; ++c) {
              const int64_t at = ((b * tq + i) * heads + h) * d + c;
              o_sum.want[at] = (mine * o.before[at] + theirs * o_sum.before[at]) / (mine + theirs);
            }
          }
      o_sum.allowed = lse_sum.allowed = 1e-5;
      to.push_back({plan::OpKind::attention_merge,
                    std::string(name_of(act)) + (first ? " first" : ""),
                    plan::AttentionMergeAttrs{.of = {.batch = batch,
                                                     .heads = heads,
                                                     .kv_heads = heads,
                                                     .tq = tq,
                                                     .tk = 1,
                                                     .d = d,
                                                     .ld_q = heads * d,
                                                     .ld_kv = heads * d,
                                                     .ld_o = heads * d,
                                                     .scale = 1},
                                              .first = first},
                    {o, lse},
                    {o_sum, lse_sum}});
    }
}

}  // namespace

void add_product_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  if (kind == plan::OpKind::gemm) gemm(random, to);
  if (kind == plan::OpKind::attention || kind == plan::OpKind::attention_backward)
    attention(kind, random, to);
  if (kind == plan::OpKind::attention_merge) attention_merge(random, to);
}

}  // namespace isobar::testing
