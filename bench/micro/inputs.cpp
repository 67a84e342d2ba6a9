#include "bench/micro/inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "model/base/rng.h"
#include "model/plan/ops/op_table.h"
#include "model/plan/ops/operands.h"

namespace isobar::micro {
namespace {

constexpr Values kActivation{}, kZero{.spread = 0};
constexpr Values kWeight{.spread = 0.02f}, kGain{.mean = 1, .spread = 0.02f};
constexpr Values kGradient{.spread = 1e-3f};
constexpr Values kSecondMoment{.mean = 1e-6f, .spread = 1e-6f, .positive = true};
constexpr Values kMean{.spread = 0.05f}, kInverseDeviation{.mean = 1, .spread = 0.05f};
constexpr Values kSum{.mean = 1e4f, .spread = 1e2f};  // sum of squares over a sample
constexpr Values kLargest{.mean = 3, .spread = 0.3f},
    kExponentials{.mean = 2, .spread = 0.3f, .positive = true};
constexpr Values kSquaredNorm{.mean = 1, .spread = 0};
constexpr Values kCounts{.below = 2, .whole = true};  // mask: 0 or 1
constexpr Values kScalarsHere{.mean = NAN};           // stands for the step's scalars

// Scores of standard normal queries and keys are standard normal, so the mean of exp(score) is e^(1/2).
Values log_sum(const plan::Op& op) {
  return {.mean = std::log(static_cast<float>(plan::attention_in(op.attrs)->tk)) + 0.5f, .spread = 0};
}

// Class labels in f32, as loaders deliver them
Values class_of(const plan::Op& op) {
  return {.below = std::max<int64_t>(1, plan::extent_of(op.attrs).cols), .whole = true};
}

// Values that an operand's name in the op table stands for, in every kind that has it; none: its buffer says
std::optional<Values> by_name(const plan::Op& op, std::string_view name) {
  if (name == "lse" && plan::attention_in(op.attrs)) return log_sum(op);
  if (name == "labels") return class_of(op);
  if (name == "sums") return op.kind == plan::OpKind::cross_entropy ? kExponentials : kSum;
  if (name == "v") return op.kind == plan::OpKind::adam ? kSecondMoment : kActivation;
  if (name == "mask") return op.kind == plan::OpKind::dropout_backward ? kZero : kCounts;
  if (name == "bias" && (op.kind == plan::OpKind::attention || op.kind == plan::OpKind::attention_backward))
    return kWeight;
  if (name.starts_with('d') && name != "dropped") return kGradient;
  for (const auto& [names, values] : std::initializer_list<std::pair<std::string_view, Values>>{
           {" q k o u residual pred target logits prediction before forcing ", kActivation},
           {" gamma ", kGain},
           {" beta param param16 average ", kWeight},
           {" grad m momentum ", kGradient},
           {" mean ", kMean},
           {" rstd ", kInverseDeviation},
           {" largest ", kLargest},
           {" norm2 ", kSquaredNorm},
           {" metrics ", kZero},
           {" scalars ", kScalarsHere}})
    if (names.find(" " + std::string(name) + " ") != std::string_view::npos) return values;
  return std::nullopt;
}

// Values by buffer kind, of operands whose name says nothing: of products, casts, copies, transfers
Values by_buffer(const plan::Buffer& b, const plan::Plan& plan) {
  switch (b.kind) {
    case plan::BufferKind::params:
    case plan::BufferKind::params16:
      return kWeight;
    case plan::BufferKind::grads:
    case plan::BufferKind::adam:
      return kGradient;
    case plan::BufferKind::scratch: {
      const bool backward = b.routine >= 0 && plan.routines[b.routine].pass == plan::Pass::backward;
      return backward ? kGradient : kActivation;
    }
    default:
      return kActivation;
  }
}

// Range of an integer index: rows of the table that is looked up, tokens and their copies that experts have,
// else the op's columns (classes)
int64_t index_range(const plan::Op& op, std::string_view name) {
  const auto* rows = std::get_if<plan::ExpertRowsAttrs>(&op.attrs);
  const auto* route = std::get_if<plan::RouteAttrs>(&op.attrs);
  if (rows && name == "order") return rows->rows;
  if (name == "place") return rows ? rows->rows * rows->top : route->rows * route->top;
  if (op.kind == plan::OpKind::embedding)
    return plan::in<plan::OpKind::embedding>(op, "table").count / plan::extent_of(op.attrs).cols;
  if (op.kind == plan::OpKind::embedding_backward)
    return std::max<int64_t>(
        1, plan::out<plan::OpKind::embedding_backward>(op, "dtable").count / plan::extent_of(op.attrs).cols);
  return std::max<int64_t>(1, plan::extent_of(op.attrs).cols);
}

// Groups of rows are equally large.
Values integers_of(const plan::Op& op, std::string_view name) {
  const auto* grouped = std::get_if<plan::GroupedGemmAttrs>(&op.attrs);
  if (grouped && name == "offsets") return {.upto = grouped->trans_a ? grouped->k : grouped->m};
  const auto* rows = std::get_if<plan::RowsAttrs>(&op.attrs);
  if (rows && name == "offsets") return {.upto = rows->rows};
  return {.below = index_range(op, name)};
}

// A prime length avoids equal rows in an operand
const std::vector<float>& normals() {
  static const std::vector<float> table = [] {
    std::vector<float> z(65521);
    for (size_t i = 0; i < z.size(); ++i) z[i] = normal(0x15, 0xba2, i);
    return z;
  }();
  return table;
}

template <class T, class Convert>
void fill_as(const Values& v, int64_t count, uint64_t stream, void* to, const Convert& convert) {
  if (v.whole) {
    for (int64_t i = 0; i < count; ++i)
      static_cast<T*>(to)[i] =
          convert(std::floor(static_cast<float>(v.below) * uniform(1, stream, static_cast<uint64_t>(i))));
    return;
  }
  const std::vector<float>& z = normals();
  size_t at = stream * 7919 % z.size();
  T* out = static_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = convert(v.mean + v.spread * (v.positive ? std::abs(z[at]) : z[at]));
    if (++at == z.size()) at = 0;
  }
}

}  // namespace

