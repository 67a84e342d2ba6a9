// Norms, activations, sums of rows, dropout.
#include <cstring>
#include <numeric>
#include <tuple>

#include "model/base/philox.h"
#include "model/plan/plan.h"
#include "tests/backend/op_case.h"

namespace isobar::testing {
namespace {

constexpr double kEps = 1e-5;

struct Size {
  int64_t rows, cols;
};
constexpr std::initializer_list<Size> kSizes = {{5, 64}, {33, 63}, {1, 130}, {3, 520}};
constexpr std::initializer_list<Size> kSmall = {{5, 24}, {9, 7}, {1, 65}};  // sizes for finite differences

// Types of activations and of the residual stream
constexpr std::initializer_list<std::pair<DType, DType>> kStreams = {{DType::f32, DType::f32},
                                                                     {DType::bf16, DType::f32},
                                                                     {DType::f16, DType::f32},
                                                                     {DType::bf16, DType::bf16},
                                                                     {DType::f16, DType::f16}};

struct Normed {
  Numbers h, mean, rstd;
};

Normed norm_of(const Size& s, const Numbers& x, const Numbers& gamma, const Numbers& beta) {
  Normed n;
  for (int64_t r = 0; r < s.rows; ++r) {
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < s.cols; ++j) mean += x[r * s.cols + j] / static_cast<double>(s.cols);
    for (int64_t j = 0; j < s.cols; ++j)
      variance += std::pow(x[r * s.cols + j] - mean, 2) / static_cast<double>(s.cols);
    const double rstd = 1 / std::sqrt(variance + kEps);
    for (int64_t j = 0; j < s.cols; ++j)
      n.h.push_back((x[r * s.cols + j] - mean) * rstd * gamma[j] + beta[j]);
    n.mean.push_back(mean);
    n.rstd.push_back(rstd);
  }
  return n;
}

Numbers column_sums(const Size& s, const Numbers& x) {
  Numbers sums(static_cast<size_t>(s.cols));
  for (int64_t i = 0; i < s.rows * s.cols; ++i) sums[i % s.cols] += x[i];
  return sums;
}

Numbers plus(Numbers x, const Numbers& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}

plan::NormAttrs norm_attrs(const Size& s) {
  return {.rows = s.rows, .cols = s.cols, .eps = static_cast<float>(kEps)};
}

// h = LayerNorm(residual + y), where y may be absent and the residual may repeat
void residual_norm(Random& random, std::vector<OpCase>& to) {
  for (const auto& [act, stream] : kStreams)
    for (const Size& s : kSizes)
      for (const bool repeats : {false, true}) {
        plan::NormAttrs a = norm_attrs(s);
        if (repeats) a.period = 4, a.row0 = 3;
        const bool has_y = repeats || s.rows != 3;
        const int64_t n = s.rows * s.cols;
        const Operand residual = normals(random, stream, repeats ? a.period * s.cols : n, 2, 1),
                      y = has_y ? normals(random, act, n) : Operand{},
                      gamma = normals(random, DType::f32, s.cols), beta = normals(random, DType::f32, s.cols);
        Numbers x;
        for (int64_t i = 0; i < n; ++i) {
          const int64_t row = repeats ? (a.row0 + i / s.cols) % a.period : i / s.cols;
          x.push_back(
              as_held(stream, residual.before[row * s.cols + i % s.cols] + (has_y ? y.before[i] : 0)));
        }
        const Normed want = norm_of(s, x, gamma.before, beta.before);
        to.push_back({plan::OpKind::residual_norm,
                      size_text(act, s.rows, s.cols) + " on " + name_of(stream) +
                          (repeats ? " repeating" : "") + (has_y ? "" : " alone"),
                      a,
                      {residual, y, gamma, beta},
                      {has_y ? written(stream, x) : Operand{}, written(act, want.h),
                       written(DType::f32, want.mean), written(DType::f32, want.rstd)}});
      }
}

// y = residual + LayerNorm(x)
void norm_residual(Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Size& s : kSizes)
      for (const bool has_residual : {false, true}) {
        const int64_t n = s.rows * s.cols;
        const Operand x = normals(random, act, n, 2, 1),
                      residual = has_residual ? normals(random, DType::f32, n) : Operand{},
                      gamma = normals(random, DType::f32, s.cols), beta = normals(random, DType::f32, s.cols);
        const Normed want = norm_of(s, x.before, gamma.before, beta.before);
        to.push_back({plan::OpKind::norm_residual,
                      size_text(act, s.rows, s.cols) + (has_residual ? " and a residual" : ""),
                      norm_attrs(s),
                      {x, residual, gamma, beta},
                      {written(act, want.h),
                       has_residual ? written(DType::f32, plus(want.h, residual.before)) : Operand{},
                       written(DType::f32, want.mean), written(DType::f32, want.rstd)}});
      }
}

