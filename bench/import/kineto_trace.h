// Step times from a trace of PyTorch's profiler (Kineto, Chrome trace events): ProfilerStep marks, kernels,
// and the calls that launched them.
//
//   const TraceRank rank = read_trace("trace.json.gz");
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace isobar::foreign {

struct TraceEvent {
  std::string name, category;
  int64_t process = 0, thread = 0, correlation = 0;  // links a kernel and its launch
  double begin = 0, end = 0;                         // microseconds
};

/// The rank that a trace is of, by its distributedInfo.
struct TracedWorld {
  std::optional<int64_t> rank, size;
};

/// Complete events ("ph": "X") of a trace. Throws ConfigError naming the byte at which the JSON is invalid.
std::vector<TraceEvent> trace_events(const std::string& file, TracedWorld& world);

struct TraceSteps {
  std::map<int64_t, double> seconds;    // by N of ProfilerStep#N
  std::vector<const TraceEvent*> work;  // kernels and copies; without a device, nested ops
  bool on_device = false;
  std::vector<std::string> notes;  // omissions, and steps timed by kernels
};

/// Times steps by the host's marks, or by the ends of their kernels if the host ran ahead of the device.
/// Omits a last step that the trace's end cuts off.
TraceSteps steps_of_trace(const std::string& file, const std::vector<TraceEvent>& events);

}  // namespace isobar::foreign
