// Observes a device executor: every op becomes an NVTX range, and between start() and stop() device
// activities are collected and joined to the ops.
//
//   OpTracer tracer(plan);
//   executor.observe(&tracer);                       // before the first run: graphs are noted at capture
//   tracer.start(program);  executor(program, step);  tracer.stop();     // repeatable
//   DeviceJoin j = tracer.take(rank, recorder.origin_ns());
//
// Without `collect` there are only the ranges, and CUPTI is not opened.
//
// NVTX ranges around each op's launch, for Nsight Systems: one domain, "isobar"; a range's name is the op's
// path, registered once, and its payload the op's index in the plan. Without a tool a range costs a
// comparison.
//
//   NvtxRanges ranges(plan);
//   ranges.begin(instr.op);  backend.launch(op);  ranges.end();
#pragma once
#include <nvtx3/nvToolsExt.h>
#include <optional>
#include <vector>

#include "model/backend/cuda/op_observer.h"
#include "model/plan/plan.h"
#include "model/trace/cuda/collector.h"

namespace isobar::cuda {

class NvtxRanges {
 public:
  explicit NvtxRanges(const plan::Plan& plan);
  ~NvtxRanges();
  NvtxRanges(const NvtxRanges&) = delete;
  NvtxRanges& operator=(const NvtxRanges&) = delete;
  void begin(int32_t op);
  /// Around a graph's launch, which runs many ops.
  void begin(const char* name);
  void end();

 private:
  nvtxDomainHandle_t domain_;
  std::vector<nvtxStringHandle_t> paths_;  // by op
};

class OpTracer : public OpObserver {
 public:
  OpTracer(const plan::Plan& plan, bool collect);
  void begin_op(const plan::Program& program, int32_t instr, int32_t step, cudaStream_t stream) override;
  void end_op(const plan::Program& program, int32_t instr, int32_t step, cudaStream_t stream) override;
  void begin_ahead(const plan::Program& program, int32_t instr, int32_t step) override;
  void end_ahead() override;
  void begin_engine(trace::EngineWork work) override;
  void end_engine() override;
  void begin_graph(const plan::Program& program, int32_t step, cudaStream_t stream) override;
  void end_graph(const plan::Program& program, int32_t step, cudaStream_t stream) override;

  // ---- with `collect`; the device is idle ----
  bool collects() const { return collector_.has_value(); }
  /// Announces runs of this program from here on. Does nothing if they already are.
  void start(const plan::Program& program);
  void stop();
  bool runs() const { return running_; }
  /// The activities, joined to the ops of the program last started.
  trace::DeviceJoin take(int rank, int64_t origin_ns);

 private:
  uint64_t owner(const plan::Program& program, trace::OpKey key) const;  // for launches of a program's op
  NvtxRanges ranges_;
  std::optional<Collector> collector_;
  const plan::Program* program_ = nullptr;  // the program that is or was collected
  bool running_ = false;
};

}  // namespace isobar::cuda
