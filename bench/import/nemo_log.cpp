// Logs of NeMo: step times (in separate lines since NeMo 2, in a progress bar before), groups of ranks, and
// before NeMo 2 the experiment's configuration. NeMo 2 does not print the net.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/import/training_log.h"
#include "bench/logs/forms/line_form.h"
#include "bench/logs/log_text.h"
#include "model/base/text/yaml.h"

namespace isobar::foreign {
namespace {

using nlohmann::json;

/// The number of ranks in a group like "[0, 1, 2, 3]".
double size_of_group(std::string_view text) {
  const size_t begin = text.find('['), end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return 0;
  return 1 + static_cast<double>(std::count(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                            text.begin() + static_cast<std::ptrdiff_t>(end), ','));
}

void read_groups(const std::string& line, LoggedRun& r) {
  const auto take = [&](const char* column, const char* words) {
    if (const auto rest = logs::text_after(line, words))
      if (const double n = size_of_group(*rest); n > 0) r.set(column, n);
  };
  take("dp", "has data parallel group:");
  take("dp", "has data parallel group :");
  take("tp", "has tensor model parallel group:");
  take("cp", "has context parallel group:");
  take("pp", "has pipeline model parallel group:");
  if (line.find("distributed processes registered") != std::string::npos)
    if (const auto n = logs::number_after(line, "Starting with")) r.set("gpus", *n);
}

/// The YAML between "Experiment configuration" and the next line of the log.
json experiment_in(const std::vector<std::string>& lines, const std::string& file) {
  std::string yaml;
  bool inside = false;
  for (const std::string& line : lines) {
    if (line.find("Experiment configuration") != std::string::npos) {
      inside = true;
    } else if (inside) {
      const bool log = line.find("[NeMo ") != std::string::npos;
      if (log && !yaml.empty()) break;
      if (!log) yaml += line + "\n";
    }
  }
  return yaml.empty() ? json() : parse_yaml(yaml, file);
}

void read_experts(const json& model, bool gated, LoggedRun& r) {
  const auto number = [&](const char* key, double otherwise) {
    return model.contains(key) && model[key].is_number() ? model[key].get<double>() : otherwise;
  };
  r.set("experts", number("num_moe_experts", 0));
  r.set("top_k", number("moe_router_topk", 2));
  r.set("ep", number("expert_model_parallel_size", 1));
  r.set("expert_ffn", number("moe_ffn_hidden_size", r.number("ffn_hidden")));
  r.set("arch", "moe");
  if (gated) return;
  r.cells.erase("arch");
  r.open["arch"] = "has experts without swiglu, which are not priced";
}

/// Nodes times devices, which the count of processes has to agree with.
void check_devices(const json& experiment, LoggedRun& r) {
  const json trainer = experiment.is_object() ? experiment.value("trainer", json()) : json();
  if (!trainer.is_object()) return;
  const json devices = trainer.value("devices", json()), nodes = trainer.value("num_nodes", json());
  if (!devices.is_number() || !nodes.is_number() || !(devices.get<double>() > 0)) return;
  const double all = devices.get<double>() * nodes.get<double>();
  if (r.number("gpus") == 0) r.set("gpus", all);
  refuse_disagreement(r.file, "processes", r.number("gpus"), all, "trainer.devices and trainer.num_nodes",
                      1.001);
}

void read_experiment(const json& j, LoggedRun& r) {
  if (!j.is_object() || !j.contains("model") || !j["model"].is_object()) return;
  const json& m = j["model"];
  const auto count = [&](const char* column, const char* key) {
    if (m.contains(key) && m[key].is_number()) r.set(column, m[key].get<double>());
  };
  const auto word = [](const json& from, const char* key) {
    return from.is_object() && from.contains(key) && from[key].is_string() ? from[key].get<std::string>()
                                                                           : std::string();
  };
  const bool gated = word(m, "activation").find("glu") != std::string::npos;
  r.set("arch", gated ? "llama" : "gpt");
  for (const auto& [column, key] : {std::pair{"layers", "num_layers"},
                                    {"hidden", "hidden_size"},
                                    {"ffn_hidden", "ffn_hidden_size"},
                                    {"heads", "num_attention_heads"},
                                    {"kv_heads", "num_query_groups"},
                                    {"head_dim", "kv_channels"},
                                    {"seq_len", "encoder_seq_length"},
                                    {"tp", "tensor_model_parallel_size"},
                                    {"cp", "context_parallel_size"},
                                    {"pp", "pipeline_model_parallel_size"},
                                    {"vpp", "virtual_pipeline_model_parallel_size"},
                                    {"micro_batch", "micro_batch_size"},
                                    {"global_batch", "global_batch_size"}})
    count(column, key);
  if (m.contains("num_moe_experts") && m["num_moe_experts"].is_number()) read_experts(m, gated, r);
  const auto yes = [&](const char* key) {
    return m.contains(key) && m[key].is_boolean() && m[key].get<bool>();
  };
  r.set("sequence_parallel", yes("sequence_parallel") ? "y" : "n");
  r.set("precision", yes("fp8") ? "fp8" : "bf16");
  if (j.contains("trainer") && !yes("fp8")) {
    const json& p = j["trainer"].is_object() ? j["trainer"].value("precision", json()) : json();
    if (p.is_string() && p.get<std::string>().starts_with("16")) r.set("precision", "fp16");
    if (p == 16) r.set("precision", "fp16");
    if (p == 32) r.set("precision", "fp32");
  }
  const std::string recompute = word(m, "activations_checkpoint_granularity");
  r.set("recompute", recompute.empty() ? "none" : recompute);
  if (recompute == "full" && word(m, "activations_checkpoint_method") == "block")
    count("recomputed_layers", "activations_checkpoint_num_layers");
  if (yes("cpu_offloading")) count("offloaded_layers", "cpu_offloading_num_layers");
  const std::string optimizer = m.contains("optim") ? word(m["optim"], "name") : "";
  r.set("zero_stage", optimizer.find("distributed") != std::string::npos ? "1" : "0");
  r.set("attention_kernel", yes("use_flash_attention") || yes("transformer_engine") ? "flash2" : "fused");
  if (r.cells["vpp"].empty()) r.set("vpp", 1);
  r.set("schedule", r.cells["vpp"] != "1" ? "interleaved-1F1B" : "1F1B");
}

}  // namespace

void read_nemo_log(const std::string& text, LoggedRun& r) {
  const json experiment = experiment_in(logs::log_lines(text, logs::Times::taken_off), r.file);
  read_experiment(experiment, r);
  StepLines taken(r.file);  // progress bars are redrawn within a step
  StepPace pace;
  for (const std::string& line : logs::log_lines(text)) {
    read_groups(line, r);
    const std::optional<logs::Quantities> q = logs::read_line(logs::nemo_line(), line);
    const auto seconds = q ? (*q)[logs::LogQuantity::seconds] : std::nullopt;
    if (!seconds || !(*seconds > 0) || !taken.take((*q)[logs::LogQuantity::step])) continue;
    if (const auto batch = (*q)[logs::LogQuantity::batch]) r.set("global_batch", *batch);
    r.steps.push_back(*seconds);
    add_rates(*q, r.second);
    pace.add(line, (*q)[logs::LogQuantity::step], (*q)[logs::LogQuantity::consumed_samples], *seconds,
             r.second);
  }
  check_devices(experiment, r);
}

}  // namespace isobar::foreign
