// Ops on the CPU: each is one function of cpu_ops.h; a run of small layers is one kernel.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/backend/backend.h"
#include "model/backend/cpu/cpu_ops.h"
#include "model/backend/cpu/row_runs.h"
#include "model/base/spec.h"

namespace isobar {

class CpuBackend : public Backend {
 public:
  CpuBackend(const Plan& plan, std::byte* arena, const TrainSpec& train, std::byte* host = nullptr)
      : Backend(plan, arena, host),
        train_(train),
        loss_weights_(train.loss_weights.begin(), train.loss_weights.end()),
        above_(train.intense_above.begin(), train.intense_above.end()),
        intense_(train.intense_weights.begin(), train.intense_weights.end()) {}
  void launch(const Op& op, int32_t micro, int32_t slot) override;
  void launch(const Program& program, const RowRun& run);
  const char* name() const override { return "cpu"; }

  // ---- for the functions of ops (cpu_ops.h) ----
  const TrainSpec& train() const { return train_; }
  /// `mask`: null if the op has none
  cpu::Loss loss_of(const Attrs& image, bool masked, const float* mask);
  void fetch(const Op& op, int32_t micro, int32_t slot) { Backend::fetch(op, micro, places(op, slot)); }

 private:
  const OpFunctions<CpuLaunch>& ops_ = cpu_ops();
  const TrainSpec train_;
  const std::vector<float> loss_weights_, above_, intense_;  // by channel
  std::map<int64_t, std::vector<double>> rows_;              // row weights by image height: base/latitude.h
};

/// The kernels by which this CPU computes a plan: kind and type ("gemm bf16") -> kernel ("oneDNN 2.6.3,
/// brg:avx512_core_bf16") -> number of ops. A function of plan, CPU, ISOBAR_MAX_ISA and library.
std::map<std::string, std::map<std::string, int64_t>> cpu_kernels(const Plan& plan);

/// Scratch that the CPU kernels need for an op, with `threads` OpenMP threads.
Workspace cpu_workspace(int threads);

}  // namespace isobar
