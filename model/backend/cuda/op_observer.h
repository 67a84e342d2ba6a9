// Observes ops being enqueued, for profilers' ranges and correlation ids. Called from the executor's thread,
// around everything that an op enqueues.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "model/plan/link.h"
#include "model/trace/engine_work.h"

namespace isobar::cuda {

class OpObserver {
 public:
  virtual ~OpObserver() = default;
  /// `instr`: index into the program. During a capture the op's work becomes graph nodes.
  virtual void begin_op(const plan::Program& program, int32_t instr, int32_t step, cudaStream_t stream) = 0;
  virtual void end_op(const plan::Program& program, int32_t instr, int32_t step, cudaStream_t stream) = 0;
  /// Around the copy of a fetch's samples to the device, for the next step and during this one.
  virtual void begin_ahead(const plan::Program&, int32_t /*instr*/, int32_t /*step*/) {}
  virtual void end_ahead() {}
  /// Around copies that belong to no op.
  virtual void begin_engine(trace::EngineWork) {}
  virtual void end_engine() {}
  /// A program has become a graph; every later run launches `exec`.
  virtual void captured(const plan::Program&, cudaGraph_t, cudaGraphExec_t) {}
  virtual void begin_graph(const plan::Program&, int32_t /*step*/, cudaStream_t) {}
  virtual void end_graph(const plan::Program&, int32_t /*step*/, cudaStream_t) {}
};

}  // namespace isobar::cuda
