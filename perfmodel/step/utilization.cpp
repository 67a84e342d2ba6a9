#include "perfmodel/step/utilization.h"

#include <algorithm>
#include <cstdio>

#include "model/plan/work.h"
#include "perfmodel/step/op_terms.h"

namespace isobar {

Rates rates_of(const StepFlops& step, double step_s, int64_t ranks, double peak) {
  const double each = step_s * static_cast<double>(ranks);
  return {step.model / each, step.hardware / each, step.model / each / peak, step.hardware / each / peak};
}

std::string text_of(const Rates& r) {
  const bool tera = r.hardware_flops_per_s >= 1e12;
  const double unit = tera ? 1e-12 : 1e-9;
  char text[160];
  std::snprintf(text, sizeof text, "model %.4g %s (MFU %.1f %%), hardware %.4g %s (HFU %.1f %%)",
                unit * r.model_flops_per_s, tera ? "TFLOP/s" : "GFLOP/s", 100 * r.mfu,
                unit * r.hardware_flops_per_s, tera ? "TFLOP/s" : "GFLOP/s", 100 * r.hfu);
  return text;
}

double peak_flops(const Machine& m, const Conditions& where, const std::string& peak) {
  const double cores =
      where.processors > 0
          ? 1
          : std::min(static_cast<double>(where.threads),
                     static_cast<double>(where.cores) / static_cast<double>(where.ranks_on_host));
  return cores * m.peaks.at(peak).value;
}

double ceiling_of(const std::vector<StageProgram>& stages, const Machine& m, const Conditions& where) {
  double longest = 0;
  for (const StageProgram& stage : stages) {
    std::vector<double> each;
    for (const Op& op : stage.plan.ops) {
      const OpShape s = shape_of(op, stage.plan, where);
      const char* peak = s.fp8 ? "fp8" : s.dtype != DType::f32 ? "bf16" : s.tf32 ? "tf32" : "f32";
      each.push_back(s.work.flops / peak_flops(m, where, peak));
    }
    double all = 0;
    for (const Instr& i : stage.program.instrs) all += each[static_cast<size_t>(i.op)];
    longest = std::max(longest, all);
  }
  return longest;
}

}  // namespace isobar
