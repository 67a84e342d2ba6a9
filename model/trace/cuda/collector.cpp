#include "model/trace/cuda/collector.h"

#include <cxxabi.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "model/backend/cuda/runtime/device.h"
#include "model/backend/cuda/runtime/library.h"

namespace isobar::cuda {
namespace {

struct Cupti {
  Library lib{"libcupti.so.13"};
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares a member
#define ISOBAR_CUPTI(name) decltype(&cupti##name) name = lib.function<decltype(&cupti##name)>("cupti" #name);
  ISOBAR_CUPTI(GetResultString)
  ISOBAR_CUPTI(GetTimestamp)
  ISOBAR_CUPTI(GetGraphNodeId)
  ISOBAR_CUPTI(Subscribe)
  ISOBAR_CUPTI(Unsubscribe)
  ISOBAR_CUPTI(EnableCallback)
  ISOBAR_CUPTI(ActivityEnable)
  ISOBAR_CUPTI(ActivityDisable)
  ISOBAR_CUPTI(ActivityEnableRuntimeApi)
  ISOBAR_CUPTI(ActivityEnableDriverApi)
  ISOBAR_CUPTI(ActivitySetAttribute)
  ISOBAR_CUPTI(ActivityFlushAll)
  ISOBAR_CUPTI(ActivityRegisterCallbacks)
  ISOBAR_CUPTI(ActivityGetNextRecord)
  ISOBAR_CUPTI(ActivityGetNumDroppedRecords)
  ISOBAR_CUPTI(ActivityPushExternalCorrelationId)
  ISOBAR_CUPTI(ActivityPopExternalCorrelationId)
#undef ISOBAR_CUPTI
};

const Cupti& cupti() {
  static const Cupti library;
  return library;
}

void check(CUptiResult code, const char* call) {
  if (code == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cupti().GetResultString(code, &text);
  std::string said = std::string(call) + ": " + (text ? text : std::to_string(code));
  if (code == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    said += "; another profiler listens already: trace without it";
  throw Failure(said);
}
#define ISOBAR_CUPTI(call) check(cupti().call, "cupti" #call)

// Recorded between start() and stop(). Runtime and driver calls are included because they carry the ops' ids,
// except those below: they launch nothing, and a step makes thousands of them while it waits for the device.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,    CUPTI_ACTIVITY_KIND_MEMCPY,  CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};
constexpr CUpti_CallbackId kQuietRuntimeCalls[] = {CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_v3020,
                                                   CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020,
                                                   CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020,
                                                   CUPTI_RUNTIME_TRACE_CBID_cudaEventRecordWithFlags_v11010,
                                                   CUPTI_RUNTIME_TRACE_CBID_cudaEventElapsedTime_v3020,
                                                   CUPTI_RUNTIME_TRACE_CBID_cudaEventElapsedTime_v12080,
                                                   CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
                                                   CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020,
                                                   CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020};
constexpr CUpti_CallbackId kQuietDriverCalls[] = {
    CUPTI_DRIVER_TRACE_CBID_cuStreamQuery,       CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent,
    CUPTI_DRIVER_TRACE_CBID_cuEventRecord,       CUPTI_DRIVER_TRACE_CBID_cuEventRecordWithFlags,
    CUPTI_DRIVER_TRACE_CBID_cuEventElapsedTime,  CUPTI_DRIVER_TRACE_CBID_cuEventElapsedTime_v2,
    CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent,     CUPTI_DRIVER_TRACE_CBID_cuCtxSetCurrent,
    CUPTI_DRIVER_TRACE_CBID_cuCtxPushCurrent_v2, CUPTI_DRIVER_TRACE_CBID_cuCtxPopCurrent_v2,
    CUPTI_DRIVER_TRACE_CBID_cuStreamIsCapturing, CUPTI_DRIVER_TRACE_CBID_cuStreamGetCaptureInfo_v2};
constexpr CUpti_CallbackId kGraphEvents[] = {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
                                             CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};
constexpr auto kOurs = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
constexpr size_t kBufferBytes = size_t{8} << 20, kReadyBuffers = 3;

Collector* the_collector = nullptr;  // CUPTI's buffer callbacks carry no user pointer

int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string readable(const char* mangled) {
  if (!mangled) return "unnamed kernel";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                    std::free);
  std::string name = status == 0 ? text.get() : mangled;
  return name.substr(0, std::min(name.find('('), size_t{60}));
}

uint64_t id_of(CUgraphNode node) {
  uint64_t id = 0;
  return cupti().GetGraphNodeId(node, &id) == CUPTI_SUCCESS ? id : 0;
}

// Their records would cost time and nothing else, so a trace goes on where CUPTI refuses.
void leave_out_quiet_calls() {
  int refused = 0;
  for (const CUpti_CallbackId id : kQuietRuntimeCalls)
    if (cupti().ActivityEnableRuntimeApi(id, 0) != CUPTI_SUCCESS) ++refused;
  for (const CUpti_CallbackId id : kQuietDriverCalls)
    if (cupti().ActivityEnableDriverApi(id, 0) != CUPTI_SUCCESS) ++refused;
  if (refused > 0)
    std::fprintf(stderr, "isobar: CUPTI records %d kinds of calls that launch nothing: tracing costs more\n",
                 refused);
}

}  // namespace

void read_buffer(uint8_t* buffer, size_t valid_bytes, trace::DeviceRecords& out) {
  using Kind = trace::DeviceActivity::Kind;
  const auto add = [&](Kind kind, const auto& r, std::string name) {
    out.activities.push_back({kind, r.correlationId, r.graphNodeId, static_cast<int64_t>(r.start),
                              static_cast<int64_t>(r.end), std::move(name)});
  };
  CUpti_Activity* record = nullptr;
  CUptiResult code;
  while ((code = cupti().ActivityGetNextRecord(buffer, valid_bytes, &record)) == CUPTI_SUCCESS) {
    switch (record->kind) {
      case CUPTI_ACTIVITY_KIND_KERNEL:
      case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
        const auto& r = *reinterpret_cast<const CUpti_ActivityKernel10*>(record);
        add(Kind::kernel, r, readable(r.name));
        break;
      }
      case CUPTI_ACTIVITY_KIND_MEMCPY:
        add(Kind::copy, *reinterpret_cast<const CUpti_ActivityMemcpy6*>(record), "copy");
        break;
      case CUPTI_ACTIVITY_KIND_MEMSET:
        add(Kind::fill, *reinterpret_cast<const CUpti_ActivityMemset4*>(record), "fill");
        break;
      case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
        const auto& r = *reinterpret_cast<const CUpti_ActivityExternalCorrelation*>(record);
        if (r.externalKind == kOurs) out.links.push_back({r.correlationId, r.externalId});
        break;
      }
      default:  // the calls themselves
        break;
    }
  }
  if (code != CUPTI_ERROR_MAX_LIMIT_REACHED) check(code, "cuptiActivityGetNextRecord");
}

