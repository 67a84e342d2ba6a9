// A machine as the runs of another engine find it: one that launches a kernel an op, whose steps are counted
// from plans (EngineKernels). Its prices are multiples: of bytes at the memory's peak, of arithmetic at an
// accelerator's peak, or on cores at Isobar's price there; or seconds.
//
//   const Machine m = run_by(engine_named("pytorch"), machine, /*recorded=*/false);
//   const Machine m = machine_of(spec, machine);     // PyTorch's where the net is PyTorch's, else as it is
//
// NVIDIA's libraries make products and attention on their accelerators: a calibrated file keeps its prices of
// them, since Isobar calls the same.
#pragma once
#include "model/base/spec/spec.h"
#include "perfmodel/machine/engine.h"
#include "perfmodel/machine/machine.h"

namespace isobar::perf {

/// `recorded`: of a net whose plan has PyTorch's own ops. A machine that was fitted to such runs is returned
/// as it is. Throws ConfigError where it was fitted to runs of another engine.
Machine run_by(const ForeignEngine& engine, const Machine& machine, bool recorded);
/// The engine that runs the net if none is named: of recorded ones PyTorch, eager or compiled; "": Isobar.
std::string engine_running(const RunSpec& spec, const Machine& machine);
Machine machine_of(const RunSpec& spec, const Machine& machine);
/// Throws ConfigError for an axis or policy that the engine's file does not have.
void refuse_axes(const RunSpec& spec, const ForeignEngine& engine);

}  // namespace isobar::perf
