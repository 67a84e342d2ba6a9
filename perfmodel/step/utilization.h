// FLOP/s and their share of the peak, by the field's two conventions:
//
//   model FLOPs      what the net asks for: the matrix products of the forward pass, and twice as many of the
//                    backward pass (Narayanan 2021, SC21, section 5.1; 6 N a token of Chowdhery 2022, PaLM,
//                    with attention). Over the peak: MFU (PaLM, appendix B)
//   hardware FLOPs   what is executed: the plan's own, with all that is recomputed. Over the peak: HFU
//
//   Rates r = rates_of({model_flops(spec), p.hardware_flops}, p.step_s, ranks, peak);
//   r.mfu, r.hfu                             // shares of the peak of the run's matrix products
//
// Without recomputation HFU can be slightly below MFU: the gradient of the first layer's input is not
// computed.
#pragma once
#include <string>
#include <vector>

#include "model/nets/build.h"
#include "perfmodel/step/conditions.h"
#include "perfmodel/step/op_terms.h"
#include "perfmodel/step/simulate.h"

namespace isobar::perf {

struct StepFlops {  // matrix FLOPs of one optimizer step, all ranks; model: model_flops() of nets/build.h
  double model = 0, hardware = 0;
};

struct Rates {  // of one rank
  double model_flops_per_s = 0, hardware_flops_per_s = 0;
  double mfu = 0, hfu = 0;
};
Rates rates_of(const StepFlops& step, double step_s, int64_t ranks, double peak);
/// "model 121.3 TFLOP/s (MFU 38.9 %), hardware 161.2 TFLOP/s (HFU 51.7 %)" for display
std::string text_of(const Rates& r);

/// FLOP/s of one rank at the named peak: an accelerator's, or that of the rank's cores.
double peak_flops(const Machine& machine, const Conditions& where, const std::string& peak);
/// FLOP/s of one rank by an op's type
struct Peaks {
  double f32, tf32, bf16, fp8;
  double attention_f32;  // whose products may be three in TF32
  double of(const OpShape& s) const;
};
Peaks peaks_of(const Machine& machine, const Conditions& where);
/// Least seconds of a step of the stage with the most work: its products at the peaks.
double ceiling_of(const std::vector<nets::StageProgram>& stages, const Machine& machine,
                  const Conditions& where);

}  // namespace isobar::perf
