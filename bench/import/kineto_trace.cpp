#include "bench/import/kineto_trace.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "bench/logs/log_text.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/base/text/json_fault.h"
#include "model/base/text/printed.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar::foreign {
namespace {

using nlohmann::json;

constexpr int kEventDepth = 64;
constexpr int64_t kEventValues = 100'000;
constexpr double kAhead = 0.05;     // of a step: if kernels end later after its mark, the host runs ahead
constexpr double kCutWork = 0.5;    // of the other steps' work: a last step with less was cut off
constexpr double kCutTime = 0.5;    // of the other marks' time, if work is only seen on the device
constexpr double kCutAlone = 0.25;  // of the shortest other mark, if no work is seen

double number_of(const json& e, const char* key) {  // some programs quote their numbers
  const auto it = e.find(key);
  if (it != e.end() && it->is_string()) return logs::number_at(it->get_ref<const std::string&>()).value_or(0);
  return it != e.end() && it->is_number() ? it->get<double>() : 0;
}

// Threads, streams and processes are numbers, except for a few that the profiler names.
int64_t place_of(const json& e, const char* key) {
  const auto it = e.find(key);
  if (it == e.end()) return 0;
  return it->is_number() ? it->get<int64_t>() : static_cast<int64_t>(std::hash<std::string>()(it->dump()));
}

[[noreturn]] void refuse_trace(const std::string& file, const std::string& text) {
  const std::string fault = json_fault(text);
  if (fault.empty())
    throw ConfigError(file, "traceEvents", "is not there, or holds events without bound",
                      "write it with torch.profiler's export_chrome_trace");
  if (fault.find("where it ends") != std::string::npos)
    throw ConfigError(file, "", fault, "copy it again, or write it again: its program was killed");
  throw ConfigError(file, "", fault + " (quotes within names are a known fault of PyTorch's exporter)",
                    "write the trace again with a newer PyTorch, or without record_shapes and with_stack");
}

struct Mark {
  int64_t number = 0, process = 0;
  double begin = 0, end = 0;
  size_t work = 0;  // launches, ops or kernels in it
  double time() const { return end - begin; }
};

std::vector<Mark> marks_of(const std::string& file, const std::vector<TraceEvent>& events) {
  const std::string mark = "ProfilerStep#";
  std::vector<Mark> out;
  std::map<int64_t, int64_t> seen;  // number -> process
  for (const TraceEvent& e : events) {
    if (!e.name.starts_with(mark) || e.category.find("gpu") != std::string::npos) continue;
    const int64_t number = std::atoll(e.name.c_str() + mark.size());
    const auto [at, is_new] = seen.try_emplace(number, e.process);
    if (!is_new && at->second == e.process)
      throw ConfigError(file, mark + std::to_string(number),
                        "stands twice in the trace: it is of two profiles", "give one profile's trace");
    out.push_back({number, e.process, e.begin, e.end});
  }
  if (out.empty())
    throw ConfigError(
        file, "ProfilerStep", "marks no step",
        "give a trace of torch.profiler.profile that has a schedule, and whose step() is called "
        "after each optimizer step");
  std::sort(out.begin(), out.end(), [](const Mark& a, const Mark& b) { return a.begin < b.begin; });
  for (const Mark& m : out)
    if (!(m.time() > 0) && (&m != &out.back() || out.size() == 1))  // the last may be cut off
      throw ConfigError(file, mark + std::to_string(m.number), "has no positive number as its 'dur'",
                        "give the trace as its profiler wrote it");
  return out;
}

bool is_kernel(const TraceEvent& e) {
  return e.category == "kernel";
}
bool is_device_work(const TraceEvent& e) {
  return is_kernel(e) || e.category == "gpu_memcpy" || e.category == "gpu_memset";
}
bool is_launch(const TraceEvent& e) {
  return e.correlation != 0 && !is_device_work(e) &&
         (e.category.ends_with("runtime") || e.category.ends_with("driver"));
}

/// The mark that contains a time; none: before, after or between marks.
std::optional<size_t> mark_at(const std::vector<Mark>& marks, double time) {
  auto at =
      std::upper_bound(marks.begin(), marks.end(), time, [](double t, const Mark& m) { return t < m.begin; });
  if (at == marks.begin() || time > (--at)->end) return std::nullopt;
  return static_cast<size_t>(at - marks.begin());
}

/// Launch times of device work by correlation; empty when most of it has no launch in the trace.
std::unordered_map<int64_t, double> launches_of(const std::vector<TraceEvent>& events) {
  std::unordered_map<int64_t, double> out;
  for (const TraceEvent& e : events)
    if (is_launch(e)) out.emplace(e.correlation, e.begin);
  size_t kernels = 0, launched = 0;
  for (const TraceEvent& e : events)
    if (is_kernel(e)) ++kernels, launched += out.contains(e.correlation);
  if (10 * launched < 9 * kernels || kernels == 0) out.clear();
  return out;
}

double median_of(const std::vector<Mark>& marks, double (*what)(const Mark&)) {
  std::vector<double> v;
  v.reserve(marks.size());
  for (const Mark& m : marks) v.push_back(what(m));
  return quantile(v, 0.5);
}

/// True when the profile ended within the last step, whose mark is then shorter than the step.
bool last_is_cut(const std::vector<Mark>& marks, bool by_host) {
  if (marks.size() < 2) return false;
  const Mark& last = marks.back();
  const std::vector<Mark> others(marks.begin(), marks.end() - 1);
  const double work = median_of(others, [](const Mark& m) { return static_cast<double>(m.work); });
  if (work == 0) {
    const auto shortest = std::min_element(others.begin(), others.end(),
                                           [](const Mark& a, const Mark& b) { return a.time() < b.time(); });
    return last.time() < kCutAlone * shortest->time();
  }
  const double time = median_of(others, [](const Mark& m) { return m.time(); });
  return static_cast<double>(last.work) < kCutWork * work && (by_host || last.time() < kCutTime * time);
}

std::string milliseconds(double us) {
  return printed("%.4g ms", 1e-3 * us);
}

class TraceReader {
 public:
  TraceReader(const std::string& file, const std::vector<TraceEvent>& events)
      : events_(events), marks_(marks_of(file, events)), launches_(launches_of(events)) {
    out_.on_device = std::any_of(events.begin(), events.end(), is_kernel);
    ops_ =
        std::any_of(events.begin(), events.end(), [](const TraceEvent& e) { return e.category == "cpu_op"; });
  }

