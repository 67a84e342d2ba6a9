// A trace of PyTorch's profiler (Kineto), as Chrome's trace events: what its ProfilerStep marks, its kernels
// and the calls that launched them say of steps.
//
//   const TraceRank rank = read_trace("trace.json.gz");
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace isobar {

struct TraceEvent {
  std::string name, category;
  int64_t process = 0, thread = 0, correlation = 0;  // of a kernel and the call that launched it
  double begin = 0, end = 0;                         // microseconds
};

/// Complete events ("ph": "X") of a trace. Throws ConfigError naming the byte where it is no JSON.
std::vector<TraceEvent> trace_events(const std::string& file);

struct TraceSteps {
  std::map<int64_t, double> seconds;    // by the number in ProfilerStep#7
  std::vector<const TraceEvent*> work;  // kernels and copies in them; without a device, ops that nest
  bool on_device = false;
  std::vector<std::string> notes;  // what was left out, and where kernels were believed
};

/// Steps by the marks of the host; by the ends of their kernels where the host ran ahead of those. A last
/// step that the trace's end cut off is left out.
TraceSteps steps_of_trace(const std::string& file, const std::vector<TraceEvent>& events);

}  // namespace isobar
