#include "model/backend/cuda/libraries/fusion.h"

#include <algorithm>

#include "model/plan/link.h"

namespace isobar::cuda {
namespace {

bool same(const View& a, const View& b) {
  return a && a.buffer == b.buffer && a.offset == b.offset && a.count == b.count;
}

bool overlap(const Plan& plan, const View& a, const View& b) {
  if (!a || !b) return false;
  const auto [a0, a1] = address(plan, a, 0);  // slots shift both equally, or separate them
  const auto [b0, b1] = address(plan, b, 0);
  return a0 < b1 && b0 < a1;
}

class Finder {
 public:
  explicit Finder(const Plan& plan) : plan_(plan) {}

  std::vector<Fusion> all() {
    for (const Routine& r : plan_.routines) {
      first_ = r.first;
      end_ = r.first + r.count;
      std::vector<Fusion> sums;  // appended after the others
      for (int32_t p = first_; p < end_; ++p) {
        const Op& product = op(p);
        if (product.kind != OpKind::gemm || product.a.batch > 0 || product.a.fp8 ||
            product.lane != Lane::compute)
          continue;
        for (int32_t x = first_; x < end_; ++x) {
          if (op(x).lane != Lane::compute) continue;
          if (x > p && gelu(product, op(x)) && untouched(p, x, op(x).writes[0], op(x).reads[0]))
            found_.push_back({Fused::gelu, p, x});
          if (x > p && gelu_gradient(product, op(x)) && untouched(p, x, op(x).writes[0], op(x).reads[0]))
            found_.push_back({Fused::gelu_gradient, p, x});
          if (bias_gradient(product, op(x)) && untouched(p, x, sums_of(op(x)), product.reads[0]))
            sums.push_back({Fused::bias_gradient, p, x});
        }
      }
      for (const Fusion& f : sums)
        if (op(f.other).kind == OpKind::column_sum || has(Fused::gelu_gradient, f.other)) found_.push_back(f);
    }
    return std::move(found_);
  }

 private:
  const Op& op(int32_t i) const { return plan_.ops[static_cast<size_t>(i)]; }
  DType type(const View& v) const { return plan_.buffers[static_cast<size_t>(v.buffer)].dtype; }
  bool halves(const View& v) const { return v && size_of(type(v)) == 2; }
  bool has(Fused kind, int32_t other) const {
    return std::any_of(found_.begin(), found_.end(),
                       [&](const Fusion& f) { return f.kind == kind && f.other == other; });
  }
  static View sums_of(const Op& x) {
    return x.kind == OpKind::activation_backward ? x.writes[1] : x.writes[0];
  }

  // GELU's input is a second result with rows of n: cuBLASLt wants them aligned to 8 elements.
  bool takes_gelu(const Op& p, const Op& x) const {
    return x.a.activation == Activation::gelu_tanh && !p.a.accumulate && p.a.scale == 0 &&
           halves(p.reads[0]) && halves(p.writes[0]) && p.a.n % 8 == 0 && x.a.m * x.a.n == p.a.m * p.a.n &&
           type(x.reads[0]) == type(p.writes[0]);
  }
  bool gelu(const Op& p, const Op& x) const {
    return x.kind == OpKind::activation && takes_gelu(p, x) && same(x.reads[0], p.writes[0]) &&
           type(x.writes[0]) == type(p.writes[0]) && !overlap(plan_, x.writes[0], x.reads[0]);
  }
  bool gelu_gradient(const Op& p, const Op& x) const {
    return x.kind == OpKind::activation_backward && takes_gelu(p, x) && !p.reads[2] &&
           same(x.reads[1], p.writes[0]) && same(x.writes[0], p.writes[0]);
  }
  // The sums are of cuBLASLt's second operand, our first, which BGRADB wants transposed, and have C's type.
  bool bias_gradient(const Op& p, const Op& x) const {
    if (x.kind != OpKind::column_sum &&
        !(x.kind == OpKind::activation_backward && x.a.activation == Activation::gelu_tanh))
      return false;
    const View& dy = x.kind == OpKind::column_sum ? x.reads[0] : x.writes[0];
    const View sums = sums_of(x);
    return p.a.trans_a && !p.a.trans_b && halves(p.reads[0]) && same(dy, p.reads[0]) && x.a.m == p.a.k &&
           x.a.n == p.a.m && sums && type(sums) == DType::f32 && type(p.writes[0]) == DType::f32;
  }

  // True if x's work can move to p: no op between them writes those views or reads x's result, and p's own
  // scratch does not overlap it.
  bool untouched(int32_t p, int32_t x, const View& written, const View& read) const {
    for (int32_t i = std::min(p, x) + 1; i < std::max(p, x); ++i) {
      for (const View& v : op(i).writes)
        if (overlap(plan_, v, written) || overlap(plan_, v, read)) return false;
      for (const View& v : op(i).reads)
        if (overlap(plan_, v, written)) return false;
    }
    const Op& product = op(p);
    for (const auto* views : {&product.reads, &product.writes})
      for (const View& v : *views)
        if (overlap(plan_, v, written) && !same(v, product.writes[0])) return false;
    return !product.workspace || !overlap(plan_, product.writes.back(), read);
  }

  const Plan& plan_;
  int32_t first_ = 0, end_ = 0;
  std::vector<Fusion> found_;
};

}  // namespace

const char* name_of(Fused f) {
  constexpr const char* kNames[] = {"none", "gelu", "gelu_gradient", "bias_gradient"};
  return kNames[static_cast<int>(f)];
}

std::vector<Fusion> fusible(const Plan& plan) {
  return Finder(plan).all();
}

Plan fused(const Plan& plan, const std::vector<Fusion>& chosen) {
  Plan out = plan;
  for (const Fusion& f : chosen) {
    Op &p = out.ops[static_cast<size_t>(f.product)], &x = out.ops[static_cast<size_t>(f.other)];
    const auto move = [](View& from, std::vector<View>& to) {
      to.push_back(from);
      from = View{};
    };
    switch (f.kind) {
      case Fused::none:
        break;
      case Fused::gelu:
        x.reads[0] = View{};
        move(x.writes[0], p.writes);
        break;
      case Fused::gelu_gradient:  // du is read for its sums
        move(x.reads[0], p.reads);
        x.writes[0] = View{};
        break;
      case Fused::bias_gradient:
        move(x.kind == OpKind::column_sum ? x.writes[0] : x.writes[1], p.writes);
        for (View& v : x.reads) v = View{};
        if (x.workspace) x.writes.back() = View{};
        break;
    }
  }
  return out;
}

}  // namespace isobar::cuda
