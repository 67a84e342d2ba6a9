#include "model/trace/cuda/nvtx_ranges.h"

namespace isobar::cuda {
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
