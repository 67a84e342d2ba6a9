#include "bench/micro/inputs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "model/base/rng.h"

namespace isobar {
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
constexpr Values kScalarsHere{.mean = NAN};           // stands for the step's scalars in the tables below

// Scores of standard normal queries and keys are standard normal, so the mean of exp(score) is e^(1/2).
Values log_sum(const Op& op) {
  return {.mean = std::log(static_cast<float>(op.a.tk)) + 0.5f, .spread = 0};
}

// Class labels in f32, as loaders deliver them
Values class_of(const Op& op) {
  return {.below = std::max<int64_t>(1, op.a.n), .whole = true};
}

// Values by operand in the order of op.h; operands beyond the list get values by their buffer.
struct Table {
  std::vector<Values> reads, writes;
};

Table table_of(const Op& op) {
  switch (op.kind) {
    case OpKind::attention:
      return {{kActivation, kActivation, kActivation, kWeight}, {}};
    case OpKind::attention_backward:
      return {{kActivation, kActivation, kActivation, kActivation, log_sum(op), kGradient, kWeight}, {}};
    case OpKind::attention_merge:
      return {{kActivation, log_sum(op)}, {kActivation, log_sum(op)}};
    case OpKind::residual_norm:
      return {{kActivation, kActivation, kGain, kWeight}, {}};
    case OpKind::residual_norm_backward:
      return {{kActivation, kMean, kInverseDeviation, kGain, kGradient}, {}};
    case OpKind::residual_add:
      return {{kActivation, kActivation}, {}};
    case OpKind::roll:
      return {{kActivation, kActivation, kActivation}, {}};
    case OpKind::unroll:
      return {{kGradient}, {}};
    case OpKind::norm_residual:
      return {{kActivation, kActivation, kGain, kWeight}, {}};
    case OpKind::norm_residual_backward:
      return {{kActivation, kMean, kInverseDeviation, kGain, kGradient}, {}};
    case OpKind::activation:
      return {{kActivation}, {}};
    case OpKind::activation_backward:
      return {{kActivation, kGradient}, {}};
    case OpKind::column_sum:
    case OpKind::period_sum:
    case OpKind::squared_sum:
      return {{kGradient}, {}};
    case OpKind::loss_sums:
      return {{kActivation, kActivation, kCounts}, {}};
    case OpKind::loss:
      return {{kSum, kScalarsHere}, {kZero}};
    case OpKind::cross_entropy_max:
      return {{kActivation}, {}};
    case OpKind::cross_entropy_sums:
      return {{kActivation, class_of(op), kLargest}, {}};
    case OpKind::cross_entropy:
      return {{kActivation, class_of(op), kLargest, kExponentials, kScalarsHere}, {kZero, kZero}};
    case OpKind::dropout:
      return {{kActivation, kScalarsHere}, {}};
    case OpKind::dropout_backward:
      return {{kGradient, kZero, kScalarsHere}, {}};
    case OpKind::loss_backward:
      return {{kActivation, kActivation, kSum, kScalarsHere, kCounts}, {}};
    case OpKind::loss_scale:
      return {{kSquaredNorm, kScalarsHere}, {kSquaredNorm, kScalarsHere}};
    case OpKind::adam:
      return {{kGradient, kScalarsHere, kSquaredNorm}, {kWeight, kGradient, kSecondMoment, kWeight}};
    case OpKind::average:
      return {{kWeight, kScalarsHere}, {kWeight}};
    case OpKind::swap:
      return {{kWeight, kWeight}, {kWeight, kWeight}};
    case OpKind::sgd:
      return {{kGradient, kScalarsHere, kSquaredNorm}, {kWeight, kGradient, kWeight}};
    default:
      return {};
  }
}

// Values by buffer kind, for ops without a table: products, casts, copies, transfers
Values by_buffer(const Buffer& b, const Plan& plan) {
  switch (b.kind) {
    case BufferKind::params:
    case BufferKind::params16:
      return kWeight;
    case BufferKind::grads:
    case BufferKind::adam:
      return kGradient;
    case BufferKind::scratch: {
      const bool backward = b.routine >= 0 && plan.routines[b.routine].pass == Pass::backward;
      return backward ? kGradient : kActivation;
    }
    default:
      return kActivation;
  }
}

// Range of an integer index: rows of the table that is looked up, else the op's columns (classes)
int64_t index_range(const Op& op) {
  if (op.kind == OpKind::embedding) return op.reads[1].count / op.a.n;
  if (op.kind == OpKind::embedding_backward) return op.writes[0].count / op.a.n;
  return std::max<int64_t>(1, op.a.n);
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

std::vector<Operand> operands_of(const Op& op, const Plan& plan) {
  const Table table = table_of(op);
  std::vector<Operand> operands;
  const auto add = [&](const std::vector<View>& views, const std::vector<Values>& listed) {
    for (size_t i = 0; i < views.size(); ++i) {
      const View& view = views[i];
      if (!view || (op.workspace && &view == &op.writes.back())) continue;
      const Buffer& b = plan.buffers[view.buffer];
      if (b.kind == BufferKind::constants) continue;  // filled by Backend::load_constants
      Values values = i < listed.size() ? listed[i] : by_buffer(b, plan);
      const bool scalars = std::isnan(values.mean);
      if (b.dtype == DType::i32) values = {.below = index_range(op)};
      // f16 gradients come from a scaled loss, which keeps them normal numbers
      if (b.dtype == DType::f16 && values.spread == kGradient.spread) values.spread = 1;
      operands.push_back({view, values, scalars});
    }
  };
  add(op.writes, table.writes);
  add(op.reads, table.reads);
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
            static_cast<int32_t>(static_cast<float>(v.below) * uniform(1, stream, static_cast<uint64_t>(i)));
  }
}

void fill_inputs(const Op& op, const Plan& plan, const std::function<void*(const View&)>& at) {
  constexpr std::array<float, kScalars> kStepScalars = [] {
    std::array<float, kScalars> s{};
    s[kLearningRate] = 1e-4f;
    s[kStep] = 10;
    s[kLossScale] = s[kUnscale] = s[kTraining] = 1;
    return s;
  }();
  uint64_t stream = 0;
  for (const Operand& o : operands_of(op, plan)) {
    ++stream;
    if (o.scalars)
      std::copy_n(kStepScalars.begin(), std::min<int64_t>(kScalars, o.view.count),
                  static_cast<float*>(at(o.view)));
    else
      fill(o.values, plan.buffers[o.view.buffer].dtype, o.view.count, stream, at(o.view));
  }
}

}  // namespace isobar