Collector::Collector() {
  if (the_collector) throw std::logic_error("two collectors in one process");
  ISOBAR_CUPTI(Subscribe(&subscriber_, graph_changed, this));
  for (const CUpti_CallbackId id : kGraphEvents)
    ISOBAR_CUPTI(EnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id));
  // Otherwise CUPTI clears each buffer on the thread that launches.
  uint8_t zeroed = 1;
  size_t size = sizeof zeroed;
  ISOBAR_CUPTI(ActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeroed));
  ISOBAR_CUPTI(ActivityRegisterCallbacks(buffer_wanted, buffer_full));
  the_collector = this;
}

Collector::~Collector() {
  if (!subscriber_) return;
  for (const CUpti_ActivityKind kind : kKinds) cupti().ActivityDisable(kind);
  cupti().ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);  // buffers are returned, and find no collector
  the_collector = nullptr;
  cupti().Unsubscribe(subscriber_);
}

void Collector::launching(uint64_t external) {
  if (!recording_) return;
  ISOBAR_CUPTI(ActivityPushExternalCorrelationId(kOurs, external));
  announced_ = true;
}

void Collector::launched() {
  if (!announced_) return;
  announced_ = false;
  uint64_t last = 0;
  ISOBAR_CUPTI(ActivityPopExternalCorrelationId(kOurs, &last));
}

