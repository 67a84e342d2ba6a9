// Logs of Megatron-LM: its arguments, an "iteration" line every --log-interval steps, and memory by rank.
#include <algorithm>
#include <cmath>

#include "bench/import/training_log.h"
#include "bench/logs/forms/line_form.h"
#include "bench/logs/log_text.h"
#include "model/base/error.h"

namespace isobar::foreign {
namespace {

constexpr double kMiBInGiB = 1024;

/// The lines like "tensor_model_parallel_size ...... 4" between the marks.
class Arguments {
 public:
  explicit Arguments(const std::vector<std::string>& lines, const std::string& file) {
    bool inside = false;
    for (const std::string& line : lines) {
      if (line.find("end of arguments ---") != std::string::npos) {
        inside = false;
      } else if (line.find(" arguments ---") != std::string::npos) {
        if (!values_.empty())
          throw ConfigError(file, "arguments", "are printed twice: the log holds several runs",
                            "give each run's part as a file of its own");
        inside = true;
      } else if (inside) {
        take(line);
      }
    }
  }
  bool empty() const { return values_.empty(); }
  /// "" when absent or None.
  std::string text(const std::string& name) const {
    const auto at = values_.find(name);
    return at == values_.end() || at->second == "None" ? "" : at->second;
  }
  bool yes(const std::string& name) const { return text(name) == "True"; }
  double number(const std::string& name, double otherwise) const {
    const std::string t = text(name);
    char* end = nullptr;
    const double v = std::strtod(t.c_str(), &end);
    return t.empty() || *end != 0 ? otherwise : v;
  }

