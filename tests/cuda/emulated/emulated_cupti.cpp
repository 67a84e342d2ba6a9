// CUPTI for the emulated GPU: activities, calls and external ids in CUPTI's own records, by the rules that
// the collector relies on. A record of a call is written where its kind is enabled and the call not switched
// off, with the ids announced on its thread before it; work is recorded where its kind was enabled at the
// call. At each flush it says on stderr how many records of calls it wrote that launch nothing.
#include <cupti.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "tests/cuda/emulated/emulator.h"

extern "C" void isobar_emulator_profile(isobar::emulator::Profiler*);

namespace {

using Call = isobar::emulator::Profiler::Call;

template <class Record>
constexpr size_t size_in_buffer = (sizeof(Record) + 7) / 8 * 8;

struct Cbids {
  CUpti_CallbackId runtime, driver;
};
Cbids cbids_of(Call call) {
  switch (call) {
    case Call::launch:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel};
    case Call::copy:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync};
    case Call::fill:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async};
    case Call::launch_graph:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch};
    case Call::query:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_v3020, CUPTI_DRIVER_TRACE_CBID_cuStreamQuery};
    case Call::event:
      return {CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020, CUPTI_DRIVER_TRACE_CBID_cuEventRecord};
  }
  return {};
}

class Tracer : public isobar::emulator::Profiler {
 public:
  uint32_t called(Call call) override {
    const std::lock_guard lock(mutex_);
    ++last_call_;
    const Cbids ids = cbids_of(call);
    record_call(CUPTI_ACTIVITY_KIND_RUNTIME, quiet_runtime, ids.runtime, call);
    record_call(CUPTI_ACTIVITY_KIND_DRIVER, quiet_driver, ids.driver, call);
    return traces_work() ? last_call_ : 0;
  }
  uint64_t captured() override {
    CUpti_GraphData graph{};
    graph.node = reinterpret_cast<CUgraphNode>(++last_node_);
    tell(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, graph);
    return last_node_;
  }
  uint64_t copied(uint64_t node) override {
    CUpti_GraphData graph{};
    graph.originalNode = reinterpret_cast<CUgraphNode>(node);
    graph.node = reinterpret_cast<CUgraphNode>(++last_node_);
    tell(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, graph);
    return last_node_;
  }
  void ran(Call what, uint32_t call, uint64_t node, int64_t begin_ns, int64_t end_ns) override {
    const std::lock_guard lock(mutex_);
    const auto record = [&](auto r, CUpti_ActivityKind kind) {
      r.kind = kind;
      r.correlationId = call;
      r.graphNodeId = node;
      r.start = static_cast<uint64_t>(begin_ns);
      r.end = static_cast<uint64_t>(end_ns);
      write(r);
    };
    if (what == Call::copy) return record(CUpti_ActivityMemcpy6{}, CUPTI_ACTIVITY_KIND_MEMCPY);
    if (what == Call::fill) return record(CUpti_ActivityMemset4{}, CUPTI_ACTIVITY_KIND_MEMSET);
    CUpti_ActivityKernel10 kernel{};
    kernel.name = "kernel";
    record(kernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  }
  void flush() {
    const std::lock_guard lock(mutex_);
    hand_back();
    std::fprintf(stderr, "emulated CUPTI: %ld records of calls that launch nothing\n", idle_calls_);
  }

  std::set<CUpti_ActivityKind> kinds;
  std::set<CUpti_CallbackId> quiet_runtime, quiet_driver, events;
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  CUpti_BuffersCallbackRequestFunc wanted = nullptr;
  CUpti_BuffersCallbackCompleteFunc full = nullptr;
  static thread_local std::vector<std::pair<CUpti_ExternalCorrelationKind, uint64_t>> announced;

 private:
  bool traces_work() const { return kinds.contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL); }
  void record_call(CUpti_ActivityKind kind, const std::set<CUpti_CallbackId>& quiet, CUpti_CallbackId id,
                   Call call) {
    if (!kinds.contains(kind) || quiet.contains(id)) return;
    if (kinds.contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) && !announced.empty()) {
      CUpti_ActivityExternalCorrelation link{};
      link.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
      link.externalKind = announced.back().first;
      link.externalId = announced.back().second;
      link.correlationId = last_call_;
      write(link);
    }
    CUpti_ActivityAPI r{};
    r.kind = kind;
    r.cbid = id;
    r.correlationId = last_call_;
    write(r);
    if (call >= Call::query) ++idle_calls_;
  }
  void tell(CUpti_CallbackId id, CUpti_GraphData& graph) {
    if (!events.contains(id)) return;
    CUpti_ResourceData data{};
    data.resourceDescriptor = &graph;
    callback(user, CUPTI_CB_DOMAIN_RESOURCE, id, &data);
  }
  template <class Record>
  void write(const Record& r) {
    if (buffer_ && used_ + size_in_buffer < Record >> size_) hand_back();
    if (!buffer_) {
      size_t most = 0;
      wanted(&buffer_, &size_, &most);
      used_ = 0;
    }
    std::memcpy(buffer_ + used_, &r, sizeof r);
    used_ += size_in_buffer<Record>;
  }
  void hand_back() {
    if (buffer_) full(nullptr, 0, std::exchange(buffer_, nullptr), size_, used_);
  }

  std::mutex mutex_;
  uint32_t last_call_ = 0;
  uint64_t last_node_ = 0;
  uint8_t* buffer_ = nullptr;
  size_t size_ = 0, used_ = 0;
  long idle_calls_ = 0;
};
thread_local std::vector<std::pair<CUpti_ExternalCorrelationKind, uint64_t>> Tracer::announced;