void norm_backward(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  const bool of_residual = kind == plan::OpKind::residual_norm_backward;
  for (const auto& [act, stream] : kStreams)
    for (const Size& s : kSmall)
      for (const bool adds : {false, true}) {
        if (!of_residual && stream != act) continue;
        const int64_t n = s.rows * s.cols;
        const DType type = stream;
        const Operand x = normals(random, type, n), gamma = normals(random, DType::f32, s.cols, 0.5, 1),
                      beta = normals(random, DType::f32, s.cols), dh = normals(random, act, n);
        const Normed f = norm_of(s, x.before, gamma.before, beta.before);
        const auto slope = [&](const Operand& of, const Function& g) {
          return gradient(g, of.before, dh.before);
        };
        const Numbers dx =
            slope(x, [&](const Numbers& v) { return norm_of(s, v, gamma.before, beta.before).h; });
        const Numbers dgamma =
            slope(gamma, [&](const Numbers& v) { return norm_of(s, x.before, v, beta.before).h; });
        const Numbers dbeta =
            slope(beta, [&](const Numbers& v) { return norm_of(s, x.before, gamma.before, v).h; });
        plan::NormAttrs a = norm_attrs(s);
        a.accumulate = adds;
        a.first = of_residual && !adds;
        const auto sum = [&](const Numbers& want) {
          return adds ? added(random, DType::f32, want, 1e-4) : written(DType::f32, want, 1e-4);
        };
        // A row of one number, or one that is nearly all mean, cancels.
        const double allowed = std::max(1e-4, 2 * cpu::testing::roundoff(type));
        const Operand slopes =
            of_residual && adds ? added(random, type, dx, allowed) : written(type, dx, allowed);
        OpCase c{kind,
                 size_text(act, s.rows, s.cols) + " on " + name_of(type) + (adds ? " adding" : ""),
                 a,
                 {x, given(DType::f32, f.mean), given(DType::f32, f.rstd), gamma, dh},
                 {slopes}};
        if (of_residual)
          c.writes.push_back(written(act, slopes.want, std::max(1e-4, 2 * cpu::testing::roundoff(act))));
        c.writes.push_back(sum(dgamma));
        c.writes.push_back(sum(dbeta));
        Operand dbias = sum(column_sums(s, slopes.want));
        // A kernel sums rounded numbers if dx has 16 bits, and they may nearly cancel.
        dbias.allowed = type == DType::f32 ? 1e-3 : 0.1;
        c.writes.push_back(dbias);
        to.push_back(std::move(c));
      }
}

void residual_add(Random& random, std::vector<OpCase>& to) {
  for (const auto& [act, stream] : kStreams)
    for (const Size& s : kSizes) {
      const Operand residual = normals(random, stream, s.rows * s.cols),
                    y = normals(random, act, s.rows * s.cols);
      to.push_back({plan::OpKind::residual_add,
                    size_text(act, s.rows, s.cols),
                    plan::AddAttrs{s.rows, s.cols},
                    {residual, y},
                    {written(stream, plus(residual.before, y.before))}});
      // The residual repeats, and the rows begin within a period.
      const int64_t period = (s.rows + 1) / 2, row0 = period / 3;
      const Operand repeats = normals(random, stream, period * s.cols);
      Numbers sum = y.before;
      for (int64_t r = 0; r < s.rows; ++r)
        for (int64_t i = 0; i < s.cols; ++i)
          sum[r * s.cols + i] += repeats.before[(row0 + r) % period * s.cols + i];
      to.push_back({plan::OpKind::residual_add,
                    size_text(act, s.rows, s.cols) + " period " + std::to_string(period),
                    plan::AddAttrs{s.rows, s.cols, period, row0},
                    {repeats, y},
                    {written(stream, sum)}});
    }
}

double value_of(Activation f, double u) {
  switch (f) {
    case Activation::gelu:
      return u / 2 * (1 + std::erf(u / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return u / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (u + 0.044715 * u * u * u)));
    case Activation::relu:
      return std::max(u, 0.0);
    case Activation::silu:
      return u / (1 + std::exp(-u));
    case Activation::tanh:
      return std::tanh(u);
  }
  throw std::logic_error("an activation without a formula");
}

void activation(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Size& s : kSizes)
      for (const Activation f : cpu::testing::kFunctions) {
        plan::ActivationAttrs a{.rows = s.rows, .cols = s.cols, .function = f};
        Operand u = normals(random, act, s.rows * s.cols, 2);
        for (double& x : u.before)  // differences must not straddle ReLU's kink
          if (std::abs(x) < 1e-3) x = 0.5;
        const auto value = [f](double x) { return value_of(f, x); };
        const std::string what = size_text(act, s.rows, s.cols) + " " + name_of(f);
        if (kind == plan::OpKind::activation) {
          Numbers g;
          for (const double x : u.before) g.push_back(value(x));
          to.push_back({kind, what, a, {u}, {written(act, g)}});
          continue;
        }
        const Operand dg = normals(random, act, s.rows * s.cols);
        const Numbers du = elementwise_gradient(value, u.before, dg.before);
        a.accumulate = s.rows > 5;
        const Numbers sums = column_sums(s, du);
        const double allowed = act == DType::f32 ? 1e-4 : 4 * cpu::testing::roundoff(act);
        to.push_back({kind,
                      what,
                      a,
                      {u, dg},
                      {written(act, du), a.accumulate ? added(random, DType::f32, sums, allowed)
                                                      : written(DType::f32, sums, allowed)}});
      }
}

