#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/trace/chrome.h"

namespace isobar::trace {
namespace {

using nlohmann::json;

constexpr int64_t kTraceValues = 50'000'000;  // limit: some steps of many ranks

int64_t nanoseconds(const json& event, const char* key) {
  return std::llround(event.value(key, 0.0) * 1e3);
}

plan::Lane lane_named(const std::string& name) {
  for (int l = 0; l < plan::kLanes; ++l)
    if (name == plan::name_of(static_cast<plan::Lane>(l))) return static_cast<plan::Lane>(l);
  return plan::Lane::compute;  // a lane of another version
}

plan::Lane lane_of(const json& args) {  // older files have only the name
  return lane_named(args.value("lane", args.value("name", "")));
}

TraceFile read_events(const json& events) {
  TraceFile out;
  std::map<std::pair<int32_t, int>, plan::Lane> lanes;  // (rank, thread)
  for (const json& e : events)
    if (e.value("ph", "") == "M" && e.value("name", "") == "thread_name")
      lanes[{e.value("pid", 0), e.value("tid", 0)}] = lane_of(e.value("args", json::object()));
  for (const json& e : events) {
    if (e.value("ph", "") != "X" || e.value("tid", 0) >= kFirstPredictedTrack) continue;
    const json args = e.value("args", json::object());
    const int32_t rank = e.value("pid", 0), step = args.value("step", -1);
    const int64_t begin = nanoseconds(e, "ts"), end = begin + nanoseconds(e, "dur");
    const std::string kind = e.value("cat", "");
    if (kind == "step") {
      out.steps.push_back({rank, step, begin, end});
      continue;
    }
    const plan::Lane lane = lanes[{rank, e.value("tid", 0)}];
    out.spans.push_back(
        {{rank, step, -1, -1, args.value("micro", 0), lane, begin, end}, args.value("path", ""), kind});
  }
  return out;
}

}  // namespace

TraceFile read_chrome_trace(const std::filesystem::path& path) {
  const auto refused = [&](const std::string& what) {
    return ConfigError(path.string(), "traceEvents", what, "write it again with `isobar train --trace`");
  };
  const json trace = read_json(path, most::lines, kTraceValues);
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace["traceEvents"].is_array())
    throw refused("is missing, or the file is no whole JSON");
  for (const json& e : trace["traceEvents"])
    if (!e.is_object()) throw refused("holds something that is no event");
  try {
    return read_events(trace["traceEvents"]);
  } catch (const json::exception& e) {  // a field has an unexpected type
    throw refused(std::string("holds an event that is none of Isobar's: ") + e.what());
  }
}

}  // namespace isobar::trace
