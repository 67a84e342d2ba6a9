#include "model/backend/cuda/libraries/fusion.h"

#include <algorithm>

#include "model/plan/link.h"
#include "model/plan/ops/operands.h"

namespace isobar::cuda {
namespace {

constexpr plan::OpKind kGemm = plan::OpKind::gemm, kActivation = plan::OpKind::activation,
                       kGradient = plan::OpKind::activation_backward, kColumnSum = plan::OpKind::column_sum;

bool same(const plan::View& a, const plan::View& b) {
  return a && a.buffer == b.buffer && a.offset == b.offset && a.count == b.count;
}

bool overlap(const plan::Plan& plan, const plan::View& a, const plan::View& b) {
  if (!a || !b) return false;
  const auto [a0, a1] = plan::address(plan, a, 0);  // slots shift both equally, or separate them
  const auto [b0, b1] = plan::address(plan, b, 0);
  return a0 < b1 && b0 < a1;
}

class Finder {
 public:
  explicit Finder(const plan::Plan& plan) : plan_(plan) {}

  std::vector<Fusion> all() {
    for (const plan::Routine& r : plan_.routines) {
      first_ = r.first;
      end_ = r.first + r.count;
      std::vector<Fusion> sums;  // appended after the others
      for (int32_t p = first_; p < end_; ++p) {
        const plan::Op& product = op(p);
        if (product.kind != kGemm || product.as<plan::GemmAttrs>().batch > 0 ||
            product.as<plan::GemmAttrs>().fp8 || product.lane != plan::Lane::compute)
          continue;
        for (int32_t x = first_; x < end_; ++x) {
          if (op(x).lane != plan::Lane::compute) continue;
          const plan::Op& other = op(x);
          if (x > p && gelu(product, other) &&
              untouched(p, x, plan::out<kActivation>(other, "g"), plan::in<kActivation>(other, "u")))
            found_.push_back({Fused::gelu, p, x});
          if (x > p && gelu_gradient(product, other) &&
              untouched(p, x, plan::out<kGradient>(other, "du"), plan::in<kGradient>(other, "u")))
            found_.push_back({Fused::gelu_gradient, p, x});
          if (bias_gradient(product, other) && untouched(p, x, sums_of(other), plan::in<kGemm>(product, "A")))
            sums.push_back({Fused::bias_gradient, p, x});
        }
      }
      for (const Fusion& f : sums)
        if (op(f.other).kind == kColumnSum || has(Fused::gelu_gradient, f.other)) found_.push_back(f);
    }
    return std::move(found_);
  }

 private:
  const plan::Op& op(int32_t i) const { return plan_.ops[static_cast<size_t>(i)]; }
  DType type(const plan::View& v) const { return plan_.buffers[static_cast<size_t>(v.buffer)].dtype; }
  bool halves(const plan::View& v) const { return v && size_of(type(v)) == 2; }
  bool has(Fused kind, int32_t other) const {
    return std::any_of(found_.begin(), found_.end(),
                       [&](const Fusion& f) { return f.kind == kind && f.other == other; });
  }
  static const plan::View& sums_of(const plan::Op& x) {
    return x.kind == kGradient ? plan::out<kGradient>(x, "dbias") : plan::out<kColumnSum>(x, "sum");
  }