 private:
  void take(const std::string& line) {
    const size_t dots = line.find(" ...");
    if (dots == std::string::npos) return;
    const size_t begin = line.find_last_of(" \t", dots - 1);
    const size_t end = line.find_first_not_of(". ", dots);
    values_[line.substr(begin + 1, dots - begin - 1)] = end == std::string::npos ? "" : line.substr(end);
  }
  std::map<std::string, std::string> values_;
};

std::string precision_of(const Arguments& a) {
  if (!a.text("fp4").empty() && a.text("fp4") != "False") return "nvfp4";
  if (!a.text("fp8").empty() && a.text("fp8") != "False")
    return a.text("fp8_recipe") == "mxfp8" ? "mxfp8" : "fp8";
  return a.yes("bf16") ? "bf16" : a.yes("fp16") ? "fp16" : "fp32";
}

std::string zero_of(const Arguments& a) {
  if (a.yes("use_torch_fsdp2")) return "3";
  if (a.yes("use_megatron_fsdp") || a.yes("use_custom_fsdp")) {
    const std::string s = a.text("data_parallel_sharding_strategy");
    return s == "optim_grads_params" ? "3" : s == "optim_grads" ? "2" : s == "optim" ? "1" : "0";
  }
  return a.yes("use_distributed_optimizer") ? "1" : "0";
}

/// Transformer Engine uses flash kernels by default; Megatron's own layers fuse the softmax.
std::string attention_of(const Arguments& a) {
  const std::string backend = a.text("attention_backend");
  if (backend.find("unfused") != std::string::npos) return "fused";
  if (a.yes("use_flash_attn") || backend.find("flash") != std::string::npos) return "flash2";
  return a.text("transformer_impl") == "transformer_engine" ? "flash2" : "fused";
}

/// The number of layers without experts by moe_layer_freq: every how many, or a list of 0 and 1.
std::optional<double> dense_layers_of(const Arguments& a) {
  const std::string freq = a.text("moe_layer_freq");
  const double layers = a.number("num_layers", 0), every = a.number("moe_layer_freq", 1);
  if (!freq.starts_with("["))
    return every >= 1 ? std::optional(layers - std::ceil(layers / every)) : std::nullopt;
  if (freq.find_first_not_of("[]01, ") != std::string::npos) return std::nullopt;
  const auto zeros = static_cast<double>(std::count(freq.begin(), freq.end(), '0'));
  const auto ones = static_cast<double>(std::count(freq.begin(), freq.end(), '1'));
  return zeros + ones == layers ? std::optional(zeros) : std::nullopt;
}

void read_experts(const Arguments& a, LoggedRun& r) {
  r.set("ep", a.number("expert_model_parallel_size", 1));
  const double ffn = a.number("moe_ffn_hidden_size", a.number("ffn_hidden_size", 0));
  for (const auto& [column, v] : {std::pair{"experts", a.number("num_experts", 0)},
                                  {"top_k", a.number("moe_router_topk", 0)},
                                  {"expert_ffn", ffn}})
    if (v > 0) r.set(column, v);
  const double shared = a.number("moe_shared_expert_intermediate_size", 0);
  const std::optional<double> dense = dense_layers_of(a);
  if (dense) r.set("dense_layers", *dense);
  r.set("shared_experts", ffn > 0 ? shared / ffn : 0);
  if (!dense)
    r.open["arch"] = "has experts by moe_layer_freq " + a.text("moe_layer_freq") + ", which is not read";
  else if (!a.yes("swiglu"))
    r.open["arch"] = "has experts without swiglu, which are not priced";
  else if (ffn > 0 && std::fmod(shared, ffn) != 0)
    r.open["arch"] = "has shared experts of another width (moe_shared_expert_intermediate_size)";
}

void read_latent_attention(const Arguments& a, LoggedRun& r) {
  constexpr double kRope = 64;  // of a key, in tables
  for (const char* name : {"q_lora_rank", "kv_lora_rank", "v_head_dim"}) r.set(name, a.number(name, 0));
  r.set("qk_head_dim", a.number("qk_head_dim", 0) + a.number("qk_pos_emb_head_dim", kRope));
  for (const char* column : {"kv_heads", "head_dim"}) r.cells.erase(column);
  if (a.number("qk_pos_emb_head_dim", kRope) != kRope)
    r.open["arch"] = "has latent attention with qk_pos_emb_head_dim other than 64, which is not read";
  for (const char* name : {"q_lora_rank", "kv_lora_rank", "qk_head_dim", "v_head_dim"})
    if (!(a.number(name, 0) > 0))
      r.open["arch"] = std::string("has latent attention without ") + name + ", which is not read";
}

/// The kind of net, or why it is none that is read: layers of other kinds would be priced as these.
void read_kind(const Arguments& a, LoggedRun& r) {
  const bool experts = a.number("num_experts", 0) > 0, latent = a.yes("multi_latent_attention");
  if (experts) read_experts(a, r);
  if (latent) read_latent_attention(a, r);
  if (latent && !experts && !a.yes("swiglu")) r.open["arch"] = "has latent attention without swiglu";
  const auto said = [&](const char* name) { return !a.text(name).empty() && a.text(name) != "False"; };
  for (const char* name : {"is_hybrid_model", "hybrid_override_pattern", "hybrid_layer_pattern",
                           "heterogeneous_layers_config_path", "experimental_attention_variant"})
    if (said(name))
      r.open["arch"] = std::string("is by ") + name + " a net of other layers, which is not read";
  if (a.text("spec").find("mamba") != std::string::npos)
    r.open["arch"] = "is by spec " + a.text("spec") + ", which is not read";
  if (a.number("mtp_num_layers", 0) > 0)
    r.open["arch"] = "has layers of mtp_num_layers, which are not priced";
  if (r.open.contains("arch")) return;
  r.set("arch", experts ? (latent ? "moe-mla" : "moe") : latent ? "mla" : a.yes("swiglu") ? "llama" : "gpt");
}

/// Sets the recomputation; of the modules that may be named only the core of attention is priced.
void read_recompute(const Arguments& a, LoggedRun& r) {
  const std::string recompute = a.text("recompute_granularity"), modules = a.text("recompute_modules");
  const bool selective = recompute == "selective";
  if (selective && !modules.empty() && modules != "['core_attn']")
    r.open["recompute"] = "is selective of the modules " + modules + ", of which core_attn alone is read";
  else
    r.set("recompute", recompute.empty() ? "none" : recompute);
  if (recompute == "full" && a.text("recompute_method") == "block")
    r.set("recomputed_layers", a.number("recompute_num_layers", 1));
}

void read_arguments(const Arguments& a, LoggedRun& r) {
  const auto count = [&](const char* column, const char* name, double otherwise = 0) {
    if (const double v = a.number(name, otherwise); v > 0) r.set(column, v);
  };
  count("layers", "num_layers");
  count("hidden", "hidden_size");
  count("ffn_hidden", "ffn_hidden_size");
  count("heads", "num_attention_heads");
  count("head_dim", "kv_channels");
  if (a.yes("group_query_attention")) count("kv_heads", "num_query_groups");
  count("vocab", "padded_vocab_size");
  count("seq_len", "seq_length");
  count("gpus", "world_size");
  count("tp", "tensor_model_parallel_size");
  count("cp", "context_parallel_size", 1);
  count("pp", "pipeline_model_parallel_size");
  count("vpp", "virtual_pipeline_model_parallel_size", 1);
  count("micro_batch", "micro_batch_size");
  count("global_batch", "global_batch_size");
  count("dp", "data_parallel_size");
  read_kind(a, r);
  r.set("schedule", a.number("virtual_pipeline_model_parallel_size", 1) > 1 ? "interleaved-1F1B" : "1F1B");
  r.set("sequence_parallel", a.yes("sequence_parallel") ? "y" : "n");
  r.set("zero_stage", zero_of(a));
  r.set("precision", precision_of(a));
  r.set("attention_kernel", attention_of(a));
  read_recompute(a, r);
}

}  // namespace

void read_megatron_log(const std::string& text, LoggedRun& r) {
  const std::vector<std::string> lines = logs::log_lines(text);
  const Arguments arguments(lines, r.file);
  if (!arguments.empty()) read_arguments(arguments, r);
  if (r.number("dp") > 0)
    refuse_disagreement(r.file, "world_size", r.number("gpus"),
                        r.number("dp") * r.number("tp") * r.number("cp") * r.number("pp"),
                        "its data, tensor, context and pipeline parallel sizes", 1.001);
  const double batch = arguments.number("global_batch_size", 0);
  double memory = 0, last = 0;
  int64_t others = 0, untimed = 0, skipping = 0;
  StepLines taken(r.file);
  StepPace pace;
  for (const std::string& line : lines) {
    // "> padded vocab (size: 50257) with 431 dummy tokens (new size: 50688)"
    if (line.find("padded vocab") != std::string::npos)
      if (const auto v = logs::number_after(line, "new size:")) r.set("vocab", *v);
    if (const auto m = logs::number_after(line, "max reserved:")) memory = std::max(memory, *m);
    const std::optional<logs::Quantities> q = logs::read_line(logs::megatron_line(), line);
    untimed += q && q->has(logs::LogQuantity::step) && !q->has(logs::LogQuantity::seconds);
    if (!q || !q->has(logs::LogQuantity::seconds)) continue;
    const double seconds = *(*q)[logs::LogQuantity::seconds];
    const auto own = (*q)[logs::LogQuantity::batch];
    if (own) last = *own;
    // Skips steps of a batch-size ramp-up, whose batch is not that of the arguments.
    if (own && batch > 0 && *own != batch) {
      ++others;
      continue;
    }
    const auto iteration = (*q)[logs::LogQuantity::step];
    if (!(seconds > 0) || !taken.take(iteration)) continue;
    r.steps.push_back(seconds);
    skipping += (*q)[logs::LogQuantity::skipped] > 0.0;
    add_rates(*q, r.second);
    pace.add(line, iteration, (*q)[logs::LogQuantity::consumed_samples], seconds, r.second);
  }
  if (r.steps.empty() && last > 0)
    throw ConfigError(r.file, "global batch size",
                      "of no iteration is that of the arguments, " + std::to_string(std::llround(batch)),
                      "take a log that reaches the full batch");
  if (batch == 0 && last > 0) r.set("global_batch", last);
  const auto note = [&](int64_t n, const char* what) {
    if (n > 0) r.notes.push_back(std::to_string(n) + what);
  };
  note(others, " lines of another global batch than the arguments' (a ramp-up) are left out");
  note(untimed, " lines of iterations without a time are left out");
  if (2 * skipping > static_cast<int64_t>(r.steps.size()))
    note(skipping,
         " of its lines skipped iterations, which have no optimizer step: their times are too short");
  if (memory > 0) r.set("memory_gb", memory / kMiBInGiB);
}

}  // namespace isobar::foreign
