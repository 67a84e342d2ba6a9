// Logs of torchtitan: the model's arguments, the device mesh, the parallelisms and options applied, and a
// line every metrics.log_freq steps with memory and tokens per second of a GPU.
#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/import/training_log.h"
#include "bench/logs/forms/line_form.h"
#include "bench/logs/log_text.h"
#include "model/base/error.h"

namespace isobar::foreign {
namespace {

bool has(const std::string& line, const char* words) {
  return line.find(words) != std::string::npos;
}

/// A number in ModelArgs(dim=4096, n_layers=32, …); none when absent or None.
std::optional<double> argument(const std::string& line, const std::string& name) {
  for (const char* before : {"(", " "})
    if (const auto v = logs::number_after(line, before + name + "=")) return v;
  return std::nullopt;
}

/// The feed-forward width, computed like torchtitan's Llama.
double ffn_of(double dim, double multiplier, double multiple) {
  double f = std::floor(2 * 4 * dim / 3);
  if (multiplier > 0) f = std::floor(multiplier * f);
  return std::ceil(f / multiple) * multiple;
}

/// True for a mixture of experts, judged by the arguments and not by the model's name.
bool of_experts(const std::string& line) {
  if (has(line, "moe_enabled=False") || has(line, "moe_enabled=false")) return false;
  return has(line, "moe_") || has(line, "MoE") || has(line, "num_experts") || has(line, "n_routed_experts");
}

void read_model(const std::string& line, LoggedRun& r) {
  const auto dim = argument(line, "dim");
  if (!dim) return;
  if (of_experts(line))
    r.open["arch"] = "is a mixture of experts in this log of torchtitan, which is not read";
  else
    r.set("arch", "llama");
  r.set("hidden", *dim);
  const auto take = [&](const char* column, const char* name) {
    if (const auto v = argument(line, name)) r.set(column, *v);
  };
  take("layers", "n_layers");
  take("heads", "n_heads");
  take("kv_heads", "n_kv_heads");
  take("head_dim", "head_dim");
  take("ffn_hidden", "hidden_dim");
  take("vocab", "vocab_size");
  take("seq_len", "max_seq_len");
  if (const auto multiple = argument(line, "multiple_of"); multiple && *multiple > 0)
    r.set("ffn_hidden", ffn_of(*dim, argument(line, "ffn_dim_multiplier").value_or(0), *multiple));
}

/// Arguments that are printed as JSON over many lines (December 2025 to April 2026), as if on one line.
class ModelJson {
 public:
  /// The arguments when `line` ends them.
  std::optional<std::string> take(const std::string& line) {
    if (has(line, "Building ") && line.ends_with("with {")) {
      text_ = "(";
    } else if (text_ && line == "}") {
      return std::exchange(text_, std::nullopt);
    } else if (text_) {
      const size_t name = line.find('"'), end = line.find("\": ");
      if (name < end && end != std::string::npos)
        *text_ += line.substr(name + 1, end - name - 1) + "=" + line.substr(end + 3) + " ";
    }
    return std::nullopt;
  }

 private:
  std::optional<std::string> text_;
};

/// Lines that describe a run, of which a second with other words is another run's.
class SaidOnce {
 public:
  explicit SaidOnce(const std::string& file) : file_(file) {}
  void check(const std::string& line, const char* key) {
    const auto rest = logs::text_after(line, key);
    const auto [at, is_new] = said_.try_emplace(key, rest.value_or(""));
    if (!is_new && at->second != *rest)
      throw ConfigError(file_, key, "is printed twice, with other numbers: the log holds several runs",
                        "give each run's part as a file of its own");
  }

