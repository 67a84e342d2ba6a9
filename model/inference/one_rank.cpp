#include "model/inference/one_rank.h"

#include <utility>

#include "model/base/system/denormals.h"

namespace isobar::inference {

RunSpec on_one_rank(RunSpec spec, int64_t batch) {
  spec.net.leave_out_dropout();
  const int64_t history = spec.data.history;
  const PredictionKind prediction = spec.train.prediction;
  spec.data = {};
  spec.data.history = history;
  spec.layout = {};
  spec.policy = {};
  spec.train = {};
  spec.train.prediction = prediction;
  spec.train.global_batch = spec.policy.micro_batch = batch;
  spec.run.device = RunDevice::cpu;
  spec.run.serial = true;
  return spec;
}

InOrder in_order(const plan::Plan& plan, plan::Program program, const std::vector<plan::View>& wanted) {
  std::vector<RowRun> together = row_runs(plan, program, wanted);
  return {std::move(program), std::move(together)};
}

void run_in_order(const plan::Plan& plan, const plan::Program& program, CpuBackend& backend) {
  flush_denormals();
  for (const plan::Instr& i : program.instrs) backend.launch(plan.ops[i.op], i.micro, i.slot);
  backend.sync();
}

void run_in_order(const plan::Plan& plan, const InOrder& ops, CpuBackend& backend) {
  flush_denormals();
  auto run = ops.together.begin();
  const std::vector<plan::Instr>& instrs = ops.program.instrs;
  for (size_t i = 0; i < instrs.size();) {
    if (run != ops.together.end() && static_cast<size_t>(run->first) == i) {
      backend.launch(ops.program, *run);
      i = static_cast<size_t>((run++)->end);
    } else {
      backend.launch(plan.ops[instrs[i].op], instrs[i].micro, instrs[i].slot);
      ++i;
    }
  }
  backend.sync();
}

}  // namespace isobar::inference
