// Mixtures of experts: routing, moves between tokens and their sorted copies, grouped products.
#include <algorithm>
#include <numeric>

#include "model/plan/plan.h"
#include "tests/backend/op_case.h"

namespace isobar::testing {
namespace {

struct Routed {
  int64_t batch, tokens, experts, top;
  bool normalised;
  int64_t sample = 0;  // tokens on all ranks; 0: those here
  double factor = 1;
  bool sigmoid = false;
  int64_t groups = 1, top_groups = 1;
  int64_t capacity = 0, ranks = 0;  // of an expert for a sample; before this one
  int64_t rows() const { return batch * tokens; }
  int64_t copies() const { return rows() * top; }
  int64_t all() const { return sample > 0 ? sample : tokens; }
  std::string text() const {
    return std::to_string(batch) + "x" + std::to_string(tokens) + " to " + std::to_string(top) + " of " +
           std::to_string(experts) + (normalised ? "" : " by all") + (sample > 0 ? " shared" : "") +
           (sigmoid ? " by sigmoids" : "") + (groups > 1 ? " in groups" : "") +
           (capacity > 0 ? " up to " + std::to_string(capacity) : "") +
           (ranks > 0 ? " behind " + std::to_string(ranks) : "");
  }
};
constexpr std::initializer_list<Routed> kRouted = {{2, 9, 4, 2, true},
                                                   {3, 5, 7, 3, false},
                                                   {1, 33, 8, 1, true},
                                                   {1, 40, 64, 6, false},
                                                   {2, 6, 3, 3, true, 10},
                                                   {2, 5, 6, 2, false, 0, 16},
                                                   {2, 7, 6, 2, false, 0, 1.5, true},
                                                   {2, 9, 12, 4, true, 0, 2.5, true, 4, 2},
                                                   {1, 11, 256, 8, true, 30, 2.5, true, 64, 7},
                                                   {3, 9, 4, 2, true, 0, 1, false, 1, 1, 3},
                                                   {1, 300, 6, 3, false, 0, 1, false, 1, 1, 130},
                                                   {2, 8, 6, 2, true, 24, 1, true, 1, 1, 2, 2}};

// Everything that follows from the logits
struct Routes {
  Numbers order, place, chosen, offsets, weights, lse, sums;
};

// A score, of which a row's are over their sum
double term(const Routed& s, double logit) {
  return s.sigmoid ? 1 / (1 + std::exp(-logit)) : std::exp(logit);
}

double terms(const Routed& s, const Numbers& logits, int64_t row) {
  double sum = 0;
  for (int64_t e = 0; e < s.experts; ++e) sum += term(s, logits[row * s.experts + e]);
  return sum;
}

// Experts of a row by their scores with bias, in the groups that are open to it
std::vector<int64_t> choices(const Routed& s, const Numbers& logits, const Numbers& bias, int64_t row) {
  const auto largest = [](int64_t n, const Numbers& values) {
    std::vector<int64_t> by(values.size());
    std::iota(by.begin(), by.end(), 0);
    std::stable_sort(by.begin(), by.end(), [&](int64_t a, int64_t b) { return values[a] > values[b]; });
    by.resize(static_cast<size_t>(n));
    return by;
  };
  Numbers scores;
  for (int64_t e = 0; e < s.experts; ++e) {
    const double logit = logits[row * s.experts + e];
    scores.push_back(s.sigmoid ? term(s, logit) + (bias.empty() ? 0 : bias[e]) : logit);
  }
  const int64_t each = s.experts / s.groups;
  Numbers sums;
  for (int64_t g = 0; g < s.groups; ++g) {
    const Numbers of(scores.begin() + g * each, scores.begin() + (g + 1) * each);
    double sum = 0;
    for (const int64_t e : largest(std::min<int64_t>(2, each), of)) sum += of[e];
    sums.push_back(sum);
  }
  const std::vector<int64_t> open = largest(s.top_groups, sums);
  for (int64_t e = 0; e < s.experts; ++e)
    if (std::find(open.begin(), open.end(), e / each) == open.end()) scores[e] = -1e9;
  return largest(s.top, scores);
}

// Weights of a row's choices, in their order
Numbers weights_of(const Routed& s, const Numbers& logits, const Numbers& chosen, int64_t row) {
  Numbers w;
  for (int64_t j = 0; j < s.top; ++j)
    w.push_back(term(s, logits[row * s.experts + static_cast<int64_t>(chosen[row * s.top + j])]));
  const double all = s.normalised ? std::accumulate(w.begin(), w.end(), 0.0)
                     : s.sigmoid  ? 1
                                  : terms(s, logits, row);
  for (double& x : w) x = s.factor * (x / all);  // one alone is exactly 1: its slope is 0, not a rounding
  return w;
}

// Copies of each sample and expert on each rank, and numbers that are unused
Numbers counts_of(Random& random, const Routed& s) {
  Numbers counts;
  for (int64_t i = 0; i < (s.ranks + 1) * s.batch * 2 * s.experts; ++i)
    counts.push_back(i / (s.batch * 2 * s.experts) == s.ranks || i / s.experts % 2 == 1
                         ? 1e9
                         : static_cast<double>(random.integer(0, s.capacity)) / static_cast<double>(s.ranks));
  for (double& c : counts) c = std::floor(c);
  return counts;
}

// Copies that an expert has taken of a sample on ranks before this one
int64_t before(const Routed& s, const Numbers& counts, int64_t sample, int64_t expert) {
  double sum = 0;
  for (int64_t rank = 0; rank < s.ranks && !counts.empty(); ++rank)
    sum += counts[((rank * s.batch + sample) * 2) * s.experts + expert];
  return static_cast<int64_t>(sum);
}

// Copies that are dropped, by token and choice
std::vector<bool> dropped(const Routed& s, const Numbers& chosen, const Numbers& counts) {
  std::vector<bool> out(static_cast<size_t>(s.copies()));
  for (int64_t i = 0; s.capacity > 0 && i < s.copies(); ++i) {
    const int64_t sample = i / s.top / s.tokens;
    int64_t number = before(s, counts, sample, static_cast<int64_t>(chosen[i]));
    for (int64_t j = sample * s.tokens * s.top; j < i; ++j) number += chosen[j] == chosen[i] ? 1 : 0;
    out[static_cast<size_t>(i)] = number >= s.capacity;
  }
  return out;
}

Routes routes_of(const Routed& s, const Numbers& logits, const Numbers& bias = {},
                 const Numbers& counts_before = {}) {
  Routes r;
  for (int64_t row = 0; row < s.rows(); ++row) {
    const std::vector<int64_t> by = choices(s, logits, bias, row);
    r.chosen.insert(r.chosen.end(), by.begin(), by.end());
    r.lse.push_back(std::log(terms(s, logits, row)));
  }
  r.place.resize(static_cast<size_t>(s.copies()));
  r.weights.resize(r.place.size());
  const std::vector<bool> drops = dropped(s, r.chosen, counts_before);
  for (int64_t group = 0; group < 2 * s.experts; ++group) {
    if (group <= s.experts) r.offsets.push_back(static_cast<double>(r.order.size()));
    for (int64_t i = 0; i < s.copies(); ++i) {
      if (static_cast<int64_t>(r.chosen[i]) != group % s.experts || drops[i] != (group >= s.experts))
        continue;
      r.place[i] = static_cast<double>(r.order.size());
      r.weights[r.order.size()] = weights_of(s, logits, r.chosen, i / s.top)[i % s.top];
      r.order.push_back(static_cast<double>(i / s.top));
    }
  }
  for (int64_t b = 0; b < s.batch; ++b) {
    Numbers counts(static_cast<size_t>(s.experts)), sums(counts.size());
    for (int64_t row = b * s.tokens; row < (b + 1) * s.tokens; ++row) {
      for (int64_t j = 0; j < s.top; ++j) ++counts[static_cast<size_t>(r.chosen[row * s.top + j])];
      for (int64_t e = 0; e < s.experts; ++e)
        sums[e] += term(s, logits[row * s.experts + e]) / terms(s, logits, row);
    }
    r.sums.insert(r.sums.end(), counts.begin(), counts.end());
    r.sums.insert(r.sums.end(), sums.begin(), sums.end());
  }
  return r;
}

plan::RouteAttrs attrs_of(const Routed& s) {
  return {.rows = s.rows(),
          .cols = s.experts,
          .top = s.top,
          .normalised = s.normalised,
          .factor = static_cast<float>(s.factor),
          .sigmoid = s.sigmoid,
          .groups = s.groups,
          .top_groups = s.top_groups,
          .tokens = s.tokens,
          .sample = s.all(),
          .capacity = s.capacity,
          .ranks_before = s.ranks};
}

// `of` copies with `each` numbers: those of dropped ones are no numbers.
void spoil_dropped(const Routed& s, const Routes& r, int64_t each, Operand& of) {
  if (s.capacity == 0) return;
  std::fill(of.before.begin() + static_cast<int64_t>(r.offsets.back()) * each, of.before.end(), NAN);
}

Operand whole(const Numbers& values) {
  return {.type = DType::i32, .before = values};
}
Operand exactly(const Numbers& want) {
  Operand o{.type = DType::i32, .before = Numbers(want.size(), -7), .want = want};
  o.allowed = 1e-12;
  return o;
}

// Some rows have equal logits: the first expert comes first.
Operand logits_of(Random& random, const Routed& s) {
  Operand logits = normals(random, DType::f32, s.rows() * s.experts, 2);
  for (int64_t row = 0; row < s.rows(); row += 4)
    for (int64_t e = 1; e < s.experts; e += 2)
      logits.before[row * s.experts + e] = logits.before[row * s.experts + e - 1];
  return logits;
}

void route(Random& random, std::vector<OpCase>& to) {
  for (const Routed& s : kRouted) {
    const Operand logits = logits_of(random, s);
    const Operand bias = s.sigmoid ? normals(random, DType::f32, s.experts, 0.3) : Operand{};
    const Numbers counts = s.ranks > 0 ? counts_of(random, s) : Numbers{};
    const Routes r = routes_of(s, logits.before, bias.before, counts);
    to.push_back({plan::OpKind::route,
                  s.text(),
                  attrs_of(s),
                  {logits, bias, s.ranks > 0 ? given(DType::f32, counts) : Operand{}},
                  {exactly(r.order), exactly(r.place), exactly(r.chosen), exactly(r.offsets),
                   written(DType::f32, r.weights), written(DType::f32, r.lse), written(DType::f32, r.sums)}});
  }
}

// The router's losses and weights as functions of the logits, with choices and shares held
Numbers routed(const Routed& s, const Numbers& logits, const Routes& held, const plan::RouteAttrs& a,
               int64_t padding) {
  Numbers out(static_cast<size_t>(s.copies()));
  double loss = 0;
  for (int64_t row = 0; row < s.rows(); ++row) {
    const Numbers w = weights_of(s, logits, held.chosen, row);
    for (int64_t j = 0; j < s.top; ++j) out[static_cast<size_t>(held.place[row * s.top + j])] = w[j];
    const int64_t sample = row / s.tokens;
    if (sample >= s.batch - padding) continue;
    const double all = terms(s, logits, row);
    loss += static_cast<double>(a.z) * std::log(all) * std::log(all);
    for (int64_t e = 0; e < s.experts; ++e) {
      const double share = held.sums[2 * sample * s.experts + e] * static_cast<double>(s.experts) /
                           static_cast<double>(s.top * s.all());
      loss += static_cast<double>(a.balance) * share * term(s, logits[row * s.experts + e]) / all /
              static_cast<double>(s.all());
    }
  }
  out.push_back(loss);
  return out;
}

Operand scalars_with(double scale, int64_t padding) {
  Numbers values(plan::kScalars);
  values[plan::kLossScale] = scale, values[plan::kTraining] = 1,
  values[plan::kPadding] = static_cast<double>(padding);
  return given(DType::f32, values);
}

void route_backward(Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Routed& s : kRouted)
      for (const bool losses : {false, true}) {
        if (s.experts > 100) continue;  // differences of that many take seconds
        const Operand logits = normals(random, DType::f32, s.rows() * s.experts),
                      all_dweights = normals(random, DType::f32, s.copies());
        const Routes r = routes_of(s, logits.before, {}, s.ranks > 0 ? counts_of(random, s) : Numbers{});
        Operand dweights = all_dweights;
        spoil_dropped(s, r, 1, dweights);
        plan::RouteAttrs a = attrs_of(s);
        if (losses) a.balance = 3, a.z = s.sigmoid ? 0 : 0.25f;
        const int64_t padding = losses && s.batch > 2 ? 1 : 0;
        const double scale = act == DType::f16 ? 4 : 1;
        Numbers slopes = dweights.before;
        for (double& slope : slopes) slope = std::isnan(slope) ? 0 : slope;
        slopes.push_back(scale);
        const Numbers want =
            gradient([&](const Numbers& v) { return routed(s, v, r, a, padding); }, logits.before, slopes);
        to.push_back({plan::OpKind::route_backward,
                      std::string(name_of(act)) + " " + s.text() + (losses ? " with losses" : ""),
                      a,
                      {logits, given(DType::f32, r.lse), whole(r.chosen), whole(r.place),
                       given(DType::f32, r.weights), dweights, given(DType::f32, r.sums),
                       scalars_with(scale, padding), s.capacity > 0 ? whole(r.offsets) : Operand{}},
                      {written(act, want, std::max(1e-4, 2 * cpu::testing::roundoff(act)))}});
      }
}

void router_metrics(Random& random, std::vector<OpCase>& to) {
  for (const Routed& s : kRouted) {
    const Routes r = routes_of(s, normals(random, DType::f32, s.rows() * s.experts).before);
    const int64_t padding = s.batch > 2 ? 1 : 0;
    plan::RouteAttrs a = attrs_of(s);
    a.weight = 0.125f;
    Numbers sum(3), load(static_cast<size_t>(s.experts));
    for (int64_t b = 0; b < s.batch - padding; ++b) {
      double largest = 0;
      for (int64_t e = 0; e < s.experts; ++e) {
        const double share = r.sums[2 * b * s.experts + e] * static_cast<double>(s.experts) /
                             static_cast<double>(s.top * s.all());
        largest = std::max(largest, share);
        const double beyond =
            s.capacity > 0 ? r.sums[2 * b * s.experts + e] - static_cast<double>(s.capacity) : 0;
        sum[2] += 0.125 * std::max(0.0, beyond) / static_cast<double>(s.top * s.all());
        load[e] += r.sums[2 * b * s.experts + e];
        sum[1] += 0.125 * share * r.sums[(2 * b + 1) * s.experts + e] / static_cast<double>(s.all());
      }
      sum[0] += 0.125 * largest;
    }
    to.push_back({plan::OpKind::router_metrics,
                  s.text(),
                  a,
                  {given(DType::f32, r.sums), scalars_with(1, padding)},
                  {added(random, DType::f32, sum), s.sigmoid ? added(random, DType::f32, load) : Operand{}}});
  }
}

// Experts with the mean of loads keep their bias.
void shift_bias(Random& random, std::vector<OpCase>& to) {
  for (const int64_t experts : {4, 300}) {
    Operand load = given(DType::f32, {}), bias = normals(random, DType::f32, experts);
    for (int64_t e = 0; e < experts; e += 2) {
      const double more = static_cast<double>(random.integer(0, 2));
      load.before.insert(load.before.end(), {7 + more, 7 - more});
    }
    Numbers want = bias.before;
    for (int64_t e = 0; e < experts; ++e)
      want[e] += load.before[e] < 7 ? 0.125 : load.before[e] > 7 ? -0.125 : 0;
    to.push_back({plan::OpKind::shift_bias,
                  std::to_string(experts),
                  plan::RouteAttrs{.rows = 1, .cols = experts, .weight = 0.125f},
                  {bias, load},
                  {in_place(0, bias, want)}});
  }
}

void moves(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Routed& s : kRouted)
      for (const int64_t cols : {24, 7, 1032}) {
        if (cols > 1000 && s.experts > 10) continue;
        const Routes r = routes_of(s, normals(random, DType::f32, s.rows() * s.experts).before, {},
                                   s.ranks > 0 ? counts_of(random, s) : Numbers{});
        const bool out = kind == plan::OpKind::dispatch;
        Operand x = normals(random, act, (out ? s.rows() : s.copies()) * cols);
        if (!out) spoil_dropped(s, r, cols, x);
        Numbers want(static_cast<size_t>((out ? s.copies() : s.rows()) * cols));
        for (int64_t i = 0; i < s.copies(); ++i)
          for (int64_t j = 0; j < cols; ++j) {
            const auto copy = static_cast<int64_t>(r.place[i]);
            if (out)
              want[copy * cols + j] = x.before[i / s.top * cols + j];
            else if (static_cast<double>(copy) < r.offsets.back())
              want[i / s.top * cols + j] += x.before[copy * cols + j];
          }
        to.push_back({kind,
                      std::string(name_of(act)) + " " + s.text() + " of " + std::to_string(cols),
                      plan::ExpertRowsAttrs{.rows = s.rows(), .cols = cols, .top = s.top},
                      out              ? std::vector<Operand>{x, whole(r.order)}
                      : s.capacity > 0 ? std::vector<Operand>{x, whole(r.place), whole(r.offsets)}
                                       : std::vector<Operand>{x, whole(r.place), {}},
                      {written(act, want)}});
      }
}

