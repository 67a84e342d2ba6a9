#include "perfmodel/step/shapes.h"

#include <sstream>

#include "model/plan/op_table.h"

namespace isobar {

std::string case_shape(const Op& op) {
  const Attrs& a = op.a;
  std::ostringstream s;
  if (op.kind == OpKind::gemm)
    s << (a.trans_a ? 'T' : 'N') << (a.trans_b ? 'T' : 'N') << a.m << 'x' << a.n << 'x' << a.k
      << (a.accumulate ? "+" : "");
  else if (a.heads > 0)
    s << 'b' << a.batch << 'h' << a.heads << 'q' << a.tq << 'k' << a.tk << 'd' << a.d;
  else if (a.channels > 0)
    s << 'b' << a.batch << 'c' << a.channels << 'x' << a.height << 'x' << a.width << 'p' << a.patch;
  else
    s << a.m << 'x' << a.n << (a.first ? "first" : "") << (a.accumulate ? "+" : "");
  return s.str();
}

std::string case_name(const Op& op, const std::string& precision, int64_t threads) {
  return std::string(name_of(op.kind)) + "/" + precision + "/" + case_shape(op) + "/threads" +
         std::to_string(threads);
}

std::string case_precision(const RunSpec& spec) {
  return spec.policy.amp == "none" ? "f32" : spec.policy.amp == "bf16" ? "bf16" : "";
}

double shape_factor(const Op& op, const Conditions& where) {
  if (where.shapes == nullptr || where.precision.empty() || is_collective(op.kind)) return 1;
  const auto found = where.shapes->find(case_name(op, where.precision, where.threads));
  return found == where.shapes->end() ? 1 : found->second;
}

}  // namespace isobar