  // GELU's input `u` is a second result with rows of n: cuBLASLt wants them aligned to 8 elements.
  bool takes_gelu(const plan::Op& p, const plan::Op& x, const plan::View& u) const {
    const plan::View& c = plan::out<kGemm>(p, "C");
    const auto& product = p.as<plan::GemmAttrs>();
    const auto& a = x.as<plan::ActivationAttrs>();
    return a.function == Activation::gelu_tanh && !product.accumulate && product.scale == 1 &&
           halves(plan::in<kGemm>(p, "A")) && halves(c) && product.n % 8 == 0 &&
           a.rows * a.cols == product.m * product.n && type(u) == type(c);
  }
  bool gelu(const plan::Op& p, const plan::Op& x) const {
    if (x.kind != kActivation) return false;
    const plan::View &u = plan::in<kActivation>(x, "u"), &g = plan::out<kActivation>(x, "g"),
                     &c = plan::out<kGemm>(p, "C");
    return takes_gelu(p, x, u) && same(u, c) && type(g) == type(c) && !overlap(plan_, g, u);
  }
  bool gelu_gradient(const plan::Op& p, const plan::Op& x) const {
    if (x.kind != kGradient) return false;
    const plan::View& c = plan::out<kGemm>(p, "C");
    return takes_gelu(p, x, plan::in<kGradient>(x, "u")) && !plan::in<kGemm>(p, "bias") &&
           same(plan::in<kGradient>(x, "dg"), c) && same(plan::out<kGradient>(x, "du"), c);
  }
  // The sums are of cuBLASLt's second operand, our first, which BGRADB wants transposed, and have C's type.
  bool bias_gradient(const plan::Op& p, const plan::Op& x) const {
    if (x.kind != kColumnSum &&
        !(x.kind == kGradient && x.as<plan::ActivationAttrs>().function == Activation::gelu_tanh))
      return false;
    const plan::View &dy =
                         x.kind == kColumnSum ? plan::in<kColumnSum>(x, "x") : plan::out<kGradient>(x, "du"),
                     &a = plan::in<kGemm>(p, "A"), &sums = sums_of(x);
    const auto& product = p.as<plan::GemmAttrs>();
    const auto [rows, cols] = plan::extent_of(x.attrs);
    return product.trans_a && !product.trans_b && halves(a) && same(dy, a) && rows == product.k &&
           cols == product.m && sums && type(sums) == DType::f32 &&
           type(plan::out<kGemm>(p, "C")) == DType::f32;
  }

  // True if x's work can move to p: no op between them writes those views or reads x's result, and p's own
  // scratch does not overlap it.
  bool untouched(int32_t p, int32_t x, const plan::View& written, const plan::View& read) const {
    for (int32_t i = std::min(p, x) + 1; i < std::max(p, x); ++i) {
      for (const plan::View& v : op(i).writes)
        if (overlap(plan_, v, written) || overlap(plan_, v, read)) return false;
      for (const plan::View& v : op(i).reads)
        if (overlap(plan_, v, written)) return false;
    }
    const plan::Op& product = op(p);
    for (const auto* views : {&product.reads, &product.writes})
      for (const plan::View& v : *views)
        if (overlap(plan_, v, written) && !same(v, plan::out<kGemm>(product, "C"))) return false;
    return !overlap(plan_, plan::workspace_of(product), read);
  }

  const plan::Plan& plan_;
  int32_t first_ = 0, end_ = 0;
  std::vector<Fusion> found_;
};

}  // namespace

const char* name_of(Fused f) {
  constexpr const char* kNames[] = {"none", "gelu", "gelu_gradient", "bias_gradient"};
  return kNames[static_cast<int>(f)];
}

std::vector<Fusion> fusible(const plan::Plan& plan) {
  return Finder(plan).all();
}

plan::Plan fused(const plan::Plan& plan, const std::vector<Fusion>& chosen) {
  plan::Plan copy = plan;
  for (const Fusion& f : chosen) {
    plan::Op &p = copy.ops[static_cast<size_t>(f.product)], &x = copy.ops[static_cast<size_t>(f.other)];
    const auto move = [](plan::View& from, std::vector<plan::View>& to) {
      to.push_back(from);
      from = plan::View{};
    };
    switch (f.kind) {
      case Fused::none:
        break;
      case Fused::gelu:
        plan::in<kActivation>(x, "u") = plan::View{};
        move(plan::out<kActivation>(x, "g"), p.writes);
        break;
      case Fused::gelu_gradient:  // du is read for its sums
        move(plan::in<kGradient>(x, "u"), p.reads);
        plan::out<kGradient>(x, "du") = plan::View{};
        break;
      case Fused::bias_gradient:
        move(x.kind == kColumnSum ? plan::out<kColumnSum>(x, "sum") : plan::out<kGradient>(x, "dbias"),
             p.writes);
        for (plan::View& v : x.reads) v = plan::View{};
        if (x.workspace) x.writes.back() = plan::View{};
        break;
    }
  }
  return copy;
}

}  // namespace isobar::cuda
