// Collects device activities from CUPTI: kernels, copies and fills with the device's times, and the op of
// each (model/trace/device_records.h joins them). One per process, since CUPTI has one subscriber.
//
//   Collector collector;                       // before any graph is captured: it notes the nodes' ops
//   collector.capturing({step, instr}, first); // while instr's launches are captured; first: of its graph
//   collector.start();                         // activities count from here
//   collector.launching(external_id({step, instr})); backend.launch(op); collector.launched();
//   collector.stop();
//   DeviceJoin j = join(collector.take(), program, rank, recorder.origin_ns());
#pragma once
#include <cupti.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "model/trace/device_records.h"

namespace isobar::cuda {

class Collector {
 public:
  /// Throws Failure if CUPTI is missing or another tool (Nsight, a debugger) is subscribed.
  Collector();
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // ---- from the launching thread ----
  /// Attributes calls from here on to this external_id: of an op, of a graph by its first instr, or of the
  /// engine's work. Costs nothing before start().
  void launching(uint64_t external);
  void launched();
  /// Attributes graph nodes created from here on to `instr`, in the graph whose first instr is `first`.
  void capturing(int32_t instr, int32_t first);
  void captured();

  // ---- from the training loop's thread; the device is idle ----
  void start();
  void stop();
  /// All activities between start() and stop() since the last take(), and the nodes of all graphs so far.
  trace::DeviceRecords take();

 private:
  struct Freed {
    void operator()(uint8_t* p) const { std::free(p); }
  };
  using Buffer = std::unique_ptr<uint8_t, Freed>;
  static Buffer zeroed_buffer();
  static void CUPTIAPI buffer_wanted(uint8_t** buffer, size_t* size, size_t* records);
  static void CUPTIAPI buffer_full(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                                   size_t valid);
  static void CUPTIAPI graph_changed(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                     const void* data);
  void read_clocks();

  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool recording_ = false, announced_ = false;
  int32_t node_instr_ = -1;  // of nodes being created; -1: not capturing
  std::mutex mutex_;         // CUPTI returns buffers on its own thread
  trace::DeviceRecords records_;
  std::mutex ready_mutex_;     // never held in a call of CUPTI's, which may ask for a buffer
  std::vector<Buffer> ready_;  // for CUPTI to ask for
};

/// Adds the records of a buffer filled by CUPTI to `out`; ignores other kinds.
void read_buffer(uint8_t* buffer, size_t valid_bytes, trace::DeviceRecords& out);

}  // namespace isobar::cuda
