// Logs of Megatron-LM: its arguments, an "iteration" line every --log-interval steps, and memory by rank.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "bench/import/training_log.h"
#include "bench/logs/forms/line_form.h"
#include "bench/logs/log_text.h"
#include "model/base/error.h"

namespace isobar::foreign {
namespace {

/// Takes "....default" or "....updated" off a value, which only GPT-NeoX writes behind it.
bool take_neox_mark(std::string& value) {
  for (const std::string mark : {"default", "updated"})
    if (value.size() > mark.size() && value.ends_with(mark)) {
      const size_t dots = value.size() - mark.size();
      const size_t end = value.find_last_not_of('.', dots - 1) + 1;
      if (end == dots) return false;
      value.erase(end);
      return true;
    }
  return false;
}

std::string megatrons_name(const std::string& neox) {
  static const std::map<std::string, std::string> kNames = {
      {"train_batch_size", "global_batch_size"},
      {"train_micro_batch_size_per_gpu", "micro_batch_size"},
      {"model_parallel_size", "tensor_model_parallel_size"},
      {"pipe_parallel_size", "pipeline_model_parallel_size"},
      {"intermediate_size", "ffn_hidden_size"},
      {"num_kv_heads", "num_key_value_heads"}};
  const auto at = kNames.find(neox);
  return at == kNames.end() ? neox : at->second;
}

/// The arguments that Megatron-LM and its forks print at the start of a log, a line each.
class MegatronArguments {
 public:
  /// Throws ConfigError when they are printed twice.
  MegatronArguments(const std::vector<std::string>& lines, const std::string& file) {
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
  /// True when the argument has a value other than False.
  bool said(const std::string& name) const { return !text(name).empty() && text(name) != "False"; }
  double number(const std::string& name, double otherwise) const {
    const std::string t = text(name);
    char* end = nullptr;
    const double v = std::strtod(t.c_str(), &end);
    return t.empty() || *end != 0 ? otherwise : v;
  }
  /// True for GPT-NeoX, whose names are read as Megatron-LM's.
  bool neox() const { return neox_; }

 private:
  void take(const std::string& line) {
    // "name ...... value": at least one dot between blanks, which long names leave of them
    size_t dots = line.find(" ."), end = dots;
    for (; dots != std::string::npos; dots = line.find(" .", dots + 1)) {
      end = std::min(line.find_first_not_of('.', dots + 1), line.size());
      if (end == line.size() || line[end] == ' ') break;
    }
    if (dots == std::string::npos || dots == 0) return;
    const size_t begin = line.find_last_of(" \t", dots - 1);
    const std::string name = line.substr(begin + 1, dots - begin - 1);
    std::string value = end == line.size() ? "" : line.substr(end + 1);
    const bool marked = take_neox_mark(value);
    neox_ = neox_ || marked;
    values_[marked ? megatrons_name(name) : name] = value;
  }
  bool neox_ = false;
  std::map<std::string, std::string> values_;
};

constexpr double kMiBInGiB = 1024;

std::string precision_of(const MegatronArguments& a) {
  if (!a.text("fp4").empty() && a.text("fp4") != "False") return "nvfp4";
  if (!a.text("fp8").empty() && a.text("fp8") != "False")
    return a.text("fp8_recipe") == "mxfp8" ? "mxfp8" : "fp8";
  if (a.yes("fp8_hybrid") || a.yes("fp8_e4m3")) return "fp8";  // until 2023, and of Megatron-DeepSpeed
  if (a.neox()) return a.text("precision") == "bfloat16" ? "bf16" : a.text("precision");
  return a.yes("bf16") ? "bf16" : a.yes("fp16") ? "fp16" : "fp32";
}

/// "": DeepSpeed shards by its own configuration, which the log does not show.
std::string zero_of(const MegatronArguments& a, std::optional<double> deepspeed) {
  if (a.yes("deepspeed")) {
    const double stage = deepspeed.value_or(a.number("zero_stage", -1));
    return stage < 0 ? "" : std::to_string(std::llround(stage));
  }
  if (a.yes("use_torch_fsdp2")) return "3";
  if (a.yes("use_megatron_fsdp") || a.yes("use_custom_fsdp")) {
    const std::string s = a.text("data_parallel_sharding_strategy");
    return s == "optim_grads_params" ? "3" : s == "optim_grads" ? "2" : s == "optim" ? "1" : "0";
  }
  return a.yes("use_distributed_optimizer") ? "1" : "0";
}

/// Transformer Engine uses flash kernels by default; Megatron's own layers fuse the softmax.
std::string attention_of(const MegatronArguments& a) {
  const std::string backend = a.text("attention_backend") + a.text("attention_config");
  if (backend.find("unfused") != std::string::npos) return "fused";
  for (const char* flag : {"use_flash_attn", "use_flash_attn_v2", "use_flash_attn_builder"})
    if (a.yes(flag)) return "flash2";
  if (backend.find("flash") != std::string::npos) return "flash2";
  if (a.yes("use_flash_attn_v1") || a.yes("use_flash_attn_triton")) return "flash1";
  return a.text("transformer_impl") == "transformer_engine" ? "flash2" : "fused";
}

/// The number of layers without experts by moe_layer_freq: every how many, or a list of 0 and 1.
std::optional<double> dense_layers_of(const MegatronArguments& a) {
  const std::string freq = a.text("moe_layer_freq");
  const double layers = a.number("num_layers", 0), every = a.number("moe_layer_freq", 1);
  if (!freq.starts_with("["))
    return every >= 1 ? std::optional(layers - std::ceil(layers / every)) : std::nullopt;
  if (freq.find_first_not_of("[]01, ") != std::string::npos) return std::nullopt;
  const auto zeros = static_cast<double>(std::count(freq.begin(), freq.end(), '0'));
  const auto ones = static_cast<double>(std::count(freq.begin(), freq.end(), '1'));
  return zeros + ones == layers ? std::optional(zeros) : std::nullopt;
}

void read_experts(const MegatronArguments& a, LoggedRun& r) {
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

void read_latent_attention(const MegatronArguments& a, LoggedRun& r) {
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

/// Why the net is none that is read, "" when it is: layers of other kinds would be priced as these.
std::string other_net(const MegatronArguments& a) {
  for (const char* name : {"is_hybrid_model", "hybrid_override_pattern", "hybrid_layer_pattern",
                           "heterogeneous_layers_config_path", "experimental_attention_variant",
                           "decoder_seq_length", "vision_pretraining", "retro_add_retriever"})
    if (a.said(name)) return std::string("is by ") + name + " a net of other layers, which is not read";
  if (a.text("spec").find("mamba") != std::string::npos)
    return "is by spec " + a.text("spec") + ", which is not read";
  if (a.number("mtp_num_layers", 0) > 0) return "has layers of mtp_num_layers, which are not priced";
  const std::string window = a.text("window_size");  // "(127, 0)": keys before and after
  if (const double keys = logs::number_after(window, "(").value_or(-1);
      keys >= 0 && keys + 1 < a.number("seq_length", 0))
    return "has attention within the window_size " + window + ", which is not read";
  // A list of Megatron-DeepSpeed, [1] without experts
  if (const std::string experts = a.text("num_experts"); experts.starts_with("[") && experts != "[1]")
    return "has experts of Megatron-DeepSpeed (num_experts " + experts + "), which are not read";
  return "";
}

/// The same of GPT-NeoX, whose gated widths follow rules of several versions.
std::string other_net_of_neox(const MegatronArguments& a) {
  const std::string attention = a.text("attention_config"), activation = a.text("activation");
  for (const char* other : {"mamba", "rwkv", "sparse", "local", "bigbird", "bslongformer", "gmlp"})
    if (attention.find(other) != std::string::npos)
      return std::string("has '") + other + "' in its attention_config, which is not read";
  if (a.number("moe_num_experts", 1) > 1) return "has experts of GPT-NeoX, which are not read";
  if (activation.find("glu") != std::string::npos || a.text("mlp_type") == "llama")
    return "has gated layers of GPT-NeoX, whose width is not read";
  return "";
}

void read_kind(const MegatronArguments& a, LoggedRun& r) {
  const bool experts = a.number("num_experts", 0) > 0, latent = a.yes("multi_latent_attention");
  if (experts) read_experts(a, r);
  if (latent) read_latent_attention(a, r);
  if (latent && !experts && !a.yes("swiglu")) r.open["arch"] = "has latent attention without swiglu";
  std::string other = other_net(a);
  if (other.empty() && a.neox()) other = other_net_of_neox(a);
  if (!other.empty()) r.open["arch"] = other;
  if (r.open.contains("arch")) return;
  r.set("arch", experts ? (latent ? "moe-mla" : "moe") : latent ? "mla" : a.yes("swiglu") ? "llama" : "gpt");
}

/// Whole layers under the names of before mid-2022, which DeepSpeed's forks and GPT-NeoX keep.
bool recomputes_by_older_names(const MegatronArguments& a) {
  return a.yes("checkpoint_activations") || a.said("activations_checkpoint_method");
}

/// Sets the recomputation; of the modules that may be named only the core of attention is priced.
void read_recompute(const MegatronArguments& a, LoggedRun& r) {
  std::string recompute = a.text("recompute_granularity"), method = a.text("recompute_method");
  const std::string modules = a.text("recompute_modules");
  const bool older = recompute.empty() && recomputes_by_older_names(a);
  if (older) recompute = "full", method = a.text("activations_checkpoint_method");
  if (recompute == "selective" && !modules.empty() && modules != "['core_attn']")
    r.open["recompute"] = "is selective of the modules " + modules + ", of which core_attn alone is read";
  else
    r.set("recompute", recompute.empty() ? "none" : recompute);
  if (recompute == "full" && method == "block")
    r.set("recomputed_layers",
          a.number(older ? "activations_checkpoint_num_layers" : "recompute_num_layers", 1));
}

/// Notes settings that change a step's time or memory and have no column.
void note_unread(const MegatronArguments& a, LoggedRun& r) {
  const auto note = [&](const std::string& name) {
    r.notes.push_back(name + " " + a.text(name) + " is not read: the run is priced as one without it");
  };
  for (const char* name : {"pipeline_model_parallel_layout", "decoder_first_pipeline_num_layers",
                           "decoder_last_pipeline_num_layers", "optimizer_cpu_offload", "cpu_optimizer",
                           "cpu_offloading_weights", "fine_grained_activation_offloading"})
    if (a.said(name)) note(name);
  for (const char* name : {"sequence_parallel_size", "ds_sequence_parallel_size"})  // of DeepSpeed's fork
    if (a.number(name, 1) > 1) note(name);
  const double tp = a.number("tensor_model_parallel_size", 1);
  if (a.number("num_experts", 0) > 0 && a.number("expert_tensor_parallel_size", tp) != tp)
    note("expert_tensor_parallel_size");
}

void read_arguments(const MegatronArguments& a, std::optional<double> deepspeed, LoggedRun& r) {
  const auto count = [&](const char* column, const char* name, double otherwise = 0) {
    if (const double v = a.number(name, otherwise); v > 0) r.set(column, v);
  };
  count("layers", "num_layers");
  count("hidden", "hidden_size");
  count("ffn_hidden", "ffn_hidden_size");
  count("heads", "num_attention_heads");
  count("head_dim", "kv_channels");
  if (a.yes("group_query_attention")) count("kv_heads", "num_query_groups");
  count("kv_heads", "num_key_value_heads");  // of DeepSpeed's forks
  count("vocab", "padded_vocab_size");
  count("seq_len", "seq_length");
  count("offloaded_layers", "cpu_offloading_num_layers");  // of activations, unless weights are noted
  count("gpus", "world_size");
  count("tp", "tensor_model_parallel_size");
  count("cp", "context_parallel_size", 1);
  count("pp", "pipeline_model_parallel_size");
  if (a.neox() && r.number("pp") == 0) r.set("pp", 1);
  count("vpp", "virtual_pipeline_model_parallel_size", 1);
  count("micro_batch", "micro_batch_size");
  count("global_batch", "global_batch_size");
  count("dp", "data_parallel_size");
  // Forks whose optimizer and pipeline are DeepSpeed's: another engine.
  if (a.neox() || a.yes("deepspeed")) r.set("framework", a.neox() ? "GPT-NeoX" : "Megatron-DeepSpeed");
  read_kind(a, r);
  r.set("schedule", a.number("virtual_pipeline_model_parallel_size", 1) > 1 ? "interleaved-1F1B" : "1F1B");
  r.set("sequence_parallel", a.yes("sequence_parallel") ? "y" : "n");
  if (const std::string zero = zero_of(a, deepspeed); !zero.empty()) r.set("zero_stage", zero);
  r.set("precision", precision_of(a));
  r.set("attention_kernel", attention_of(a));
  read_recompute(a, r);
  note_unread(a, r);
}

/// The stage of DeepSpeed's own configuration: "[config.py:964:print]   zero_optimization_stage ...... 2"
std::optional<double> deepspeed_stage(const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    if (const auto rest = logs::text_after(line, "zero_optimization_stage "))
      return logs::number_at(rest->substr(std::min(rest->find_first_not_of('.'), rest->size())));
  return std::nullopt;
}

/// "building GPT model ...", of which other words are nets of other layers
void read_building(const std::string& line, LoggedRun& r) {
  const size_t end = line.find(" model ...");
  if (!line.starts_with("building ") || end == std::string::npos || end < 9) return;
  const std::string name = line.substr(9, end - 9);
  if (name == "GPT" || name == "GPT2" || name == "BERT") return;
  r.cells.erase("arch");
  r.open["arch"] = "is by 'building " + name + " model' a net of other layers, which is not read";
}

}  // namespace

void read_megatron_log(const std::string& text, LoggedRun& r) {
  const std::vector<std::string> lines = logs::log_lines(text);
  const MegatronArguments arguments(lines, r.file);
  if (!arguments.empty()) read_arguments(arguments, deepspeed_stage(lines), r);
  if (r.number("dp") > 0)
    refuse_disagreement(r.file, "world_size", r.number("gpus"),
                        r.number("dp") * r.number("tp") * r.number("cp") * r.number("pp"),
                        "its data, tensor, context and pipeline parallel sizes", 1.001);
  const double batch = arguments.number("global_batch_size", 0);
  double memory = 0, last = 0;
  int64_t others = 0, untimed = 0, skipping = 0;
  StepLines taken(r.file, 0);  // one rank prints them, in order
  StepPace pace;
  for (const std::string& line : lines) {
    read_building(line, r);
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