// Copies of some ranks' tokens for the experts of one
void expert_offsets(Random& random, std::vector<OpCase>& to) {
  struct Shape {
    int64_t ranks, held, rank;
  };
  for (const Shape& s : {Shape{2, 3, 0}, {4, 1, 3}, {3, 40, 1}}) {
    const int64_t experts = s.ranks * s.held;
    Numbers all, want{0};
    for (int64_t r = 0; r < s.ranks; ++r) {
      all.push_back(0);
      for (int64_t e = 0; e < experts; ++e)
        all.push_back(all.back() + std::floor(std::abs(random.normal(3))));
    }
    for (int64_t e = s.rank * s.held; e < (s.rank + 1) * s.held; ++e) {
      want.push_back(want.back());
      for (int64_t r = 0; r < s.ranks; ++r)
        want.back() += all[r * (experts + 1) + e + 1] - all[r * (experts + 1) + e];
    }
    to.push_back({plan::OpKind::expert_offsets,
                  std::to_string(s.held) + " of " + std::to_string(experts),
                  plan::HeldExpertsAttrs{
                      .ranks = s.ranks, .experts = experts, .first = s.rank * s.held, .held = s.held},
                  {whole(all)},
                  {exactly(want)}});
  }
}

// ---- grouped products ----

struct RowGroups {
  std::vector<int64_t> rows;
  int64_t n, k;
  int64_t all() const { return std::accumulate(rows.begin(), rows.end(), int64_t{0}); }
  Numbers offsets() const {
    Numbers at{0};
    for (const int64_t r : rows) at.push_back(at.back() + static_cast<double>(r));
    return at;
  }
};

