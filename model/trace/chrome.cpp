#include "model/trace/chrome.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/plan/ops/work.h"

namespace isobar::trace {
namespace {

constexpr std::string_view kHead = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
constexpr std::string_view kTail = "\n]}\n";
constexpr int kStepTrack = kFirstPredictedTrack - 1;  // thread id of whole steps, after the lanes

std::string quoted(const std::string& s) {
  return nlohmann::json(s).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// Microseconds with all three decimals: exact, so that adjacent slices do not overlap.
std::string micros(int64_t ns) {
  char s[40];
  const int64_t magnitude = std::abs(ns);
  std::snprintf(s, sizeof s, "%s%ld.%03ld", ns < 0 ? "-" : "", magnitude / 1000, magnitude % 1000);
  return s;
}

std::string number(double v) {
  char s[40];
  std::snprintf(s, sizeof s, "%.15g", std::isfinite(v) ? v : 0.0);
  return s;
}

class Writer {
 public:
  Writer() : text_(kHead) {}
  void event(const std::string& line) {
    if (!first_) text_ += ",\n";
    first_ = false;
    text_ += line;
  }
  void metadata(const char* what, int pid, int tid, const std::string& args) {
    event(std::string("{\"ph\":\"M\",\"name\":\"") + what + "\",\"pid\":" + std::to_string(pid) +
          ",\"tid\":" + std::to_string(tid) + ",\"args\":{" + args + "}}");
  }
  void slice(const std::string& name, const char* category, int pid, int tid, int64_t begin, int64_t end,
             const std::string& args) {
    event("{\"ph\":\"X\",\"name\":" + quoted(name) + ",\"cat\":\"" + category +
          "\",\"pid\":" + std::to_string(pid) + ",\"tid\":" + std::to_string(tid) +
          ",\"ts\":" + micros(begin) + ",\"dur\":" + micros(end - begin) + ",\"args\":{" + args + "}}");
  }
  void flow(char phase, int64_t id, int pid, int tid, int64_t at) {
    event(std::string("{\"ph\":\"") + phase + "\",\"name\":\"wait\",\"cat\":\"wait\",\"id\":" +
          std::to_string(id) + (phase == 'f' ? ",\"bp\":\"e\"" : "") + ",\"pid\":" + std::to_string(pid) +
          ",\"tid\":" + std::to_string(tid) + ",\"ts\":" + micros(at) + "}");
  }
  std::string finish() && {
    text_ += kTail;
    return std::move(text_);
  }

 private:
  std::string text_;
  bool first_ = true;
};

// The args that do not change between runs of an op.
std::string constant_args(const plan::Op& op, const plan::Plan& plan, const std::vector<double>& predicted_s,
                          size_t index) {
  const plan::Work w = plan::work(op, plan);
  std::string s = "\"path\":" + quoted(op.path) + ",\"kind\":\"" + plan::name_of(op.kind) +
                  "\",\"shape\":" + quoted(plan::shape_text(op)) + ",\"flops\":" + number(w.flops) +
                  ",\"bytes\":" + number(w.bytes());
  if (w.wire_bytes > 0) s += ",\"wire_bytes\":" + number(w.wire_bytes);
  if (!predicted_s.empty()) s += ",\"predicted_us\":" + number(predicted_s.at(index) * 1e6);
  return s;
}

// Measured tracks have the ids of lanes, predicted ones follow kStepTrack.
int track_of(const RankTrace& r, int lane) {
  return r.side == TraceSide::predicted ? lane + kFirstPredictedTrack : lane;
}

void name_track(const RankTrace& r, int pid, int lane, const char* name, Writer& out) {
  const int tid = track_of(r, lane);
  const char* side = r.side == TraceSide::measured    ? ", measured"
                     : r.side == TraceSide::predicted ? ", predicted"
                                                      : "";
  out.metadata("thread_name", pid, tid,
               std::string("\"name\":\"") + name + side + "\",\"lane\":\"" + name + "\"");
  // Whole steps first, then for each lane the measured and the predicted track.
  const int order = 2 * (lane == kStepTrack ? -1 : lane) + (r.side == TraceSide::predicted ? 1 : 0);
  out.metadata("thread_sort_index", pid, tid, "\"sort_index\":" + std::to_string(order));
}

void write_rank(const RankTrace& r, Writer& out) {
  const plan::Plan& plan = *r.plan;
  const int pid = r.shown_as.value_or(plan.rank);
  out.metadata("process_name", pid, 0,
               "\"name\":" + quoted(r.label.empty() ? "rank " + std::to_string(pid) : r.label));
  out.metadata("process_sort_index", pid, 0, "\"sort_index\":" + std::to_string(pid));
  if (!r.timeline->steps.empty()) name_track(r, pid, kStepTrack, "step", out);
  bool used[plan::kLanes] = {};
  for (const Span& s : r.timeline->spans) used[static_cast<int>(s.lane)] = true;
  for (int l = 0; l < plan::kLanes; ++l)
    if (used[l]) name_track(r, pid, l, plan::name_of(static_cast<plan::Lane>(l)), out);
  for (const StepTime& s : r.timeline->steps)
    out.slice("step " + std::to_string(s.step), "step", pid, track_of(r, kStepTrack), s.begin_ns + r.shift_ns,
              s.end_ns + r.shift_ns, "\"step\":" + std::to_string(s.step));

  std::vector<const Span*> spans;
  spans.reserve(r.timeline->spans.size());
  for (const Span& s : r.timeline->spans) spans.push_back(&s);
  std::stable_sort(spans.begin(), spans.end(),
                   [](const Span* a, const Span* b) { return a->begin_ns < b->begin_ns; });
  // Not a fetch's copy ahead, which is on the link's lane beside the op.
  const auto is_own = [&](const Span& s) {
    return s.lane == r.program->instrs.at(static_cast<size_t>(s.instr)).lane;
  };
  std::vector<std::string> args(plan.ops.size());
  std::map<std::pair<int32_t, int32_t>, const Span*> by_instr;  // (step, instr)
  for (const Span* s : spans) {
    const plan::Op& op = plan.ops.at(static_cast<size_t>(s->op));
    std::string& constant = args[static_cast<size_t>(s->op)];
    if (constant.empty()) constant = constant_args(op, plan, r.predicted_s, static_cast<size_t>(s->op));
    out.slice(op.path, plan::name_of(op.kind), pid, track_of(r, static_cast<int>(s->lane)),
              s->begin_ns + r.shift_ns, s->end_ns + r.shift_ns,
              constant + ",\"micro\":" + std::to_string(s->micro) + ",\"step\":" + std::to_string(s->step));
    if (is_own(*s)) by_instr[{s->step, s->instr}] = s;
  }
  // Arrows from inside the producer's slice to the begin of the waiting one. Ids stay below 2^53, which
  // JavaScript represents exactly, and are distinct between ranks, so that parts can be merged.
  int64_t id = (static_cast<int64_t>(pid) << 36) + (r.side == TraceSide::predicted ? int64_t{1} << 35 : 0);
  for (const Span* s : spans) {
    if (!is_own(*s)) continue;
    for (const int32_t producer : r.program->instrs.at(static_cast<size_t>(s->instr)).waits) {
      const auto found = by_instr.find({s->step, producer});
      if (found == by_instr.end()) continue;  // dropped, as the recorder has reported
      const Span& from = *found->second;
      const int64_t inside = std::max(from.begin_ns, from.end_ns - 1);
      out.flow('s', id, pid, track_of(r, static_cast<int>(from.lane)),
               std::min(inside, s->begin_ns) + r.shift_ns);
      out.flow('f', id, pid, track_of(r, static_cast<int>(s->lane)), s->begin_ns + r.shift_ns);
      ++id;
    }
  }
}

}  // namespace

void write_chrome_trace(const std::filesystem::path& path, const std::vector<RankTrace>& ranks) {
  Writer out;
  for (const RankTrace& r : ranks) write_rank(r, out);
  write_atomically(path, std::move(out).finish());
}

std::filesystem::path part_path(const std::filesystem::path& path, int rank) {
  std::filesystem::path part = path;
  return part.replace_extension(".rank" + std::to_string(rank) + path.extension().string());
}

void merge_chrome_traces(const std::vector<std::filesystem::path>& parts, const std::filesystem::path& out,
                         bool remove_parts) {
  std::string all(kHead);
  for (const std::filesystem::path& part : parts) {
    const std::string text = read_file(part);
    if (!text.starts_with(kHead) || !text.ends_with(kTail) || text.size() < kHead.size() + kTail.size())
      throw ConfigError(part.string(), "", "is not a whole trace part", "trace the run again");
    const std::string_view events =
        std::string_view(text).substr(kHead.size(), text.size() - kHead.size() - kTail.size());
    if (events.empty()) continue;
    if (all.size() > kHead.size()) all += ",\n";
    all += events;
  }
  all += kTail;
  write_atomically(out, all);
  if (!remove_parts) return;
  for (const std::filesystem::path& part : parts)
    if (part != out) std::filesystem::remove(part);
}

}  // namespace isobar::trace