Tracer tracer;

size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return size_in_buffer<CUpti_ActivityKernel10>;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return size_in_buffer<CUpti_ActivityMemcpy6>;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return size_in_buffer<CUpti_ActivityMemset4>;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return size_in_buffer<CUpti_ActivityExternalCorrelation>;
    default:
      return size_in_buffer<CUpti_ActivityAPI>;
  }
}

}  // namespace

extern "C" {

CUptiResult cuptiGetResultString(CUptiResult, const char** text) {
  *text = "emulated";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t* ns) {
  *ns = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                              std::chrono::nanoseconds(1));
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t* id) {
  *id = reinterpret_cast<uint64_t>(node);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* user) {
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&tracer);
  tracer.callback = callback;
  tracer.user = user;
  isobar_emulator_profile(&tracer);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  isobar_emulator_profile(nullptr);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id) {
  if (!on || domain != CUPTI_CB_DOMAIN_RESOURCE) return CUPTI_ERROR_INVALID_PARAMETER;
  tracer.events.insert(id);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size, void*) {
  const bool known = attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER && *size == sizeof(uint8_t);
  return known ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}
// A kind switches all of its calls on, whatever was switched off before.
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  tracer.kinds.insert(kind);
  if (kind == CUPTI_ACTIVITY_KIND_RUNTIME) tracer.quiet_runtime.clear();
  if (kind == CUPTI_ACTIVITY_KIND_DRIVER) tracer.quiet_driver.clear();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  tracer.kinds.erase(kind);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t on) {
  if (on) return CUPTI_ERROR_INVALID_PARAMETER;
  tracer.quiet_runtime.insert(id);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t on) {
  if (on) return CUPTI_ERROR_INVALID_PARAMETER;
  tracer.quiet_driver.insert(id);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc wanted,
                                           CUpti_BuffersCallbackCompleteFunc full) {
  tracer.wanted = wanted;
  tracer.full = full;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
  tracer.flush();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  auto* at = reinterpret_cast<uint8_t*>(*record);
  at = at ? at + size_of((*record)->kind) : buffer;
  if (at >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(at);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  *dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  Tracer::announced.emplace_back(kind, id);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t* last) {
  if (Tracer::announced.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  *last = Tracer::announced.back().second;
  Tracer::announced.pop_back();
  return CUPTI_SUCCESS;
}
}
