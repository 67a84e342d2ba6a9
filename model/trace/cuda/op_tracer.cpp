#include "model/trace/cuda/op_tracer.h"

#include <utility>

#include "model/backend/cuda/runtime/device.h"

namespace isobar::cuda {
namespace {

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  ISOBAR_CUDA(cudaStreamIsCapturing(stream, &status));
  return status == cudaStreamCaptureStatusActive;
}

}  // namespace

OpTracer::OpTracer(const Plan& plan, bool collect) : ranges_(plan) {
  if (collect) collector_.emplace();
}

void OpTracer::begin_op(const Program& program, int32_t instr, int32_t step, cudaStream_t stream) {
  ranges_.begin(program.instrs[static_cast<size_t>(instr)].op);
  if (!collector_) return;
  if (is_capturing(stream))
    collector_->capturing(instr, 0);  // a graph is a whole program
  else if (&program == program_)
    collector_->launching({step, instr});
}

void OpTracer::end_op(const Program&, int32_t, int32_t, cudaStream_t) {
  if (collector_) {
    collector_->captured();
    collector_->launched();
  }
  ranges_.end();
}

void OpTracer::begin_ahead(const Program& program, int32_t instr, int32_t step) {
  ranges_.begin(program.instrs[static_cast<size_t>(instr)].op);
  if (collector_ && &program == program_) collector_->launching({step, instr, true});
}

void OpTracer::end_ahead() {
  if (collector_) collector_->launched();
  ranges_.end();
}

void OpTracer::begin_graph(const Program& program, int32_t step, cudaStream_t) {
  ranges_.begin("graph");
  if (collector_ && &program == program_) collector_->launching({step, 0});
}

void OpTracer::end_graph(const Program&, int32_t, cudaStream_t) {
  if (collector_) collector_->launched();
  ranges_.end();
}

void OpTracer::start(const Program& program) {
  if (std::exchange(running_, true)) return;
  program_ = &program;
  collector_.value().start();
}

void OpTracer::stop() {
  if (std::exchange(running_, false)) collector_.value().stop();
}

DeviceJoin OpTracer::take(int rank, int64_t origin_ns) {
  return join(collector_.value().take(), *program_, rank, origin_ns);
}

}  // namespace isobar::cuda
