#include "tests/backend/op_case.h"

#include <limits>

namespace isobar::testing {

double as_held(DType t, double x) {
  switch (t) {
    case DType::bf16:
      return to_float(to_bf16(static_cast<float>(x)));
    case DType::f16:
      return to_float(to_f16(static_cast<float>(x)));
    default:
      return static_cast<float>(x);
  }
}

Operand given(DType t, Numbers values) {
  for (double& x : values) x = as_held(t, x);
  return {.type = t, .before = std::move(values)};
}

Operand normals(Random& random, DType t, int64_t n, double scale, double mean) {
  Numbers values(static_cast<size_t>(n));
  for (double& x : values) x = mean + random.normal(scale);
  return given(t, std::move(values));
}

namespace {

// Leaving out one of some thousand elements exceeds it.
double usual(DType t) {
  return t == DType::f32 ? 1e-5 : 2 * cpu::testing::roundoff(t);
}

}  // namespace

Operand written(DType t, Numbers want, double allowed) {
  Numbers nothing(want.size(), std::numeric_limits<double>::quiet_NaN());
  return {t, std::move(nothing), std::move(want), allowed > 0 ? allowed : usual(t)};
}

Operand added(Random& random, DType t, Numbers sum, double allowed) {
  Operand o = normals(random, t, static_cast<int64_t>(sum.size()));
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += o.before[i];
  o.want = std::move(sum);
  o.allowed = allowed > 0 ? allowed : usual(t);
  return o;
}

Operand in_place(int read, const Operand& was, Numbers want, double allowed) {
  Operand o = was;
  o.want = std::move(want);
  o.allowed = allowed > 0 ? allowed : usual(was.type);
  o.shares = read;
  return o;
}

std::string size_text(DType t, int64_t rows, int64_t cols) {
  return std::string(name_of(t)) + " " + std::to_string(rows) + "x" + std::to_string(cols);
}

Numbers gradient(const Function& f, Numbers x, const Numbers& weights) {
  const auto sum = [&] {
    const Numbers y = f(x);
    double s = 0;
    for (size_t i = 0; i < y.size(); ++i) s += weights[i] * y[i];
    return s;
  };
  Numbers slopes(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i], step = 1e-5 * std::max(1.0, std::abs(at));
    x[i] = at + step;
    const double above = sum();
    x[i] = at - step;
    slopes[i] = (above - sum()) / (2 * step);
    x[i] = at;
  }
  return slopes;
}

Numbers elementwise_gradient(const std::function<double(double)>& f, const Numbers& x,
                             const Numbers& weights) {
  Numbers slopes(x.size());
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < x.size(); ++i)
    slopes[i] = weights[i] * (f(x[i] + kStep) - f(x[i] - kStep)) / (2 * kStep);
  return slopes;
}

std::vector<OpCase> cases_of(plan::OpKind kind, Random& random) {
  std::vector<OpCase> all;
  for (const auto add : {add_product_cases, add_row_cases, add_move_cases, add_image_cases, add_class_cases,
                         add_language_cases, add_expert_cases, add_optimizer_cases})
    add(kind, random, all);
  return all;
}

}  // namespace isobar::testing
