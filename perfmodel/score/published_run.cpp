#include "perfmodel/score/published_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <set>
#include <stdexcept>
#include <tuple>

#include "model/base/error.h"
#include "perfmodel/score/step_model.h"

namespace isobar {
namespace {

constexpr double kLargest = 1e8;   // of any count in a table
constexpr double kCeiling = 0.97;  // of the least time that the peak allows: tables round

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

bool contains(const std::string& s, const char* part) {
  return s.find(part) != std::string::npos;
}

/// First number after `words` in the notes; NaN: not there.
double noted(const std::string& notes, const std::string& words) {
  std::smatch m;
  if (!std::regex_search(notes, m, std::regex(words + "[ =]*([0-9]+)"))) return std::nan("");
  return std::stod(m[1]);
}

double positive(const CsvRow& row, const char* column, const char* what) {
  const double v = row.number(column);
  if (!(v > 0)) throw Refused(std::string("no ") + what);
  if (v > kLargest) throw Refused(std::string("no believable ") + what);
  return v;
}

/// What may be left out of a row.
double optional(const CsvRow& row, const char* column, double otherwise, double least) {
  const double v = row.number(column, otherwise);
  if (!(v >= least && v <= kLargest)) throw Refused(std::string("no believable ") + column);
  return v;
}

Arch arch_of(const CsvRow& row) {
  const std::string a = lower(row.text("arch"));
  if (a == "llama" || a == "moe") return Arch::llama;
  if (a == "gpt" || a == "mpt" || a == "bloom" || a == "bert") return Arch::gpt;
  if (a == "vit") return Arch::vit;
  throw Refused("nets of kind '" + a + "' are not modelled");
}

void read_net(const CsvRow& row, const std::string& notes, bool experts, PublishedRun& r) {
  r.arch = arch_of(row);
  r.layers = positive(row, "layers", "number of layers");
  r.hidden = positive(row, "hidden", "hidden size");
  r.heads = positive(row, "heads", "number of heads");
  r.kv_heads = optional(row, "kv_heads", r.heads, 1);
  r.ffn = optional(row, "ffn_hidden", 4 * r.hidden, 1);
  r.seq = positive(row, "seq_len", "sequence length");
  // A SQuAD sample is a paragraph, a question and an answer: about 250 tokens (Rajpurkar 2016: 140 words).
  r.attended = contains(notes, "SQuAD packed") ? std::min(r.seq, 250.0) : r.seq;
  r.head_dim = noted(notes, "head_dim");
  if (!(r.head_dim > 0)) r.head_dim = r.hidden / r.heads;
  r.vocab = r.arch == Arch::vit ? 0 : optional(row, "vocab", 50304, 1);
  if (lower(row.text("arch")) != "moe") return;
  if (!experts) throw Refused("mixtures of experts are not modelled well enough (--experts tries)");
  std::smatch m;
  if (!std::regex_search(notes, m, std::regex("MoE ([0-9]+)(?: experts)? top-([0-9]+)")))
    throw Refused("mixture of experts without the number of experts in its notes");
  r.experts = std::stod(m[1]);
  r.top_k = std::stod(m[2]);
  r.expert_ffn = noted(notes, "moe_ffn");
  if (!(r.expert_ffn > 0)) r.expert_ffn = r.ffn;
}

void read_layout(const CsvRow& row, const std::string& notes, PublishedRun& r) {
  r.gpus = positive(row, "gpus", "number of GPUs");
  r.node = optional(row, "gpus_per_node", std::min(8, r.gpu->domain), 1);
  r.tp = positive(row, "tp", "tensor-parallel size");
  r.pp = positive(row, "pp", "pipeline-parallel size");
  r.cp = optional(row, "cp", 1, 1);
  r.dp = optional(row, "dp", r.gpus / (r.tp * r.pp * r.cp), 1);
  r.ep = optional(row, "ep", 1, 1);
  if (std::abs(r.dp * r.tp * r.cp * r.pp - r.gpus) > 0.5)
    throw Refused("dp tp cp pp do not multiply to the GPUs");
  r.zero = optional(row, "zero_stage", -1, -1);
  // The recipes' default: a distributed optimizer.
  if (r.zero < 0 &&
      (contains(r.engine, "Megatron-Core") || contains(r.engine, "NeMo") || contains(r.engine, "AlephAlpha")))
    r.zero = 1;
  r.micro_batch = positive(row, "micro_batch", "micro-batch size");
  r.global_batch = positive(row, "global_batch", "global batch size");
  if (r.micro_batches() < 0.99) throw Refused("the micro-batches are larger than the global batch");
  r.sequence_parallel = row.text("sequence_parallel") == "y";
  const std::string schedule = lower(row.text("schedule"));
  if (contains(schedule, "zb-2p") || contains(schedule, "zbv"))
    r.schedule = Schedule::zb_2p;
  else if (contains(schedule, "zb"))
    r.schedule = Schedule::zb_1p;
  else if (contains(schedule, "interleaved"))
    r.schedule = Schedule::interleaved;
  r.stages_together = contains(schedule, "synchronised optimizer");
  const double layers_a_stage = std::max(1.0, std::ceil(r.layers / r.pp));
  r.vpp_stated = !row.text("vpp").empty();
  r.vpp = row.number("vpp", r.schedule == Schedule::interleaved ? layers_a_stage : 1);  // one layer a chunk
  if (r.pp == 1) r.vpp = 1;
  r.vpp = std::clamp(r.vpp, 1.0, layers_a_stage);
  r.short_end_stages =
      contains(notes, "first and last stage hold one layer less") || r.source == "zero-bubble";
  r.balanced_embedding = contains(notes, "embedding balanced as a pipeline slot");
}

void read_policy(const CsvRow& row, const std::string& notes, PublishedRun& r) {
  const std::string precision = row.text("precision").empty() ? "bf16" : row.text("precision");
  const auto p = precision_named(precision);
  if (!p) throw Refused("precision '" + precision + "' is not known");
  r.precision = *p;
  r.autocast = lower(precision).ends_with("-amp");
  r.block_scaled = contains(lower(precision), "mx") || contains(lower(precision), "nv");
  const std::string recompute = lower(row.text("recompute"));
  if (contains(recompute, "full"))
    r.recompute = Recompute::full;
  else if (contains(recompute, "selective"))
    r.recompute = Recompute::selective;
  if (const double n = noted(notes, "recompute_num_layers"); n > 0)
    r.recomputed = std::min(1.0, n / std::ceil(r.layers / (r.pp * r.vpp)));
  if (const double n = noted(notes, "cpu activation offload of"); n > 0)
    r.offloaded_layers = std::min(n, std::ceil(r.layers / r.pp));
  const bool flash =
      row.text("flash_attention") == "y" || (row.text("flash_attention") != "n" && r.arch != Arch::gpt);
  r.attention = flash ? AttentionKernel::flash2 : AttentionKernel::fused_softmax;
  if (contains(notes, "SDPA") && r.precision <= Precision::tf32)
    r.attention = AttentionKernel::memory_efficient;
  std::smatch m;
  if (std::regex_search(notes, m, std::regex("attention kernel: ([^;]*)"))) {
    const std::string kernel = lower(m[1]);
    r.rms_kernel = contains(kernel, "rms kernel");
    if (contains(kernel, "flash_attentionv1"))
      r.attention = AttentionKernel::flash1;
    else if (contains(kernel, "torch"))
      r.attention = AttentionKernel::unfused;
  }
  r.frozen_weights = contains(notes, "LoRA") || contains(row.text("table"), "LoRA");
  if (contains(notes, "data-loading bound")) throw Refused("the data loader is the bottleneck");
}

/// Seconds of a step from whatever the row prints; throws when nothing there is one.
double step_seconds(const CsvRow& row, const PublishedRun& r) {
  if (const double s = row.number("step_time_s"); s > 0) return s;
  const double tokens = r.global_batch * r.seq;
  if (const double t = row.number("tokens_per_s_per_gpu"); t > 0) return tokens / (t * r.gpus);
  if (const double t = row.number("samples_per_s"); t > 0) return r.global_batch / t;
  const std::string metric = row.text("metric_name");
  const double value = row.number("metric_value");
  if (metric == "step_time" && value > 0) return row.text("metric_unit") == "ms" ? 1e-3 * value : value;
  if (metric != "achieved_tflops_per_gpu" || !(value > 0)) throw Refused("no step time or throughput");
  const double rate = value * 1e12 * r.gpus;
  // Hardware FLOPs of Narayanan 2021: 96 B s L h^2 (1 + s / 6h + V / 16 L h), recomputation counted.
  if (r.arch == Arch::gpt && r.recompute == Recompute::full)
    return 96 * tokens * r.layers * r.hidden * r.hidden *
           (1 + r.seq / (6 * r.hidden) + r.vocab / (16 * r.layers * r.hidden)) / rate;
  // Megatron-LM's log: model FLOPs, attention counted in full.
  const double matrices = r.arch == Arch::gpt ? 2 : 3;
  const double kv = r.head_dim * r.kv_heads, q = r.head_dim * r.heads;
  const double weights = r.layers * (r.hidden * (2 * q + 2 * kv) + matrices * r.hidden * r.ffn);
  return 6 * tokens * (weights + 2 * r.layers * r.seq * q + r.hidden * r.vocab) / rate;
}

PublishedRun run_from(const CsvRow& row, const std::string& table, bool experts) {
  const std::string& notes = row.text("notes");
  PublishedRun r;
  r.table = table;
  r.line = row.line();
  r.source = row.text("source").empty() ? table : row.text("source");
  // Lines of one log were measured with the same software.
  r.section = std::regex_replace(row.text("table"), std::regex(" line [0-9]+$"),
                                 " of " + row.text("url_or_repo_path"));
  r.id = row.text("row_id").empty() ? table + " line " + std::to_string(r.line) : row.text("row_id");
  r.model = row.text("model_name");
  r.engine = row.text("framework");
  r.gpu_type = row.text("gpu_type");
  r.campaign = contains(r.engine, "(Megatron-Core)") ? "Megatron-Core recipes" : r.source;
  for (const char* ending : {"-oom", "-failed"})  // failures are told apart from the runs that did not fail
    if (r.campaign.ends_with(ending)) r.campaign.resize(r.campaign.size() - std::string(ending).size());
  r.gpu = chip_named(r.gpu_type, row.text("intra_node_link"));
  if (!r.gpu) throw Refused("accelerator '" + r.gpu_type + "' is not known");
  const std::string metric = row.text("metric_name");
  if (metric.starts_with("stage_T") || metric.starts_with("T_comm"))
    throw Refused("metric '" + metric + "' is part of a step");
  read_net(row, notes, experts, r);
  read_layout(row, notes, r);
  read_policy(row, notes, r);
  // Four 100 Gb/s Omni-Path ports for eight GPUs.
  if (contains(row.text("inter_node_link"), "4x Omni-Path")) r.nic_rate = 6.25e9;
  if (contains(row.text("inter_node_link"), "Slingshot")) r.nic_rate = 25e9;
  r.memory_gb = row.number("memory_gb", 0);
  if (r.memory_gb < 0 || r.memory_gb * 1e9 > 1.2 * r.gpu->memory_bytes)
    r.memory_gb = 0;  // no reading of this chip
  r.mfu = row.number("mfu_pct", 0);
  const std::string outcome = lower(metric + " " + row.text("metric_value"));
  if (contains(outcome, "crash")) throw Refused("the outcome lumps crashes and lack of memory");
  if (contains(outcome, "oom") || contains(notes, "OOM reported")) {
    r.outcome = Outcome::out_of_memory;
    r.memory_gb = 0;
    return r;
  }
  if (metric == "outcome")
    throw Refused("outcome '" + row.text("metric_value") + "' says nothing about time");
  r.step_s = step_seconds(row, r);
  if (!(r.step_s > 1e-6 && r.step_s < 1e6)) throw Refused("the step time is no time of a training step");
  if (r.step_s < kCeiling * count_step(r).ceiling_s) throw Refused("faster than the chip's peak allows");
  return r;
}

}  // namespace

std::string PublishedRun::layout() const {
  char s[96];
  std::snprintf(s, sizeof s, "dp%g tp%g cp%g pp%g v%g", dp, tp, cp, pp, vpp);
  return s;
}

std::string PublishedRun::choice_group() const {
  char s[160];
  std::snprintf(s, sizeof s, "%s L%g h%g s%g V%g g%g b%g %d", gpu->name, layers, hidden, seq, vocab, gpus,
                global_batch, frozen_weights ? 1 : 0);
  return source + "|" + model + "|" + s;
}

std::string PublishedRun::specification() const {
  char s[256];
  std::snprintf(s, sizeof s, "%d %g %g %g %g %g %g %s %d%d %s ep%g z%g mb%g gb%g %d%d%d %d %d %g %g %d",
                static_cast<int>(arch), layers, hidden, ffn, heads, seq, vocab, gpu->name,
                static_cast<int>(precision), block_scaled, layout().c_str(), ep, zero, micro_batch,
                global_batch, sequence_parallel, rms_kernel, frozen_weights, static_cast<int>(attention),
                static_cast<int>(recompute), recomputed, offloaded_layers, static_cast<int>(schedule));
  return s;
}

int PublishedTable::refused_rows() const {
  int n = 0;
  for (const auto& [reason, rows] : refused) n += rows;
  return n;
}

// A recipe's release notes leave out what others of its releases state: virtual stages where all that state
// them for the model, chip and pipeline agree.
void fill_virtual_stages(std::vector<PublishedRun>& runs) {
  const auto key = [](const PublishedRun& r) {
    return std::tuple(r.source, r.model, r.gpu, r.layers, r.hidden, r.seq, r.tp, r.pp, r.frozen_weights);
  };
  std::map<decltype(key(runs[0])), std::set<double>> stated;
  for (const PublishedRun& r : runs)
    if (r.vpp_stated) stated[key(r)].insert(r.vpp);
  for (PublishedRun& r : runs) {
    const auto known = stated.find(key(r));
    if (r.vpp_stated || r.pp == 1 || r.schedule != Schedule::one_f_one_b || known == stated.end()) continue;
    if (known->second.size() == 1) r.vpp = *known->second.begin();
  }
}

PublishedTable published_from(const CsvTable& csv, bool experts) {
  for (const char* column : {"gpu_type", "layers", "hidden", "dp", "tp", "pp", "metric_name"})
    if (!csv.has(column))
      throw ConfigError(csv.file, column, "is not a column: this is no table of training runs",
                        "give the columns of configs/published/README.md");
  PublishedTable t;
  t.name = std::filesystem::path(csv.file).stem().string();
  for (const CsvRow& row : csv.rows) {
    try {
      PublishedRun r = run_from(row, t.name, experts);
      (r.outcome == Outcome::ran ? t.runs : t.outcomes).push_back(std::move(r));
    } catch (const Refused& why) {
      ++t.refused[why.what()];
      t.first_refused.try_emplace(why.what(), row.line());
    }
  }
  fill_virtual_stages(t.runs);
  return t;
}

PublishedTable read_published(const std::string& path, bool experts) {
  return published_from(read_csv(path), experts);
}

}  // namespace isobar
