// Collects what the device did from CUPTI: kernels, copies and fills with the device's times, and which op
// each was launched for (model/trace/device_records.h joins them). One a process: CUPTI has one listener.
//
//   Collector collector;                       // before any graph is captured: it notes the nodes' ops
//   collector.capturing({step, instr}, first); // … while instr's launches are captured, first of its graph
//   collector.start();                         // activities count from here
//   collector.launching({step, instr}); backend.launch(op); collector.launched();
//   collector.stop();
//   DeviceJoin j = join(collector.take(), program, rank, recorder.origin_ns());
#pragma once
#include <cupti.h>

#include <mutex>
#include <string>
#include <vector>

#include "model/trace/device_records.h"

namespace isobar::cuda {

class Collector {
 public:
  /// Throws Failure where CUPTI is missing or another tool (Nsight, a debugger) already listens.
  Collector();
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // ---- by the thread that launches ----
  /// Calls from here on are for this op, or this graph's launch: its first instr. Costs nothing until
  /// start().
  void launching(OpKey key);
  void launched();
  /// Graph nodes that are made from here on are for `instr`, in a graph that begins with instr `first`.
  void capturing(int32_t instr, int32_t first);
  void captured();

  // ---- by the thread of the training loop; the device is at rest ----
  void start();
  void stop();
  /// All between start() and stop() since the last take(), and the nodes of all graphs so far.
  DeviceRecords take();

 private:
  static void CUPTIAPI buffer_wanted(uint8_t** buffer, size_t* size, size_t* records);
  static void CUPTIAPI buffer_full(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size,
                                   size_t valid);
  static void CUPTIAPI graph_changed(void* self, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                     const void* data);
  void read_clocks();

  CUpti_SubscriberHandle subscriber_ = nullptr;
  bool recording_ = false, announced_ = false;
  int32_t node_instr_ = -1;  // of nodes that are made now; -1: not capturing
  std::mutex mutex_;         // CUPTI hands over buffers on a thread of its own
  DeviceRecords records_;
};

/// What is in a buffer that CUPTI has filled, added to `out`; kinds that are not wanted are passed over.
void read_buffer(uint8_t* buffer, size_t valid_bytes, DeviceRecords& out);

}  // namespace isobar::cuda