 private:
  const std::string& file_;
  std::map<std::string, std::string> said_;
};

/// "Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]", or "… parallelism: pp=1, dp_replicate=1, …"
std::map<std::string, double> mesh_of(const std::string& line) {
  std::map<std::string, double> out;
  if (const auto named = logs::text_after(line, "parallelism:")) {
    for (const char* axis : {"pp", "dp_replicate", "dp_shard", "cp", "tp", "ep"})
      if (const auto v = logs::number_after(" " + std::string(*named), std::string(" ") + axis + "="))
        out[axis] = *v;
    return out;
  }
  const size_t sizes = line.rfind('[');
  if (sizes == std::string::npos) return out;
  size_t at = sizes + 1, name = line.find('\'');
  while (name != std::string::npos && name < sizes) {
    const size_t end = line.find('\'', name + 1);
    if (end == std::string::npos) break;
    char* rest = nullptr;
    const double n = std::strtod(line.c_str() + at, &rest);
    out[line.substr(name + 1, end - name - 1)] = n;
    at = static_cast<size_t>(rest - line.c_str()) + 1;
    if (at > line.size()) break;
    name = line.find('\'', end + 1);
  }
  return out;
}

/// Sets the layout from the mesh, which lists every axis of the world, and none for a world of one.
void read_mesh(const std::map<std::string, double>& mesh, LoggedRun& r, double& replicas) {
  const auto of = [&](const char* axis) {
    const auto at = mesh.find(axis);
    return at == mesh.end() ? 1.0 : std::max(at->second, 1.0);
  };
  replicas = of("dp") * of("dp_replicate") * of("dp_shard");
  r.set("dp", replicas);
  r.set("tp", of("tp"));
  r.set("cp", of("cp"));
  r.set("pp", of("pp"));
  r.set("gpus", replicas * of("tp") * of("cp") * of("pp"));
  r.set("sequence_parallel", of("tp") > 1 ? "y" : "n");
  if (of("dp_shard") > 1) r.set("zero_stage", 3);
}

/// "Applied selective activation checkpointing to the model", "Applied FullAC activation checkpointing …"
void read_recompute(const std::string& line, LoggedRun& r) {
  const std::string rest(logs::text_after(line, "Applied").value_or(""));
  const std::string name = rest.substr(0, rest.find(' '));
  const std::string lower = logs::lower_case(name);
  for (const char* known : {"selective", "full", "none"})
    if (lower.starts_with(known)) return r.set("recompute", known);
  r.cells.erase("recompute");
  r.open["recompute"] = "is by '" + name + "' in this log, which says nothing of whole layers";
}

/// Reads "Applied FSDP", "Float8 training active" and other lines that change the training.
void read_applied(const std::string& line, LoggedRun& r) {
  if (has(line, "Applied FSDP") || has(line, "Applied HSDP")) r.set("zero_stage", 3);
  if (has(line, "activation checkpointing to the model")) read_recompute(line, r);
  if (has(line, "each TransformerBlock with torch.compile")) r.set("compiled", "y");
  if (has(line, "Float8Linear") || (has(line, "Float8 ") && has(line, "training active")))
    r.set("precision", "fp8");
  if (has(line, "MXFP8 training active") || has(line, "MXLinear")) {
    r.cells.erase("precision");
    r.open["precision"] = "is MXFP8 in this log of torchtitan, which is not priced";
  }
}

struct TitanStep {
  std::string line;
  logs::Quantities q;
  bool behind_validation = false;
};

/// Checks that the global batch is replicas times local batch times accumulated micro-batches.
void check_batch(const LoggedRun& r, double local, double replicas, double accumulated) {
  if (local > 0 && r.number("global_batch") > 0)
    refuse_disagreement(r.file, "global batch size", r.number("global_batch"), local * replicas * accumulated,
                        "local batch size, accumulation steps and the ranks of the line 'device mesh'",
                        1.001);
}

}  // namespace

void read_torchtitan_log(const std::string& text, LoggedRun& r) {
  double memory = 0, replicas = 1, local = 0, accumulated = 1, micro_batches = 1;
  std::vector<TitanStep> steps;
  StepLines taken(r.file);
  SaidOnce once(r.file);
  ModelJson json;
  read_mesh({}, r, replicas);
  r.set("precision", "bf16");
  r.set("recompute", "none");
  r.set("schedule", "1F1B");
  r.set("zero_stage", 0);
  r.set("compiled", "n");
  bool validated = false;
  double capacity = 0;
  for (const std::string& line : logs::log_lines(text)) {
    if (has(line, "Args(")) read_model(line, r);
    if (const auto arguments = json.take(line)) read_model(*arguments, r);
    if (has(line, "device mesh with")) {
      once.check(line, "device mesh with");
      read_mesh(mesh_of(line), r, replicas);
    }
    if (has(line, "Trainer is initialized with")) once.check(line, "Trainer is initialized with");
    read_applied(line, r);
    if (has(line, "capacity: ")) capacity = logs::number_after(line, " with").value_or(0);
    if (const auto v = logs::number_after(line, "local batch size")) {
      local = *v;
      if (const auto all = logs::number_after(line, "global batch size")) r.set("global_batch", *all);
      if (const auto n = logs::number_after(line, "gradient accumulation steps")) accumulated = *n;
      if (const auto s = logs::number_after(line, "sequence length")) r.set("seq_len", *s);
    }
    if (const auto v = logs::number_after(line, "Trainer is initialized with");
        v && has(line, "per DP rank")) {
      const double context = logs::number_after(line, "maximum context length").value_or(0);
      if (const auto n = logs::number_after(line, "gradient accumulation steps")) accumulated = *n;
      const auto all = logs::number_after(line, "tokens per DP rank,");
      if (context > 0 && all && std::fmod(*v, context) == 0) {
        local = *v / context;
        r.set("global_batch", *all / context);
        r.set("seq_len", context);
      }
    }
    if (has(line, "Using pipeline schedule")) {
      const std::string name(*logs::text_after(line, "Using pipeline schedule"));
      micro_batches = std::max(1.0, logs::number_after(line, " with").value_or(0));
      const double stages = logs::number_after(line, " and").value_or(0);
      if (!name.starts_with("1F1B") && !name.starts_with("Interleaved1F1B"))
        throw ConfigError(r.file, "pipeline schedule", "is '" + name.substr(0, name.find(' ')) + "'",
                          "give a run of 1F1B or Interleaved1F1B: no other is priced");
      if (name.starts_with("Interleaved") && stages > 0) {
        r.set("schedule", "interleaved-1F1B");
        r.set("vpp", stages / std::max(1.0, std::atof(r.cells["pp"].c_str())));
      }
    }
    const std::optional<logs::Quantities> q = logs::read_line(logs::torchtitan_line(), line);
    const bool numbered = q && q->has(logs::LogQuantity::step);
    validated = validated || (numbered && logs::names_another_step(line));
    const bool step = numbered && !logs::names_another_step(line);
    if (!step || !((*q)[logs::LogQuantity::tokens_per_gpu_s] > 0.0) ||
        !taken.take((*q)[logs::LogQuantity::step]))
      continue;
    steps.push_back({line, *q, std::exchange(validated, false)});
    const double gib = (*q)[logs::LogQuantity::memory_bytes].value_or(0) / logs::kGiB;
    memory = std::max(memory, gib);
    if (const auto share = logs::number_after(line, "GiB("))
      refuse_disagreement(r.file, "memory", gib, *share / 100 * capacity, "its share and the GPU's capacity",
                          1.05);
  }
  check_batch(r, local, replicas, accumulated);
  if (local > 0) r.set("micro_batch", local / micro_batches);
  if (memory > 0) r.set("memory_gb", memory);
  // Rates need the batch to become times; training_log.cpp reports what is missing.
  const double tokens = r.number("global_batch") * r.number("seq_len"), gpus = r.number("gpus");
  if (!(tokens > 0)) return;
  StepPace pace;
  r.second.by_the_clock = true;
  for (const TitanStep& s : steps) {
    const double seconds = tokens / (*s.q[logs::LogQuantity::tokens_per_gpu_s] * gpus);
    r.steps.push_back(seconds);
    add_rates(s.q, r.second);
    if (s.behind_validation) pace = StepPace();  // its time is in no rate
    pace.add(s.line, s.q[logs::LogQuantity::step], std::nullopt, seconds, r.second);
  }
}

}  // namespace isobar::foreign
