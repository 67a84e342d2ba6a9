// Traces of PyTorch's profiler (Kineto): Chrome trace JSON with "ProfilerStep#N" marks, kernels in category
// "kernel" with their stream, or, without a device, "cpu_op" events that nest.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "bench/import/import.h"
#include "bench/sweep/trials.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "model/base/json.h"
#include "model/plan/op.h"

namespace isobar {
namespace {

using nlohmann::json;

constexpr int kEventDepth = 64;
constexpr int64_t kEventValues = 100'000;

struct TraceRank {
  std::map<int64_t, double> steps;      // number -> seconds
  std::map<std::string, OpRecord> ops;  // inside the steps
  bool on_device = false;               // kernels of an accelerator are among them
};

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

// By the words that kernels of cuBLAS, CUTLASS, cuDNN, FlashAttention, NCCL and ATen have in their names.
std::string kind_of(const std::string& name) {
  const std::string s = lower(name);
  const auto has = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](const char* w) { return s.find(w) != std::string::npos; });
  };
  if (has({"nccl", "c10d", "gloo"})) {
    if (has({"allreduce", "all_reduce"})) return "all_reduce";
    if (has({"allgather", "all_gather"})) return "all_gather";
    if (has({"reducescatter", "reduce_scatter"})) return "reduce_scatter";
    if (has({"alltoall", "all_to_all"})) return "all_to_all";
    if (has({"sendrecv", "send", "recv"})) return "send";
    return "broadcast";
  }
  if (has({"flash", "fmha", "attention", "sdpa"}))
    return has({"bwd", "backward"}) ? name_of(OpKind::attention_backward) : name_of(OpKind::attention);
  if (has({"gemm", "::mm", "addmm", "bmm", "mmbackward", "matmul", "linear", "cutlass", "xmma"}))
    return "gemm";
  if (has({"layer_norm", "layernorm", "rms_norm", "rmsnorm"})) return "norm";
  if (has({"adam", "sgd", "foreach"})) return "optimizer";
  if (has({"memcpy", "copy_"})) return "copy";
  if (has({"memset", "zero_", "fill_"})) return "zero";
  return "pointwise";
}

bool is_communication(const std::string& kind) {
  return kind == "all_reduce" || kind == "all_gather" || kind == "reduce_scatter" || kind == "all_to_all" ||
         kind == "send" || kind == "broadcast";
}

struct Event {
  std::string name, category;
  int64_t thread = 0;
  double begin = 0, end = 0;  // microseconds
};

double number_of(const json& e, const char* key) {
  const auto it = e.find(key);
  return it != e.end() && it->is_number() ? it->get<double>() : 0;
}

// Threads and streams are numbers, but for a few that the profiler names.
int64_t thread_of(const json& e) {
  const auto it = e.find("tid");
  if (it == e.end()) return 0;
  return it->is_number() ? it->get<int64_t>() : static_cast<int64_t>(std::hash<std::string>()(it->dump()));
}

std::vector<Event> events_of(const std::string& file) {
  std::vector<Event> out;
  std::string section;  // the key of the outermost object that is read
  bool found = false;
  int64_t values = 0;  // of one event
  // Events are taken as they come and dropped: a trace of a gigabyte would be many of them as a document.
  const auto take = [&](int depth, json::parse_event_t what, json& j) {
    if (what == json::parse_event_t::key && depth == 1) section = j.get<std::string>();
    const bool events = section == "traceEvents";
    if (what == json::parse_event_t::array_start && depth == 1 && events) found = true;
    if (what != json::parse_event_t::object_end || depth != 2)
      return depth <= kEventDepth && ++values <= kEventValues;
    values = 0;
    if (events && found && text_in(j, "ph") == "X") {
      const double ts = number_of(j, "ts");
      out.push_back(
          {text_in(j, "name"), lower(text_in(j, "cat")), thread_of(j), ts, ts + number_of(j, "dur")});
    }
    return false;
  };
  const json rest = json::parse(read_file(file), take, /*allow_exceptions=*/false);
  if (!rest.is_object() || !found)
    throw ConfigError(file, "traceEvents", "is not there",
                      "write it with torch.profiler's export_chrome_trace");
  return out;
}

