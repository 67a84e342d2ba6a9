// Gradient norms, loss scaling, updates, moving averages.
#include "model/plan/parameter_groups.h"
#include "model/plan/plan.h"
#include "tests/backend/op_case.h"

#include <bit>

namespace isobar::testing {
namespace {

constexpr std::initializer_list<DType> kGrads = {DType::f32, DType::bf16};

Operand scalars_of(double rate, double step, double scale) {
  Operand s = given(DType::f32, Numbers(plan::kScalars, 0.0));
  s.before[plan::kLearningRate] = as_held(DType::f32, rate);
  s.before[plan::kStep] = step;
  s.before[plan::kLossScale] = scale;
  s.before[plan::kUnscale] = 1 / scale;
  return s;
}

void squared_sum(Random& random, std::vector<OpCase>& to) {
  for (const DType t : kGrads)
    for (const int64_t n : {1, 63, 20001})
      for (const bool adds : {false, true}) {
        const Operand x = normals(random, t, n);
        double sum = 0;
        for (const double v : x.before) sum += v * v;
        to.push_back({plan::OpKind::squared_sum,
                      size_text(t, 1, n) + (adds ? " adding" : ""),
                      plan::ElementsAttrs{.count = n, .accumulate = adds},
                      {x},
                      {adds ? added(random, DType::f32, {sum}) : written(DType::f32, {sum})}});
      }
}

// A finite norm, the last one of its window, and an overflow
void loss_scale(std::vector<OpCase>& to) {
  for (const int which : {0, 1, 2}) {
    const bool overflow = which == 2, last = which == 1;
    Operand norm2 = given(DType::f32, {overflow ? INFINITY : 640.0}), scalars = scalars_of(1e-3, 4, 8);
    scalars.before[plan::kGoodSteps] = last ? 9 : 3;
    Numbers want = scalars.before;
    want[plan::kUnscale] = overflow ? 0 : 1.0 / 8;
    want[plan::kLossScale] = overflow ? 4 : last ? 16 : 8;
    want[plan::kGoodSteps] = overflow || last ? 0 : 4;
    want[plan::kStep] = overflow ? 4 : 5;
    OpCase c{plan::OpKind::loss_scale,
             overflow ? "overflow"
             : last   ? "last of a window"
                      : "finite",
             plan::LossScaleAttrs{.least = 1, .window = 10},
             {norm2, scalars},
             {}};
    c.writes = {overflow ? in_place(0, norm2, {}) : in_place(0, norm2, {10.0}), in_place(1, scalars, want)};
    to.push_back(std::move(c));
  }
}

// Two groups of parameters: factors on rate and decay of the elements up to an end
struct Groups {
  int64_t end;
  double rate, decay;
};

// torch.optim.AdamW, Adam and SGD with momentum, after torch.nn.utils.clip_grad_norm_
void update(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  for (const DType grads : kGrads)
    for (const int64_t n : {16, 63, 4100})
      for (const int which : {0, 1, 2}) {
        const bool adam = kind == plan::OpKind::adam, clips = which == 1, grouped = which == 2;
        OpCase c{kind,
                 size_text(grads, 1, n) + (clips     ? " clipped"
                                           : grouped ? " in groups"
                                                     : ""),
                 {},
                 {},
                 {}};
        const plan::AdamAttrs t{.count = n,
                                .beta1 = 0.875,
                                .beta2 = 0.9375,
                                .eps = 0x1p-20f,
                                .weight_decay = 0.125,
                                .decoupled = which != 0,
                                .clip = 1};
        const plan::SgdAttrs sgd{
            .count = n, .momentum = 0.75, .weight_decay = t.weight_decay, .clip = t.clip};
        c.attrs = adam ? plan::Attrs(t) : plan::Attrs(sgd);
        const double rate = 0x1p-7, step = 3, unscale = 0.5;
        const Operand g = normals(random, grads, n), p = normals(random, DType::f32, n),
                      m = normals(random, DType::f32, n);
        Operand v = normals(random, DType::f32, n);
        for (double& x : v.before) x = std::abs(x);
        const Operand scalars = scalars_of(rate, step, 1 / unscale);
        const double norm = 4, factor = unscale * (clips ? 1 / (norm + 1e-6) : 1);
        const Groups groups[] = {{grouped ? 16 : n, 1, 1}, {n, 0.5, 0}};
        Numbers p1, m1, v1;
        for (int64_t i = 0; i < n; ++i) {
          const Groups& of = groups[i < groups[0].end ? 0 : 1];
          const double lr = rate * of.rate, decay = t.weight_decay * of.decay;
          double grad = g.before[i] * factor, w = p.before[i];
          if (!adam) {
            m1.push_back(sgd.momentum * m.before[i] + grad + decay * w);
            p1.push_back(w - lr * m1.back());
            continue;
          }
          if (t.decoupled)
            w -= lr * decay * w;
          else
            grad += decay * w;
          m1.push_back(t.beta1 * m.before[i] + (1 - t.beta1) * grad);
          v1.push_back(t.beta2 * v.before[i] + (1 - t.beta2) * grad * grad);
          const double root = std::sqrt(v1.back() / (1 - std::pow(static_cast<double>(t.beta2), step)));
          p1.push_back(w -
                       lr * m1.back() / (1 - std::pow(static_cast<double>(t.beta1), step)) / (root + t.eps));
        }
        const auto state = [](Operand was, const Numbers& want) {
          was.want = want;
          was.allowed = 1e-5;
          return was;
        };
        c.reads = {g, scalars, clips ? given(DType::f32, {norm * norm}) : Operand{}};
        if (grouped) {
          Operand words{.type = DType::i32, .before = {}};
          for (const Groups& of : groups) {
            words.before.push_back(
                static_cast<double>((of.end + plan::kGroupElements - 1) / plan::kGroupElements));
            for (const double x : {of.rate, of.decay})
              words.before.push_back(std::bit_cast<int32_t>(static_cast<float>(x)));
          }
          c.reads.push_back(words);
        }
        c.writes = {state(p, p1), state(m, m1)};
        if (adam) c.writes.push_back(state(v, v1));
        c.writes.push_back(grads == DType::f32 ? Operand{} : written(DType::bf16, p1));
        to.push_back(std::move(c));
      }
}

void average(Random& random, std::vector<OpCase>& to) {
  for (const int64_t n : {1, 63, 4100})
    for (const double unscale : {1.0, 0.0}) {  // 0: this step is skipped
      const Operand x = normals(random, DType::f32, n);
      Operand scalars = scalars_of(1e-3, 3, 1), mean = normals(random, DType::f32, n);
      scalars.before[plan::kUnscale] = unscale;
      mean.want = mean.before;
      for (int64_t i = 0; i < n && unscale > 0; ++i) mean.want[i] += 0.25 * (x.before[i] - mean.before[i]);
      mean.allowed = 1e-6;
      to.push_back({plan::OpKind::average,
                    size_text(DType::f32, 1, n) + (unscale > 0 ? "" : " skipped"),
                    plan::AverageAttrs{.count = n, .rate = 0.25f},
                    {x, scalars},
                    {mean}});
    }
}

}  // namespace

void add_optimizer_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  if (kind == plan::OpKind::squared_sum) squared_sum(random, to);
  if (kind == plan::OpKind::loss_scale) loss_scale(to);
  if (kind == plan::OpKind::adam || kind == plan::OpKind::sgd) update(kind, random, to);
  if (kind == plan::OpKind::average) average(random, to);
}

}  // namespace isobar::testing
