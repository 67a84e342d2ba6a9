// A layout of a cluster of accelerators predicted with its interval, term by term.
//
//   LayoutPrediction p = predict_layout(spec, load_machine("configs/machines/dgx-a100.yaml"));
//   p.step_s, p.terms, p.memory, p.counts       // the same of `isobar predict` for accelerators
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/predict.h"

namespace isobar {

struct LayoutPrediction {
  LayoutCost cost;
  double step_s = 0, lower = 0, upper = 0;  // 80 % interval
  double samples_per_s = 0, tokens_per_s = 0;
  double correction = 1;    // by which fitted runs of this kind deviate from the terms
  std::vector<Term> terms;  // seconds, largest first; add up to step_s
  std::vector<std::pair<std::string, double>> memory;  // bytes
  double memory_total = 0;
  double flops = 0;           // matrix FLOPs of all ranks' steps, recomputation too
  CheckpointCost checkpoint;  // beside the steps
  std::vector<std::string> warnings;
  Counts counts{};  // of the slowest rank's step, hidden or not, in units of the coefficients
};
/// `campaign`: whose run it is (MeasuredRun::campaign). A machine fitted to several campaigns, none of them
/// that one, knows less of it.
LayoutPrediction predict_layout(const RunSpec& spec, const Machine& machine,
                                const std::string& campaign = "");
/// The same of a layout of a model that is already there.
LayoutPrediction predict_layout(LayoutModel& model, const Layout& l, const std::string& campaign = "");

}  // namespace isobar