  TraceSteps operator()() {
    count_work();
    drop_cut_step();
    for (const Mark& m : marks_) {
      double& s = out_.seconds[m.number];
      s = std::max(s, 1e-6 * m.time());
    }
    if (out_.on_device) believe_kernels();
    collect_work();
    return std::move(out_);
  }

 private:
  /// The launch time of an event, or its begin if the trace has no launch.
  double asked_at(const TraceEvent& e) const {
    const auto at = launches_.find(e.correlation);
    return at == launches_.end() ? e.begin : at->second;
  }
  bool by_host() const { return !launches_.empty() || ops_; }

  void count_work() {
    const bool ops = launches_.empty() && ops_;
    for (const TraceEvent& e : events_)
      if (ops ? e.category == "cpu_op" : is_kernel(e))
        if (const auto i = mark_at(marks_, asked_at(e))) ++marks_[*i].work;
  }

  void drop_cut_step() {
    if (!last_is_cut(marks_, by_host())) return;
    const Mark& last = marks_.back();
    out_.notes.push_back("ProfilerStep#" + std::to_string(last.number) + " of " + milliseconds(last.time()) +
                         " is left out: the trace ends within it");
    cut_ = last.begin;
    marks_.pop_back();
  }

  /// The end of each step's last kernel; empty when kernels cannot be assigned to steps.
  std::vector<double> kernel_ends() const {
    std::vector<const TraceEvent*> kernels;
    for (const TraceEvent& e : events_)
      if (is_kernel(e) && e.begin >= marks_.front().begin) kernels.push_back(&e);
    std::vector<double> ends(marks_.size(), -1);
    if (!launches_.empty()) {
      for (const TraceEvent* e : kernels)
        if (const auto i = mark_at(marks_, asked_at(*e))) ends[*i] = std::max(ends[*i], e->end);
      if (std::find(ends.begin(), ends.end(), -1) != ends.end()) return {};
    } else {
      ends = ends_by_repetition(std::move(kernels));
    }
    for (size_t i = 1; i < ends.size(); ++i) ends[i] = std::max(ends[i], ends[i - 1]);
    return ends;
  }

  /// Without launches, steps are assumed to repeat the same kernels in the same order, else to have equal
  /// shares of their time.
  std::vector<double> ends_by_repetition(std::vector<const TraceEvent*> kernels) const {
    if (kernels.empty()) return {};
    std::sort(kernels.begin(), kernels.end(), [](auto* a, auto* b) { return a->begin < b->begin; });
    const size_t n = marks_.size(), each = kernels.size() / n;
    std::vector<double> ends(n, 0);
    bool repeats = kernels.size() == each * n && each > 0;
    for (size_t i = 0; repeats && i < kernels.size(); ++i) {
      repeats = kernels[i]->name == kernels[i % each]->name;
      ends[i / each] = std::max(ends[i / each], kernels[i]->end);
    }
    if (repeats) return ends;
    double last = 0;
    for (const TraceEvent* e : kernels) last = std::max(last, e->end);
    const double begin = kernels.front()->begin, share = (last - begin) / static_cast<double>(n);
    for (size_t i = 0; i < n; ++i) ends[i] = begin + share * static_cast<double>(i + 1);
    return ends;
  }

