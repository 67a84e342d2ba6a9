// Traces of PyTorch's profiler (Kineto): Chrome trace JSON with "ProfilerStep#N" marks, kernels in category
// "kernel" with their stream, or, without a device, "cpu_op" events that nest.
#include <algorithm>
#include <tuple>

#include "bench/import/import.h"
#include "bench/import/kineto_trace.h"
#include "bench/logs/log_text.h"
#include "bench/sweep/results/trials.h"
#include "model/base/error.h"
#include "model/plan/ops/op.h"

namespace isobar::foreign {
namespace {

using nlohmann::json;

struct TraceRank {
  TracedWorld world;
  std::map<int64_t, double> steps;               // number -> seconds
  std::map<std::string, records::OpRecord> ops;  // inside the steps
  bool on_device = false;                        // includes kernels of an accelerator
  std::vector<std::string> notes;
};

// The kind of an op, from words in kernel names of cuBLAS, CUTLASS, cuDNN, FlashAttention, NCCL and ATen.
std::string kind_of(const std::string& name) {
  const std::string s = logs::lower_case(name);
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
    return has({"bwd", "backward"}) ? plan::name_of(plan::OpKind::attention_backward)
                                    : plan::name_of(plan::OpKind::attention);
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

TraceRank read_rank(const std::string& file) {
  TracedWorld world;
  const std::vector<TraceEvent> events = trace_events(file, world);
  TraceSteps trace = steps_of_trace(file, events);
  TraceRank out{world, std::move(trace.seconds), {}, trace.on_device, std::move(trace.notes)};
  std::vector<const TraceEvent*>& work = trace.work;
  // Without a device ops nest, so only the outermost op of a thread counts.
  std::sort(work.begin(), work.end(), [](const TraceEvent* a, const TraceEvent* b) {
    return std::tuple(a->thread, a->begin, -a->end) < std::tuple(b->thread, b->begin, -b->end);
  });
  std::map<int64_t, double> until;  // thread -> end of its outermost op
  for (const TraceEvent* e : work) {
    if (!out.on_device) {
      double& end = until.emplace(e->thread, -1).first->second;
      if (e->end <= end) continue;
      end = e->end;
    }
    std::string name = e->name;  // drops autograd's long prefix
    if (const std::string prefix = "autograd::engine::evaluate_function: "; name.starts_with(prefix))
      name.erase(0, prefix.size());
    const std::string kind = kind_of(name), path = "kernel/" + name.substr(0, 96);
    records::OpRecord& o = out.ops[path];
    o.path = path;
    o.kind = kind;
    o.lane = is_communication(kind) ? "dp" : "compute";
    ++o.count;
    o.seconds += (e->end - e->begin) * 1e-6;
  }
  return out;
}

/// The number of ranks that the traces say, if any does. Throws ConfigError for two of one rank, and for
/// traces of worlds of two sizes.
std::optional<int64_t> world_of_traces(const std::vector<std::string>& traces,
                                       const std::vector<TraceRank>& ranks) {
  std::optional<int64_t> size;
  std::map<int64_t, std::string> by_rank;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const TracedWorld& w = ranks[i].world;
    if (w.rank) {
      const auto [at, is_new] = by_rank.emplace(*w.rank, traces[i]);
      if (!is_new)
        throw ConfigError(traces[i], "distributedInfo.rank",
                          "is " + std::to_string(*w.rank) + ", as in " + at->second,
                          "give one trace of each rank");
    }
    if (w.size && size && *w.size != *size)
      throw ConfigError(
          traces[i], "distributedInfo.world_size",
          "is " + std::to_string(*w.size) + ", and " + std::to_string(*size) + " in the traces before it",
          "give the traces of one run's ranks");
    if (w.size) size = w.size;
  }
  return size;
}

void refuse_other_world(const std::vector<std::string>& traces, const std::vector<TraceRank>& ranks,
                        const RunSpec& spec, const std::string& config) {
  const std::optional<int64_t> size = world_of_traces(traces, ranks);
  if (!size || *size == spec.layout.world()) return;
  throw ConfigError(traces.front(), "distributedInfo.world_size",
                    "is " + std::to_string(*size) + ", and the layout of " + config + " has " +
                        std::to_string(spec.layout.world()) + " ranks",
                    "give the configuration of this run");
}

/// The slowest rank's time of each step that all traces have.
std::map<int64_t, double> slowest_steps(const std::vector<std::string>& traces,
                                        const std::vector<TraceRank>& ranks) {
  std::map<int64_t, double> out = ranks.front().steps;
  for (const TraceRank& r : ranks) {
    std::erase_if(out, [&](const auto& step) { return !r.steps.contains(step.first); });
    for (auto& [number, seconds] : out) seconds = std::max(seconds, r.steps.at(number));
  }
  if (out.empty())
    throw ConfigError(traces.back(), "ProfilerStep", "has no step in common with " + traces.front(),
                      "give the traces of one run's ranks");
  return out;
}

}  // namespace

bool is_kineto(const std::string& text) {
  const size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  return text.find("\"traceEvents\"") != std::string::npos ||
         (text.substr(begin, 1) == "[" && text.find("\"ph\"") != std::string::npos);
}

std::vector<double> kineto_steps(const std::vector<std::string>& traces, std::vector<std::string>& notes,
                                 std::optional<int64_t>* world) {
  std::vector<TraceRank> ranks;
  for (const std::string& file : traces) ranks.push_back(read_rank(file));
  for (const TraceRank& r : ranks) notes.insert(notes.end(), r.notes.begin(), r.notes.end());
  if (const auto size = world_of_traces(traces, ranks); world) *world = size;
  std::vector<double> out;
  for (const auto& [number, seconds] : slowest_steps(traces, ranks)) out.push_back(seconds);
  return out;
}

Imported import_kineto(const std::vector<std::string>& traces, const std::string& config,
                       const std::filesystem::path& out) {
  Imported done{.runs = 1};
  records::RunRecord r;
  r.spec = load_run_spec(config);
  validate(r.spec);
  std::vector<TraceRank> ranks;
  for (const std::string& file : traces) {
    TraceRank rank = read_rank(file);
    r.spec.run.device = rank.on_device ? RunDevice::cuda : RunDevice::cpu;
    for (const std::string& note : rank.notes) done.notes.push_back(file + ": " + note);
    if (r.ops.empty())
      for (auto& [path, op] : rank.ops) r.ops.push_back(std::move(op));
    ranks.push_back(std::move(rank));
  }
  refuse_other_world(traces, ranks, r.spec, config);
  const std::map<int64_t, double> steps = slowest_steps(traces, ranks);
  r.ranks = r.ranks_on_host = r.spec.layout.world();
  r.threads = std::max<int64_t>(1, r.spec.run.threads);
  std::vector<double> seconds;
  int64_t number = 0;
  for (const auto& [mark, s] : steps) {
    records::StepRecord step;
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
  r.id = sweep::trial_id(r.spec, 0);
  write_imported_run(r, out);
  return done;
}

}  // namespace isobar::foreign
