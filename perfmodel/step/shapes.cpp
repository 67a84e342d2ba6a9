#include "perfmodel/step/shapes.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>

#include "model/plan/ops/op_table.h"
#include "perfmodel/step/op_terms.h"

namespace isobar::perf {

namespace {

constexpr const char* kCausal = "causal";

// Timed head sizes of an attention and their factors.
std::map<double, double> timed_heads(const std::string& kind, bool causal, const Conditions& where) {
  std::string prefix = head_name(kind, where.precision, 0, false);
  prefix.pop_back();
  std::map<double, double> out;
  const ShapeFactors& all = *where.shapes;
  for (auto i = all.lower_bound(prefix); i != all.end() && i->first.starts_with(prefix); ++i) {
    const std::string size = i->first.substr(prefix.size());
    if (size.ends_with(kCausal) == causal) out[std::atof(size.c_str())] = i->second;
  }
  return out;
}

}  // namespace

std::string case_shape(const plan::Op& op) {
  std::ostringstream s;
  if (op.kind == plan::OpKind::gemm) {
    const auto& a = op.as<plan::GemmAttrs>();
    s << (a.trans_a ? 'T' : 'N') << (a.trans_b ? 'T' : 'N') << a.m << 'x' << a.n << 'x' << a.k
      << (a.accumulate ? "+" : "");
  } else if (const auto* a = std::get_if<plan::GroupedGemmAttrs>(&op.attrs)) {
    s << (a->trans_a ? 'T' : 'N') << (a->trans_b ? 'T' : 'N') << a->m << 'x' << a->n << 'x' << a->k << 'g'
      << a->groups << (a->accumulate ? "+" : "");
  } else if (const plan::AttentionAttrs* a = plan::attention_in(op.attrs)) {
    s << 'b' << a->batch << 'h' << a->heads << 'q' << a->tq << 'k' << a->tk << 'd' << a->d
      << (a->causal ? kCausal : "");
    if (a->window > 0) s << 'w' << a->window;
  } else if (const plan::ImageAttrs* a = plan::image_of(op.attrs); a && a->channels > 0) {
    s << 'b' << a->batch << 'c' << a->channels << 'x' << a->height << 'x' << a->width << 'p' << a->patch;
  } else {
    const auto* norm = std::get_if<plan::NormAttrs>(&op.attrs);
    const plan::RowExtent of = plan::extent_of(op.attrs);
    s << of.rows << 'x' << of.cols << (norm && norm->first ? "first" : "")
      << (plan::accumulates(op.attrs) ? "+" : "");
  }
  return s.str();
}

std::string case_name(const plan::Op& op, const std::string& precision, int64_t threads) {
  return std::string(plan::name_of(op.kind)) + "/" + precision + "/" + case_shape(op) + "/threads" +
         std::to_string(threads);
}

std::string head_name(const std::string& kind, const std::string& precision, int64_t head_size, bool causal) {
  return kind + "/" + precision + "/d" + std::to_string(head_size) + (causal ? kCausal : "");
}

std::string case_precision(const RunSpec& spec) {
  return spec.policy.amp == Amp::none ? "f32" : spec.policy.amp == Amp::bf16 ? "bf16" : "";
}

namespace {

// On cores, interpolates logarithmically between the nearest timed head sizes; constant beyond the ends. An
// accelerator's kernels pad heads to the next size that they have, so a size in between takes as long as it.
double head_factor(const plan::Op& op, const Conditions& where) {
  const auto& a = op.as<plan::AttentionAttrs>();
  std::map<double, double> timed = timed_heads(plan::name_of(op.kind), a.causal, where);
  if (timed.empty()) timed = timed_heads(plan::name_of(op.kind), false, where);
  if (timed.empty()) return 1;
  const auto own = static_cast<double>(a.d);
  const auto above = timed.lower_bound(own);
  if (above == timed.end()) return timed.rbegin()->second;
  if (where.processors > 0)
    return above->second * above->first * softmax_of_head(above->first) / (own * softmax_of_head(own));
  if (above->first == own || above == timed.begin()) return above->second;
  const auto below = std::prev(above);
  return below->second * std::pow(above->second / below->second,
                                  std::log(own / below->first) / std::log(above->first / below->first));
}

}  // namespace

bool has_timed(plan::OpKind kind, const Conditions& where) {
  if (where.shapes == nullptr || where.precision.empty() || plan::is_collective(kind)) return false;
  const std::string prefix = std::string(plan::name_of(kind)) + "/" + where.precision + "/";
  const auto first = where.shapes->lower_bound(prefix);
  return first != where.shapes->end() && first->first.starts_with(prefix);
}

double shape_factor(const plan::Op& op, const Conditions& where) {
  if (!has_timed(op.kind, where)) return 1;
  const auto found = where.shapes->find(case_name(op, where.precision, where.threads));
  if (found != where.shapes->end()) return found->second;
  return op.kind == plan::OpKind::attention || op.kind == plan::OpKind::attention_backward
             ? head_factor(op, where)
             : 1;
}

}  // namespace isobar::perf
