// A net's plan on one rank, run op by op in list order; shared by forecasts and Jacobians.
//
//   const RunSpec spec = on_one_rank(trained, batch);      // layout and loader do not matter
//   run_in_order(plan, link(plan, plan.init, true), backend);
#pragma once
#include "model/backend/cpu/cpu_backend.h"
#include "model/base/spec/spec.h"
#include "model/plan/link.h"

namespace isobar::inference {

/// The same net in fp32, in batches of `batch` samples, with the default loss.
RunSpec on_one_rank(RunSpec spec, int64_t batch);
void run_in_order(const plan::Plan& plan, const plan::Program& program, CpuBackend& backend);

/// A program with its runs of row-wise ops, each of which is executed as one call.
struct InOrder {
  plan::Program program;
  std::vector<RowRun> together;
};
/// `wanted`: the only results that may be read after the program has run.
InOrder in_order(const plan::Plan& plan, plan::Program program, const std::vector<plan::View>& wanted);
void run_in_order(const plan::Plan& plan, const InOrder& ops, CpuBackend& backend);

}  // namespace isobar::inference
