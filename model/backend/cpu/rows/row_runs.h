// Ops of a program that run as one call over the same rows: f32 linear layers of small nets with their
// activations (cpu::layers). Results between them are never written to memory; the plan stays unchanged.
//
//   const std::vector<RowRun> together = row_runs(plan, program, {predicted});
//   backend.launch(program, together[0]);
//
// Pure, except for the current instruction set (cpu::takes_layer).
#pragma once
#include <cstdint>
#include <vector>

#include "model/plan/link.h"

namespace isobar {

struct RowRun {
  int32_t first, end;  // of Program::instrs, at least two
};

/// By `first`. `wanted`: the only views of the program's results that are read afterwards. Ops whose results
/// a backward pass reads are not merged.
std::vector<RowRun> row_runs(const plan::Plan& plan, const plan::Program& program,
                             const std::vector<plan::View>& wanted);

}  // namespace isobar
