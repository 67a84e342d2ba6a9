// What a device says it has done, joined to the ops that asked for it. Records in, spans out: no device and
// no clock is read here, so recorded or made-up records are as good as fresh ones.
//
//   DeviceRecords records = collector.take();                       // model/trace/cuda/collector.h
//   DeviceJoin j = join(records, program, plan.rank);               // j.spans: for a timeline
//   std::puts(to_text(j.share).c_str());
//
// The join goes by ids alone, never by the name of a kernel. The engine announces each op before it launches
// it: the library calls made until the op ends carry its external id (Link), and each kernel or copy carries
// the correlation id of the call that launched it. Under graph replay one call launches everything: what an
// activity belongs to is then said by the graph node it ran for, and the node's op was noted at capture.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/plan/link.h"
#include "model/trace/span.h"

namespace isobar {

/// What an op is announced as: its step and its place in the linked program. A graph's launch is announced as
/// the first instr that it replays.
struct OpKey {
  int32_t step = 0, instr = 0;
  bool operator==(const OpKey&) const = default;
};
constexpr uint64_t external_id(OpKey k) {
  return static_cast<uint64_t>(static_cast<uint32_t>(k.step)) << 32 | static_cast<uint32_t>(k.instr);
}
constexpr OpKey op_key(uint64_t external_id) {
  return {static_cast<int32_t>(external_id >> 32), static_cast<int32_t>(external_id & 0xffffffff)};
}

/// One kernel, copy or fill on the device.
struct DeviceActivity {
  enum class Kind : uint8_t { kernel, copy, fill };
  Kind kind = Kind::kernel;
  uint32_t correlation = 0;          // of the call that launched it
  uint64_t graph_node = 0;           // that it ran for; 0: launched by itself
  int64_t begin_ns = 0, end_ns = 0;  // of the device's clock; both 0: not measured
  std::string name;                  // to show what was not attributed; nothing is joined by it
};

/// A library call that was made while an op was announced.
struct Link {
  uint32_t correlation = 0;
  uint64_t external = 0;  // external_id
};

/// Readings of both clocks at one moment.
struct ClockPair {
  int64_t device_ns = 0, host_ns = 0;
};

/// The host's time of a device's time: the line through the first and the last pair, which takes out the
/// drift between the clocks; a shift alone with one pair; nothing without.
class ClockMap {
 public:
  ClockMap() = default;
  explicit ClockMap(const std::vector<ClockPair>& pairs);
  int64_t to_host(int64_t device_ns) const;

 private:
  ClockPair first_;
  double rate_ = 1;  // host nanoseconds in one of the device
};

struct DeviceRecords {
  std::vector<DeviceActivity> activities;            // in any order
  std::vector<Link> links;                           // in any order
  std::unordered_map<uint64_t, int32_t> node_instr;  // graph node -> instr, from the first of its graph
  std::vector<ClockPair> clocks;                     // by time
  int64_t lost = 0;                                  // records that found no room in the buffers
};

/// Where the device's time went. Times are sums over activities, so what runs at once counts each.
struct DeviceShare {
  int64_t activities = 0, joined = 0;
  int64_t device_ns = 0, joined_ns = 0;
  int64_t untimed = 0;                                 // activities without times, of ops or not
  int64_t ambiguous = 0;                               // whose call was announced for two ops
  int64_t lost = 0;                                    // records that never came
  std::vector<std::pair<std::string, int64_t>> other;  // ns by name of what no op claims, longest first
  double joined_share() const {
    return device_ns > 0 ? static_cast<double>(joined_ns) / static_cast<double>(device_ns) : 1;
  }
};

struct DeviceJoin {
  std::vector<Span> spans;  // one for each (step, instr) that ran anything: its first begin to its last end
  DeviceShare share;
};

/// Times of the spans are the host's less `origin_ns` (SpanRecorder::origin_ns). Ids that name no instr of
/// the program leave their activity unattributed.
DeviceJoin join(const DeviceRecords& records, const Program& program, int rank, int64_t origin_ns = 0);

/// "device time 12.3 ms in 4,000 activities: 99.2 % joined to ops, other 0.8 % (memset 0.5 %, ...)"
std::string to_text(const DeviceShare& share);

}  // namespace isobar