void column_sum(Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Size& s : kSizes) {
      const Operand x = normals(random, act, s.rows * s.cols);
      plan::SumAttrs a{.rows = s.rows, .cols = s.cols};
      a.accumulate = s.rows > 5;
      const Numbers sums = column_sums(s, x.before);
      to.push_back({plan::OpKind::column_sum,
                    size_text(act, s.rows, s.cols),
                    a,
                    {x},
                    {a.accumulate ? added(random, DType::f32, sums) : written(DType::f32, sums)}});
    }
}

// Some periods are incomplete: positions without rows are zero.
void period_sum(Random& random, std::vector<OpCase>& to) {
  for (const auto& [rows, cols, period, row0] :
       {std::tuple<int64_t, int64_t, int64_t, int64_t>{24, 33, 6, 0}, {7, 65, 9, 4}, {5, 64, 5, 2}})
    for (const bool adds : {false, true}) {
      const Operand dx = normals(random, DType::f32, rows * cols);
      Numbers sums(static_cast<size_t>(period * cols));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < cols; ++j) sums[(row0 + r) % period * cols + j] += dx.before[r * cols + j];
      to.push_back({plan::OpKind::period_sum,
                    size_text(DType::f32, rows, cols) + (adds ? " adding" : ""),
                    plan::PeriodSumAttrs{
                        .rows = rows, .cols = cols, .accumulate = adds, .period = period, .row0 = row0},
                    {dx},
                    {adds ? added(random, DType::f32, sums) : written(DType::f32, sums)}});
    }
}

// Each element against its own draw; in validation nothing is dropped. One size has two tokens of each
// sample's five, from the second on.
void dropout(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Size& s : kSizes)
      for (const double training : {1.0, 0.0}) {
        const bool cut = s.rows == 33;
        plan::DropoutAttrs a{
            .rows = s.rows, .cols = s.cols, .period = 50, .row0 = 3, .rate = 0.3f, .stream = 5, .seed = 1234};
        const bool zig_zag = cut && act != DType::f32;
        if (cut) a.sample = 5, a.tokens = zig_zag ? TokenRuns{0, 1, 3, 1} : TokenRuns{1, 2};
        OpCase c{kind, size_text(act, s.rows, s.cols) + (training > 0 ? "" : " of a validation"), a, {}, {}};
        Operand scalars = given(DType::f32, Numbers(plan::kScalars, 0.0));
        scalars.before[plan::kTraining] = training;
        scalars.before[plan::kStep] = 7;
        const Operand x = normals(random, act, s.rows * s.cols);
        const int64_t step = 7 + (act == DType::f16 ? 1 : 0);  // fp16 counts a step when it has ended
        const DropoutDraw draw{1234, 5, a.rate, step};
        Numbers want = x.before;
        for (int64_t i = 0; i < x.count() && training > 0; ++i) {
          const int64_t row = a.row0 + i / s.cols,
                        of_step = cut ? row / 2 * 5 + (zig_zag ? row % 2 * 3 : 1 + row % 2) : row;
          const int64_t number = of_step * s.cols + i % s.cols;
          want[i] *= draw.factor(draw.words(number / 4), static_cast<int>(number % 4));
        }
        // Four bytes of the mask are one integer here.
        const bool masked = s.cols == 64 && training > 0;
        std::vector<uint8_t> kept(static_cast<size_t>(x.count()));
        for (size_t i = 0; i < kept.size(); ++i) kept[i] = want[i] != 0 || x.before[i] == 0 ? 1 : 0;
        Operand mask{.type = DType::i32, .before = {}};
        for (size_t i = 0; masked && i < kept.size(); i += 4) {
          int32_t word = 0;
          std::memcpy(&word, &kept[i], sizeof word);
          mask.before.push_back(static_cast<double>(word));
        }
        c.writes = {in_place(0, x, want)};
        if (kind == plan::OpKind::dropout) {
          c.reads = {x, scalars};
          c.writes.push_back(
              masked ? Operand{DType::i32, Numbers(mask.before.size(), 0.0), mask.before, 1e-12} : Operand{});
        } else {
          c.reads = {x, mask, scalars};
        }
        if (masked) c.what += " with a mask";
        to.push_back(std::move(c));
      }
}

}  // namespace

void add_row_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  switch (kind) {
    case plan::OpKind::residual_norm:
      return residual_norm(random, to);
    case plan::OpKind::norm_residual:
      return norm_residual(random, to);
    case plan::OpKind::residual_norm_backward:
    case plan::OpKind::norm_residual_backward:
      return norm_backward(kind, random, to);
    case plan::OpKind::residual_add:
      return residual_add(random, to);
    case plan::OpKind::activation:
    case plan::OpKind::activation_backward:
      return activation(kind, random, to);
    case plan::OpKind::column_sum:
      return column_sum(random, to);
    case plan::OpKind::period_sum:
      return period_sum(random, to);
    case plan::OpKind::dropout:
    case plan::OpKind::dropout_backward:
      return dropout(kind, random, to);
    default:
      return;
  }
}

}  // namespace isobar::testing
