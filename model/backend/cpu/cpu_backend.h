// Ops on the CPU: each is one function of cpu_ops.h; a run of small layers is one kernel.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/backend/backend.h"
#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/rows/row_runs.h"

namespace isobar {

class CpuBackend : public Backend {
 public:
  CpuBackend(const plan::Plan& plan, std::byte* arena, std::byte* host = nullptr)
      : Backend(plan, arena, host) {}
  void launch(const plan::Op& op, int32_t micro, int32_t slot) override;
  void launch(const plan::Program& program, const RowRun& run);
  const char* name() const override { return "cpu"; }

  // ---- for the functions of ops (cpu_ops.h) ----
  /// Weights of the rows of a loss's images, from their latitudes.
  const std::vector<double>& row_weights(const plan::LossAttrs& a);
  void fetch(const plan::Op& op, int32_t micro, int32_t slot) { Backend::fetch(op, micro, places(op, slot)); }

 private:
  const OpFunctions<CpuLaunch>& ops_ = cpu_ops();
  std::map<int64_t, std::vector<double>> rows_;  // by image height: base/latitude.h
};

/// The kernels by which this CPU computes a plan: kind and type ("gemm bf16") -> kernel ("oneDNN 2.6.3,
/// brg:avx512_core_bf16") -> number of ops. A function of plan, CPU, ISOBAR_MAX_ISA and library.
std::map<std::string, std::map<std::string, int64_t>> cpu_kernels(const plan::Plan& plan);

/// Scratch that the CPU kernels need for an op, with `threads` OpenMP threads.
plan::Workspace cpu_workspace(int threads);

}  // namespace isobar