// C of every group, from plain loops
Numbers products_of(const RowGroups& g, const plan::GroupedGemmAttrs& a, const Numbers& A, const Numbers& B) {
  const bool sums = a.trans_a;
  Numbers C(static_cast<size_t>((sums ? a.groups * a.m : a.m) * a.n));
  int64_t first = 0;
  for (size_t e = 0; e < g.rows.size(); first += g.rows[e++]) {
    const int64_t m = sums ? a.m : g.rows[e], k = sums ? g.rows[e] : a.k, at = static_cast<int64_t>(e);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < a.n; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p) {
          const double x = sums ? A[(first + p) * a.m + i] : A[(first + i) * a.k + p];
          const double y = sums        ? B[(first + p) * a.n + j]
                           : a.trans_b ? B[at * a.n * a.k + j * a.k + p]
                                       : B[at * a.n * a.k + p * a.n + j];
          sum += x * y;
        }
        C[((sums ? at * a.m : first) + i) * a.n + j] = sum;
      }
  }
  return C;
}

void grouped_gemm(Random& random, std::vector<OpCase>& to) {
  const std::vector<RowGroups> all = {{{5, 0, 17, 1}, 24, 40}, {{0, 70, 33, 130}, 72, 33}, {{3}, 8, 16}};
  for (const DType act : kActs)
    for (const RowGroups& g : all)
      for (const bool sums : {false, true})
        for (const bool trans_b : {false, true})
          for (const bool adds : {false, true}) {
            if (sums ? trans_b : adds) continue;
            const auto groups = static_cast<int64_t>(g.rows.size());
            const plan::GroupedGemmAttrs a{.m = sums ? g.k : g.all(),
                                           .n = g.n,
                                           .k = sums ? g.all() : g.k,
                                           .trans_a = sums,
                                           .trans_b = trans_b,
                                           .accumulate = adds,
                                           .groups = groups};
            const DType result = sums ? DType::f32 : act;  // of weights' gradients
            const Operand A = normals(random, act, g.all() * g.k),
                          B = normals(random, act, sums ? g.all() * g.n : groups * g.n * g.k);
            const Numbers want = products_of(g, a, A.before, B.before);
            to.push_back({plan::OpKind::grouped_gemm,
                          std::string(name_of(act)) + (sums ? " T" : " N") + (trans_b ? "T " : "N ") +
                              std::to_string(g.all()) + "x" + std::to_string(g.n) + "x" +
                              std::to_string(g.k) + (adds ? " adding" : ""),
                          a,
                          {A, B, whole(g.offsets())},
                          {adds ? added(random, result, want, 1e-4)
                                : written(result, want, result == DType::f32 ? 1e-4 : 0)}});
          }
}

}  // namespace

void add_expert_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  switch (kind) {
    case plan::OpKind::route:
      return route(random, to);
    case plan::OpKind::shift_bias:
      return shift_bias(random, to);
    case plan::OpKind::route_backward:
      return route_backward(random, to);
    case plan::OpKind::router_metrics:
      return router_metrics(random, to);
    case plan::OpKind::dispatch:
    case plan::OpKind::combine:
      return moves(kind, random, to);
    case plan::OpKind::expert_offsets:
      return expert_offsets(random, to);
    case plan::OpKind::grouped_gemm:
      return grouped_gemm(random, to);
    default:
      return;
  }
}

}  // namespace isobar::testing
