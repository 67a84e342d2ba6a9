// Which ops of a program run as one call over the same rows: linear layers of small nets, in f32, with their
// activations (cpu::layers). What stands between two of them is then never written to memory; the plan stays
// as it is.
//
//   const std::vector<RowRun> together = row_runs(plan, program, {predicted});
//   backend.launch(program, together[0]);
//
// Pure but for the instruction set that runs (cpu::takes_layer).
#pragma once
#include <cstdint>
#include <vector>

#include "model/plan/link.h"

namespace isobar {

struct RowRun {
  int32_t first, end;  // of Program::instrs, two at least
};

/// By `first`. `wanted`: what is read after the program; nothing else of what it writes may be. A program
/// whose backward pass reads what is in between keeps its ops.
std::vector<RowRun> row_runs(const Plan& plan, const Program& program, const std::vector<View>& wanted);

}  // namespace isobar
