#include "model/trace/cuda/op_tracer.h"

#include <utility>

namespace isobar::cuda {

OpTracer::OpTracer(const plan::Plan& plan, bool collect) : ranges_(plan) {
  if (collect) collector_.emplace();
}

uint64_t OpTracer::owner(const plan::Program& program, trace::OpKey key) const {
  return &program == program_ ? trace::external_id(key) : trace::external_id(trace::EngineWork::program);
}

// Asks no stream whether it captures, which would be a library call for each op: nodes are created in
// captures only, and nothing that is captured runs.
void OpTracer::begin_op(const plan::Program& program, int32_t instr, int32_t step, cudaStream_t) {
  ranges_.begin(program.instrs[static_cast<size_t>(instr)].op);
  if (!collector_) return;
  collector_->capturing(instr, 0);  // a graph is a whole program
  collector_->launching(owner(program, {step, instr}));
}

void OpTracer::end_op(const plan::Program&, int32_t, int32_t, cudaStream_t) {
  if (collector_) {
    collector_->captured();
    collector_->launched();
  }
  ranges_.end();
}

void OpTracer::begin_ahead(const plan::Program& program, int32_t instr, int32_t step) {
  ranges_.begin(program.instrs[static_cast<size_t>(instr)].op);
  if (collector_) collector_->launching(owner(program, {step, instr, true}));
}

void OpTracer::end_ahead() {
  if (collector_) collector_->launched();
  ranges_.end();
}

void OpTracer::begin_engine(trace::EngineWork work) {
  ranges_.begin(trace::name_of(work));
  if (collector_) collector_->launching(trace::external_id(work));
}

void OpTracer::end_engine() {
  end_ahead();
}

void OpTracer::begin_graph(const plan::Program& program, int32_t step, cudaStream_t) {
  ranges_.begin("graph");
  if (collector_) collector_->launching(owner(program, {step, 0}));
}

void OpTracer::end_graph(const plan::Program&, int32_t, cudaStream_t) {
  if (collector_) collector_->launched();
  ranges_.end();
}

void OpTracer::start(const plan::Program& program) {
  if (std::exchange(running_, true)) return;
  program_ = &program;
  collector_.value().start();
}

void OpTracer::stop() {
  if (std::exchange(running_, false)) collector_.value().stop();
}

trace::DeviceJoin OpTracer::take(int rank, int64_t origin_ns) {
  return trace::join(collector_.value().take(), *program_, rank, origin_ns);
}

namespace {

nvtxEventAttributes_t empty_attributes() {
  nvtxEventAttributes_t a{};
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  return a;
}

}  // namespace

NvtxRanges::NvtxRanges(const plan::Plan& plan) : domain_(nvtxDomainCreateA("isobar")) {
  paths_.reserve(plan.ops.size());
  for (const plan::Op& op : plan.ops) paths_.push_back(nvtxDomainRegisterStringA(domain_, op.path.c_str()));
}

NvtxRanges::~NvtxRanges() {
  nvtxDomainDestroy(domain_);
}

void NvtxRanges::begin(int32_t op) {
  nvtxEventAttributes_t a = empty_attributes();
  a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  a.message.registered = paths_[static_cast<size_t>(op)];
  a.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  a.payload.iValue = op;
  nvtxDomainRangePushEx(domain_, &a);
}

void NvtxRanges::begin(const char* name) {
  nvtxEventAttributes_t a = empty_attributes();
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = name;
  nvtxDomainRangePushEx(domain_, &a);
}

void NvtxRanges::end() {
  nvtxDomainRangePop(domain_);
}

}  // namespace isobar::cuda
