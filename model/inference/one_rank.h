// What forecasts and Jacobians have in common: a net's plan on one rank, run op by op in list order.
//
//   const RunSpec spec = on_one_rank(trained, batch);      // how it was cut, fed and trained changes no
//   prediction run_in_order(plan, link(plan, plan.init, true), backend);
#pragma once
#include "model/backend/cpu/cpu_backend.h"
#include "model/base/spec.h"
#include "model/plan/link.h"

namespace isobar {

/// The same net in fp32, in batches of so many samples, with the loss that a training has by default.
RunSpec on_one_rank(RunSpec spec, int64_t batch);
void run_in_order(const Plan& plan, const Program& program, CpuBackend& backend);

/// A program with the runs of its ops that are one call each.
struct InOrder {
  Program program;
  std::vector<RowRun> together;
};
/// `wanted`: what is read after it; nothing else of what it writes may be.
InOrder in_order(const Plan& plan, Program program, const std::vector<View>& wanted);
void run_in_order(const Plan& plan, const InOrder& ops, CpuBackend& backend);

}  // namespace isobar