std::vector<Operand> operands_of(const plan::Op& op, const plan::Plan& plan) {
  std::vector<Operand> operands;
  const auto add = [&](const std::vector<plan::View>& views, std::span<const plan::Role> roles) {
    for (size_t i = 0; i < views.size(); ++i) {
      const plan::View& view = views[i];
      if (!view || (op.workspace && &view == &op.writes.back())) continue;
      const plan::Buffer& b = plan.buffers[view.buffer];
      if (b.kind == plan::BufferKind::constants) continue;  // filled by Backend::load_constants
      Values values =
          (i < roles.size() ? by_name(op, roles[i].name) : std::nullopt).value_or(by_buffer(b, plan));
      const bool scalars = std::isnan(values.mean);
      if (b.dtype == DType::i32) values = integers_of(op, i < roles.size() ? roles[i].name : "");
      // f16 gradients come from a scaled loss, which keeps them normal numbers
      if (b.dtype == DType::f16 && values.spread == kGradient.spread) values.spread = 1;
      operands.push_back({view, values, scalars});
    }
  };
  add(op.writes, plan::writes_of(op.kind));
  add(op.reads, plan::reads_of(op.kind));
  return operands;
}

void fill(const Values& v, DType t, int64_t count, uint64_t stream, void* to) {
  switch (t) {
    case DType::f32:
      return fill_as<float>(v, count, stream, to, [](float x) { return x; });
    case DType::bf16:
      return fill_as<bf16>(v, count, stream, to, [](float x) { return to_bf16(x); });
    case DType::f16:
      return fill_as<f16>(v, count, stream, to, [](float x) { return to_f16(x); });
    case DType::i32:
      for (int64_t i = 0; i < count; ++i)
        static_cast<int32_t*>(to)[i] =
            v.upto > 0 ? static_cast<int32_t>(i * v.upto / (count - 1))
                       : static_cast<int32_t>(static_cast<float>(v.below) *
                                              uniform(1, stream, static_cast<uint64_t>(i)));
  }
}

void fill_inputs(const plan::Op& op, const plan::Plan& plan,
                 const std::function<void*(const plan::View&)>& at) {
  constexpr std::array<float, plan::kScalars> kStepScalars = [] {
    std::array<float, plan::kScalars> s{};
    s[plan::kLearningRate] = 1e-4f;
    s[plan::kStep] = 10;
    s[plan::kLossScale] = s[plan::kUnscale] = s[plan::kTraining] = 1;
    return s;
  }();
  uint64_t stream = 0;
  for (const Operand& o : operands_of(op, plan)) {
    ++stream;
    if (o.scalars)
      std::copy_n(kStepScalars.begin(), std::min<int64_t>(plan::kScalars, o.view.count),
                  static_cast<float*>(at(o.view)));
    else
      fill(o.values, plan.buffers[o.view.buffer].dtype, o.view.count, stream, at(o.view));
  }
}

}  // namespace isobar::micro