void Collector::capturing(int32_t instr, int32_t first) {
  node_instr_ = instr - first;
}

void Collector::captured() {
  node_instr_ = -1;
}

void Collector::start() {
  {
    const std::lock_guard lock(ready_mutex_);
    while (ready_.size() < kReadyBuffers) ready_.push_back(zeroed_buffer());
  }
  read_clocks();
  for (const CUpti_ActivityKind kind : kKinds) ISOBAR_CUPTI(ActivityEnable(kind));
  leave_out_quiet_calls();
  recording_ = true;
}

void Collector::stop() {
  ISOBAR_CUDA(cudaDeviceSynchronize());
  recording_ = false;
  for (const CUpti_ActivityKind kind : kKinds) ISOBAR_CUPTI(ActivityDisable(kind));
  ISOBAR_CUPTI(ActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  read_clocks();
}

trace::DeviceRecords Collector::take() {
  const std::lock_guard lock(mutex_);
  trace::DeviceRecords out = std::move(records_);
  records_ = {};
  records_.node_instr = out.node_instr;  // graphs outlive a take()
  return out;
}

// Takes the fastest of several readings: it was not interrupted.
void Collector::read_clocks() {
  trace::ClockPair best;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 32; ++i) {
    uint64_t device = 0;
    const int64_t before = steady_ns();
    ISOBAR_CUPTI(GetTimestamp(&device));
    const int64_t after = steady_ns();
    if (after - before >= least) continue;
    least = after - before;
    best = {static_cast<int64_t>(device), before + (after - before) / 2};
  }
  const std::lock_guard lock(mutex_);
  records_.clocks.push_back(best);
}

// Its pages are touched here rather than within a step.
Collector::Buffer Collector::zeroed_buffer() {
  Buffer b(static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes)));
  if (b) std::memset(b.get(), 0, kBufferBytes);
  return b;
}

void CUPTIAPI Collector::buffer_wanted(uint8_t** buffer, size_t* size, size_t* records) {
  Buffer b;
  if (the_collector) {
    const std::lock_guard lock(the_collector->ready_mutex_);
    if (auto& ready = the_collector->ready_; !ready.empty()) {
      b = std::move(ready.back());
      ready.pop_back();
    }
  }
  if (!b) b = zeroed_buffer();
  *size = b ? kBufferBytes : 0;  // without memory CUPTI drops and counts records
  *buffer = b.release();
  *records = 0;  // no limit
}

void CUPTIAPI Collector::buffer_full(CUcontext context, uint32_t stream, uint8_t* buffer, size_t,
                                     size_t valid) {
  const Buffer owned(buffer);
  if (!the_collector) return;
  const std::lock_guard lock(the_collector->mutex_);
  try {
    read_buffer(buffer, valid, the_collector->records_);
  } catch (const Failure&) {
    ++the_collector->records_.lost;  // unreadable buffer; an exception must not pass through CUPTI
  }
  size_t dropped = 0;
  if (cupti().ActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS)
    the_collector->records_.lost += static_cast<int64_t>(dropped);
}

// A node is created while its op is captured, and cloned when the graph is instantiated: activities name the
// clone.
void CUPTIAPI Collector::graph_changed(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                       const void* data) {
  if (domain != CUPTI_CB_DOMAIN_RESOURCE) return;
  const auto& graph =
      *static_cast<const CUpti_GraphData*>(static_cast<const CUpti_ResourceData*>(data)->resourceDescriptor);
  auto& collector = *static_cast<Collector*>(self);
  const std::lock_guard lock(collector.mutex_);
  auto& nodes = collector.records_.node_instr;
  if (id == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED) {
    if (collector.node_instr_ >= 0) nodes[id_of(graph.node)] = collector.node_instr_;
  } else if (const auto original = nodes.find(id_of(graph.originalNode)); original != nodes.end()) {
    nodes[id_of(graph.node)] = original->second;
  }
}

}  // namespace isobar::cuda
