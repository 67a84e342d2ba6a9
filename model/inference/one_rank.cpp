#include "model/inference/one_rank.h"

#include "model/base/denormals.h"

namespace isobar {

RunSpec on_one_rank(RunSpec spec, int64_t batch) {
  spec.net.leave_out_dropout();
  spec.data = {};
  spec.layout = {};
  spec.policy = {};
  spec.train = {};
  spec.train.global_batch = spec.policy.micro_batch = batch;
  spec.run.device = "cpu";
  spec.run.serial = true;
  return spec;
}

void run_in_order(const Plan& plan, const Program& program, CpuBackend& backend) {
  flush_denormals();
  for (const Instr& i : program.instrs) backend.launch(plan.ops[i.op], i.micro, i.slot);
  backend.sync();
}

}  // namespace isobar
