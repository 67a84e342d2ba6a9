#include "perfmodel/step/shapes.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "model/plan/op_table.h"
#include "perfmodel/step/op_terms.h"

namespace isobar {

std::string case_shape(const Op& op) {
  std::ostringstream s;
  if (op.kind == OpKind::gemm) {
    const auto& a = op.as<GemmAttrs>();
    s << (a.trans_a ? 'T' : 'N') << (a.trans_b ? 'T' : 'N') << a.m << 'x' << a.n << 'x' << a.k
      << (a.accumulate ? "+" : "");
  } else if (const AttentionAttrs* a = attention_in(op.attrs)) {
    s << 'b' << a->batch << 'h' << a->heads << 'q' << a->tq << 'k' << a->tk << 'd' << a->d;
  } else if (const ImageAttrs* a = image_of(op.attrs); a && a->channels > 0) {
    s << 'b' << a->batch << 'c' << a->channels << 'x' << a->height << 'x' << a->width << 'p' << a->patch;
  } else {
    const auto* norm = std::get_if<NormAttrs>(&op.attrs);
    const RowExtent of = extent_of(op.attrs);
    s << of.rows << 'x' << of.cols << (norm && norm->first ? "first" : "")
      << (accumulates(op.attrs) ? "+" : "");
  }
  return s.str();
}

std::string case_name(const Op& op, const std::string& precision, int64_t threads) {
  return std::string(name_of(op.kind)) + "/" + precision + "/" + case_shape(op) + "/threads" +
         std::to_string(threads);
}

std::string head_name(const std::string& kind, const std::string& precision, int64_t head_size) {
  return kind + "/" + precision + "/d" + std::to_string(head_size);
}

std::string case_precision(const RunSpec& spec) {
  return spec.policy.amp == Amp::none ? "f32" : spec.policy.amp == Amp::bf16 ? "bf16" : "";
}

namespace {

// On cores, interpolates logarithmically between the nearest timed head sizes; constant beyond the ends. An
// accelerator's kernels pad heads to the next size that they have, so a size in between takes as long as it.
double head_factor(const Op& op, const Conditions& where) {
  std::string prefix = head_name(name_of(op.kind), where.precision, 0);
  prefix.pop_back();
  const auto own = static_cast<double>(op.as<AttentionAttrs>().d);
  double below = 0, above = 0, at_below = 1, at_above = 1;  // sizes, 0: none; factors
  const ShapeFactors& all = *where.shapes;
  for (auto i = all.lower_bound(prefix); i != all.end() && i->first.starts_with(prefix); ++i) {
    const double size = std::atof(i->first.c_str() + prefix.size());
    if (!(size > 0)) continue;
    if (size <= own && size > below) below = size, at_below = i->second;
    if (size >= own && (above == 0 || size < above)) above = size, at_above = i->second;
  }
  if (where.processors > 0 && above > 0)
    return at_above * above * softmax_of_head(above) / (own * softmax_of_head(own));
  if (below == 0) return at_above;
  if (above == 0 || above == below) return at_below;
  return at_below * std::pow(at_above / at_below, std::log(own / below) / std::log(above / below));
}

}  // namespace

double shape_factor(const Op& op, const Conditions& where) {
  if (where.shapes == nullptr || where.precision.empty() || is_collective(op.kind)) return 1;
  const auto found = where.shapes->find(case_name(op, where.precision, where.threads));
  if (found != where.shapes->end()) return found->second;
  return op.kind == OpKind::attention || op.kind == OpKind::attention_backward ? head_factor(op, where) : 1;
}

}  // namespace isobar
