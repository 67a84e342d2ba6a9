#include "perfmodel/step/utilization.h"

#include <algorithm>

#include "model/base/text/printed.h"
#include "model/plan/ops/work.h"
#include "perfmodel/step/op_terms.h"

namespace isobar::perf {

Rates rates_of(const StepFlops& step, double step_s, int64_t ranks, double peak) {
  const double each = step_s * static_cast<double>(ranks);
  return {step.model / each, step.hardware / each, step.model / each / peak, step.hardware / each / peak};
}

std::string text_of(const Rates& r) {
  const bool tera = r.hardware_flops_per_s >= 1e12;
  const double unit = tera ? 1e-12 : 1e-9;
  return printed("model %.4g %s (MFU %.1f %%), hardware %.4g %s (HFU %.1f %%)", unit * r.model_flops_per_s,
                 tera ? "TFLOP/s" : "GFLOP/s", 100 * r.mfu, unit * r.hardware_flops_per_s,
                 tera ? "TFLOP/s" : "GFLOP/s", 100 * r.hfu);
}

namespace {

// Devices of a rank that compute: an accelerator, or cores
double units_of(const Conditions& where) {
  if (where.processors > 0) return 1;
  return std::min(static_cast<double>(where.threads),
                  static_cast<double>(where.cores) / static_cast<double>(where.ranks_on_host));
}

}  // namespace

double peak_flops(const Machine& m, const Conditions& where, const std::string& peak) {
  return units_of(where) * m.peaks.at(peak).value;
}

double Peaks::of(const OpShape& s) const {
  if (s.fp8) return fp8;
  if (s.tf32) return tf32;
  if (s.dtype != DType::f32) return bf16;
  return s.kind == plan::OpKind::attention || s.kind == plan::OpKind::attention_backward ? attention_f32
                                                                                         : f32;
}

Peaks peaks_of(const Machine& m, const Conditions& where) {
  const auto peak = [&](const char* name) { return peak_flops(m, where, name); };
  return {peak("f32"), peak("tf32"), peak("bf16"), peak("fp8"),
          units_of(where) / m.floor_of(index_of(Coef::attention_f32))};
}

double ceiling_of(const std::vector<nets::StageProgram>& stages, const Machine& m, const Conditions& where) {
  const Peaks peaks = peaks_of(m, where);
  double longest = 0;
  for (const nets::StageProgram& stage : stages) {
    std::vector<double> each;
    for (const plan::Op& op : stage.plan.ops) {
      const OpShape s = shape_of(op, stage.plan, where);
      each.push_back(s.work.flops / peaks.of(s));
    }
    double all = 0;
    for (const plan::Instr& i : stage.program.instrs) all += each[static_cast<size_t>(i.op)];
    longest = std::max(longest, all);
  }
  return longest;
}

}  // namespace isobar::perf
