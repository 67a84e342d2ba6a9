#include "model/backend/cuda/libraries/fusion.h"

#include <algorithm>

#include "model/plan/link.h"
#include "model/plan/ops/operands.h"

namespace isobar::cuda {
namespace {

constexpr OpKind kGemm = OpKind::gemm, kActivation = OpKind::activation,
                 kGradient = OpKind::activation_backward, kColumnSum = OpKind::column_sum;

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
        if (product.kind != kGemm || product.as<GemmAttrs>().batch > 0 || product.as<GemmAttrs>().fp8 ||
            product.lane != Lane::compute)
          continue;
        for (int32_t x = first_; x < end_; ++x) {
          if (op(x).lane != Lane::compute) continue;
          const Op& other = op(x);
          if (x > p && gelu(product, other) &&
              untouched(p, x, out<kActivation>(other, "g"), in<kActivation>(other, "u")))
            found_.push_back({Fused::gelu, p, x});
          if (x > p && gelu_gradient(product, other) &&
              untouched(p, x, out<kGradient>(other, "du"), in<kGradient>(other, "u")))
            found_.push_back({Fused::gelu_gradient, p, x});
          if (bias_gradient(product, other) && untouched(p, x, sums_of(other), in<kGemm>(product, "A")))
            sums.push_back({Fused::bias_gradient, p, x});
        }
      }
      for (const Fusion& f : sums)
        if (op(f.other).kind == kColumnSum || has(Fused::gelu_gradient, f.other)) found_.push_back(f);
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
  static const View& sums_of(const Op& x) {
    return x.kind == kGradient ? out<kGradient>(x, "dbias") : out<kColumnSum>(x, "sum");
  }

  // GELU's input `u` is a second result with rows of n: cuBLASLt wants them aligned to 8 elements.
  bool takes_gelu(const Op& p, const Op& x, const View& u) const {
    const View& c = out<kGemm>(p, "C");
    const auto& product = p.as<GemmAttrs>();
    const auto& a = x.as<ActivationAttrs>();
    return a.function == Activation::gelu_tanh && !product.accumulate && product.scale == 1 &&
           halves(in<kGemm>(p, "A")) && halves(c) && product.n % 8 == 0 &&
           a.rows * a.cols == product.m * product.n && type(u) == type(c);
  }
  bool gelu(const Op& p, const Op& x) const {
    if (x.kind != kActivation) return false;
    const View &u = in<kActivation>(x, "u"), &g = out<kActivation>(x, "g"), &c = out<kGemm>(p, "C");
    return takes_gelu(p, x, u) && same(u, c) && type(g) == type(c) && !overlap(plan_, g, u);
  }
  bool gelu_gradient(const Op& p, const Op& x) const {
    if (x.kind != kGradient) return false;
    const View& c = out<kGemm>(p, "C");
    return takes_gelu(p, x, in<kGradient>(x, "u")) && !in<kGemm>(p, "bias") &&
           same(in<kGradient>(x, "dg"), c) && same(out<kGradient>(x, "du"), c);
  }
  // The sums are of cuBLASLt's second operand, our first, which BGRADB wants transposed, and have C's type.
  bool bias_gradient(const Op& p, const Op& x) const {
    if (x.kind != kColumnSum &&
        !(x.kind == kGradient && x.as<ActivationAttrs>().function == Activation::gelu_tanh))
      return false;
    const View &dy = x.kind == kColumnSum ? in<kColumnSum>(x, "x") : out<kGradient>(x, "du"),
               &a = in<kGemm>(p, "A"), &sums = sums_of(x);
    const auto& product = p.as<GemmAttrs>();
    const auto [rows, cols] = extent_of(x.attrs);
    return product.trans_a && !product.trans_b && halves(a) && same(dy, a) && rows == product.k &&
           cols == product.m && sums && type(sums) == DType::f32 && type(out<kGemm>(p, "C")) == DType::f32;
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
        if (overlap(plan_, v, written) && !same(v, out<kGemm>(product, "C"))) return false;
    return !overlap(plan_, workspace_of(product), read);
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
  Plan copy = plan;
  for (const Fusion& f : chosen) {
    Op &p = copy.ops[static_cast<size_t>(f.product)], &x = copy.ops[static_cast<size_t>(f.other)];
    const auto move = [](View& from, std::vector<View>& to) {
      to.push_back(from);
      from = View{};
    };
    switch (f.kind) {
      case Fused::none:
        break;
      case Fused::gelu:
        in<kActivation>(x, "u") = View{};
        move(out<kActivation>(x, "g"), p.writes);
        break;
      case Fused::gelu_gradient:  // du is read for its sums
        move(in<kGradient>(x, "u"), p.reads);
        out<kGradient>(x, "du") = View{};
        break;
      case Fused::bias_gradient:
        move(x.kind == kColumnSum ? out<kColumnSum>(x, "sum") : out<kGradient>(x, "dbias"), p.writes);
        for (View& v : x.reads) v = View{};
        if (x.workspace) x.writes.back() = View{};
        break;
    }
  }
  return copy;
}

}  // namespace isobar::cuda