  /// Replaces host marks by kernel ends when kernels end after the marks, which then time only the host's
  /// part.
  void believe_kernels() {
    for (size_t i = 1; i < marks_.size(); ++i)
      if (marks_[i].process != marks_[0].process) return;  // several ranks in one trace
    const std::vector<double> ends = kernel_ends();
    if (ends.empty()) return;
    const double marked = median_of(marks_, [](const Mark& m) { return m.time(); });
    bool ahead = false;
    for (size_t i = 0; i < ends.size(); ++i) {
      const bool seen = !launches_.empty() || i + 1 == ends.size();
      ahead = ahead || (seen && ends[i] - marks_[i].end > kAhead * marked);
    }
    if (!ahead) return;
    std::vector<double> took;
    double begin = marks_.front().begin;
    for (size_t i = 0; i < ends.size(); ++i) {
      took.push_back(ends[i] - begin);
      out_.seconds[marks_[i].number] = 1e-6 * took.back();
      begin = ends[i];
    }
    out_.notes.push_back("the host runs ahead of its kernels: a step is " +
                         milliseconds(quantile(took, 0.5)) + " by those, which counts, and " +
                         milliseconds(marked) + " by its marks");
  }

  void collect_work() {
    const double first = marks_.front().begin, last = marks_.back().end;
    for (const TraceEvent& e : events_) {
      const bool counts = out_.on_device ? is_device_work(e) : e.category == "cpu_op";
      // Kernels lag behind the host, so those of the last step may end after its mark.
      const bool inside = e.begin >= first && (out_.on_device || e.end <= last);
      const bool cut = cut_ && launches_.contains(e.correlation) && asked_at(e) >= *cut_;
      if (counts && inside && !cut) out_.work.push_back(&e);
    }
  }

  const std::vector<TraceEvent>& events_;
  std::vector<Mark> marks_;
  const std::unordered_map<int64_t, double> launches_;
  bool ops_ = false;
  std::optional<double> cut_;  // begin of the omitted step
  TraceSteps out_;
};

}  // namespace

std::vector<TraceEvent> trace_events(const std::string& file, TracedWorld& world) {
  std::vector<TraceEvent> out;
  std::string section;  // current key of the outermost object
  bool found = false;
  int inside = 1;      // depth of the events' array, which alone is a trace, too
  int64_t values = 0;  // in one event
  // Events are processed and dropped during parsing, because the document of a large trace would take a
  // multiple of its size.
  const auto take = [&](int depth, json::parse_event_t what, json& j) {
    if (what == json::parse_event_t::key && depth == 1) section = j.get<std::string>();
    if (what == json::parse_event_t::array_start && depth == 0) section = "traceEvents", inside = 0;
    const bool events = section == "traceEvents";
    if (what == json::parse_event_t::array_start && depth == inside && events) found = true;
    if (what != json::parse_event_t::object_end || depth != inside + 1)
      return depth <= kEventDepth && ++values <= kEventValues;
    values = 0;
    if (events && found && text_in(j, "ph") == "X") {
      const double ts = number_of(j, "ts");
      const auto args = j.find("args");
      const double correlation = args != j.end() && args->is_object() ? number_of(*args, "correlation") : 0;
      out.push_back({text_in(j, "name"), logs::lower_case(text_in(j, "cat")), place_of(j, "pid"),
                     place_of(j, "tid"), static_cast<int64_t>(correlation), ts, ts + number_of(j, "dur")});
    }
    return false;
  };
  const std::string text = logs::log_text(file);
  const json rest = json::parse(text, take, /*allow_exceptions=*/false);
  if (!rest.is_structured() || !found || text.find('\0') != std::string::npos) refuse_trace(file, text);
  const json distributed = object_in(rest, "distributedInfo");
  const auto whole = [&](const char* key) {
    const auto at = distributed.find(key);
    return at != distributed.end() && at->is_number_integer() ? std::optional(at->get<int64_t>())
                                                              : std::nullopt;
  };
  world = {whole("rank"), whole("world_size")};
  return out;
}

TraceSteps steps_of_trace(const std::string& file, const std::vector<TraceEvent>& events) {
  return TraceReader(file, events)();
}

}  // namespace isobar::foreign