TraceRank read_rank(const std::string& file) {
  const std::vector<Event> events = events_of(file);
  TraceRank out;
  const std::string mark = "ProfilerStep#";
  std::vector<std::pair<double, double>> steps;
  for (const Event& e : events) {
    if (!e.name.starts_with(mark) || e.category.find("gpu") != std::string::npos) continue;
    const int64_t number = std::atoll(e.name.c_str() + mark.size());
    out.steps[number] = (e.end - e.begin) * 1e-6;
    steps.emplace_back(e.begin, e.end);
  }
  if (steps.empty())
    throw ConfigError(file, "ProfilerStep", "marks no step",
                      "give torch.profiler.profile a schedule and call its step() after each optimizer step");
  std::sort(steps.begin(), steps.end());
  const bool device = out.on_device =
      std::any_of(events.begin(), events.end(), [](const Event& e) { return e.category == "kernel"; });
  std::vector<const Event*> work;
  for (const Event& e : events) {
    // Kernels run behind the host that launched them: those of the last step may end after its mark.
    const bool inside = e.begin >= steps.front().first && (device || e.end <= steps.back().second);
    const bool counts =
        device ? e.category == "kernel" || e.category == "gpu_memcpy" || e.category == "gpu_memset"
               : e.category == "cpu_op";
    if (inside && counts) work.push_back(&e);
  }
  // Without a device ops nest: only the outermost of a thread counts.
  std::sort(work.begin(), work.end(), [](const Event* a, const Event* b) {
    return std::tuple(a->thread, a->begin, -a->end) < std::tuple(b->thread, b->begin, -b->end);
  });
  std::map<int64_t, double> until;  // thread -> end of its outermost op
  for (const Event* e : work) {
    if (!device) {
      double& end = until.emplace(e->thread, -1).first->second;
      if (e->end <= end) continue;
      end = e->end;
    }
    std::string name = e->name;  // autograd names what it evaluates at the end of a long prefix
    if (const std::string prefix = "autograd::engine::evaluate_function: "; name.starts_with(prefix))
      name.erase(0, prefix.size());
    const std::string kind = kind_of(name), path = "kernel/" + name.substr(0, 96);
    OpRecord& o = out.ops[path];
    o.path = path;
    o.kind = kind;
    o.lane = is_communication(kind) ? "dp" : "compute";
    ++o.count;
    o.seconds += (e->end - e->begin) * 1e-6;
  }
  return out;
}

}  // namespace

bool is_kineto(const std::string& text) {
  return text.find("\"traceEvents\"") != std::string::npos;
}

std::vector<double> kineto_steps(const std::vector<std::string>& traces) {
  std::map<int64_t, double> steps;
  for (const std::string& file : traces)
    for (const auto& [number, seconds] : read_rank(file).steps)
      steps[number] = std::max(steps[number], seconds);
  std::vector<double> out;
  for (const auto& [number, seconds] : steps) out.push_back(seconds);
  return out;
}

Imported import_kineto(const std::vector<std::string>& traces, const std::string& config,
                       const std::filesystem::path& out) {
  RunRecord r;
  r.spec = load_run_spec(config);
  validate(r.spec);
  std::map<int64_t, double> steps;
  for (const std::string& file : traces) {
    TraceRank rank = read_rank(file);
    r.spec.run.device = rank.on_device ? "cuda" : "cpu";
    for (const auto& [number, seconds] : rank.steps) steps[number] = std::max(steps[number], seconds);
    if (r.ops.empty())
      for (auto& [path, op] : rank.ops) r.ops.push_back(std::move(op));
  }
  r.ranks = r.ranks_on_host = r.spec.layout.world();
  r.threads = std::max<int64_t>(1, r.spec.run.threads);
  std::vector<double> seconds;
  int64_t number = 0;
  for (const auto& [mark, s] : steps) {
    StepRecord step;
    step.step = ++number;
    step.seconds = s;
    step.samples_per_s = static_cast<double>(r.spec.train.global_batch) / s;
    r.steps.push_back(step);
    seconds.push_back(s);
  }
  r.step_s = step_stats(seconds);
  r.spec.train.steps = number;
  r.axes = {{"engine", "PyTorch"}};
  r.provenance = {{"imported_from", traces}, {"engine", "PyTorch"}};
  r.id = trial_id(r.spec, 0);
  write_imported_run(r, out);
  return {.runs = 1};
}

}  // namespace isobar
