// Joins device activities to the ops that launched them. Pure: records in, spans out, so that recorded or
// synthetic records can be used.
//
//   DeviceRecords records = collector.take();                       // model/trace/cuda/collector.h
//   DeviceJoin j = join(records, program, plan.rank);               // j.spans: for a timeline
//   std::puts(to_text(j.share).c_str());
//
// The join uses ids only, never kernel names. The engine announces each op before launching it: library calls
// until the op's end carry its external id (Link), and each kernel or copy carries the correlation id of its
// call. Under graph replay one call launches everything: an activity is then attributed by its graph node,
// whose op was noted at capture. What the engine does beside the program's ops is announced by its name.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/plan/link.h"
#include "model/trace/engine_work.h"
#include "model/trace/span.h"

namespace isobar::trace {

/// An op's announcement: its step and index in the linked program; for a graph the first instr that it
/// replays. `ahead`: a fetch's copy to the device that runs during this step, for the next one.
struct OpKey {
  int32_t step = 0, instr = 0;
  bool ahead = false;
  bool operator==(const OpKey&) const = default;
};
constexpr uint64_t kAheadBit = uint64_t{1} << 31;
constexpr uint64_t kEngineBit = uint64_t{1} << 30;  // an EngineWork, which has no step and no instr
constexpr uint64_t external_id(OpKey k) {
  return static_cast<uint64_t>(static_cast<uint32_t>(k.step)) << 32 | (k.ahead ? kAheadBit : 0) |
         static_cast<uint32_t>(k.instr);
}
constexpr OpKey op_key(uint64_t external_id) {
  return {static_cast<int32_t>(external_id >> 32), static_cast<int32_t>(external_id & (kEngineBit - 1)),
          (external_id & kAheadBit) != 0};
}
constexpr uint64_t external_id(EngineWork w) {
  return kEngineBit | static_cast<uint64_t>(w);
}

/// One kernel, copy or fill on the device.
struct DeviceActivity {
  enum class Kind : uint8_t { kernel, copy, fill };
  Kind kind = Kind::kernel;
  uint32_t correlation = 0;          // of the call that launched it
  uint64_t graph_node = 0;           // node that it ran for; 0: no graph
  int64_t begin_ns = 0, end_ns = 0;  // device clock; both 0: not measured
  std::string name;                  // for display only
};

/// A library call made while an op or work of the engine was announced.
struct Link {
  uint32_t correlation = 0;
  uint64_t external = 0;  // external_id
};

/// Readings of both clocks at one moment.
struct ClockPair {
  int64_t device_ns = 0, host_ns = 0;
};

/// Maps device time to host time: the line through the first and last pair, which removes drift; an offset
/// with one pair; identity without.
class ClockMap {
 public:
  ClockMap() = default;
  explicit ClockMap(const std::vector<ClockPair>& pairs);
  int64_t to_host(int64_t device_ns) const;

 private:
  ClockPair first_;
  double rate_ = 1;  // host nanoseconds per device nanosecond
};

struct DeviceRecords {
  std::vector<DeviceActivity> activities;            // in any order
  std::vector<Link> links;                           // in any order
  std::unordered_map<uint64_t, int32_t> node_instr;  // graph node -> instr, counted from its graph's first
  std::vector<ClockPair> clocks;                     // by time
  int64_t lost = 0;                                  // records dropped for lack of buffers
};

/// Device time by attribution: sums over activities, so concurrent ones each count.
struct DeviceShare {
  int64_t activities = 0, joined = 0;
  int64_t device_ns = 0, joined_ns = 0;                // all; of ops
  std::array<int64_t, kEngineWorks> engine_ns{};       // by EngineWork
  int64_t untimed = 0;                                 // activities without times
  int64_t ambiguous = 0;                               // activities whose call was announced for two ops
  int64_t lost = 0;                                    // records dropped
  std::vector<std::pair<std::string, int64_t>> other;  // ns by name of unattributed activities, longest first
  /// Share of ops and of the engine's announced work.
  double joined_share() const;
};

struct DeviceJoin {
  // One for each (step, instr) with activities, from the first begin to the last end, on the op's lane; and
  // one on the h2d lane for each fetch ahead.
  std::vector<Span> spans;
  DeviceShare share;
};

/// Span times are host times minus `origin_ns` (SpanRecorder::origin_ns). Activities whose ids name no instr
/// of the program stay unattributed.
DeviceJoin join(const DeviceRecords& records, const plan::Program& program, int rank, int64_t origin_ns = 0);

/// "device time 12.3 ms in 4,000 activities: 99.2 % joined to ops, 0.1 % of the engine (downloads 0.1 %),
/// other 0.7 % (memset 0.5 %, ...)"
std::string to_text(const DeviceShare& share);

}  // namespace isobar::trace
