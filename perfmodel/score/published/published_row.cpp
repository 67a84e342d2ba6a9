#include "perfmodel/score/published/published_row.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "perfmodel/score/counts/net_counts.h"

namespace isobar::perf {
namespace {

constexpr double kLargest = 1e8;  // of any count in a table

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

bool contains(const std::string& s, const char* part) {
  return s.find(part) != std::string::npos;
}

double positive(const CsvRow& row, const char* column, const char* what) {
  const double v = row.number(column);
  if (!(v > 0)) throw Refused(std::string("no ") + what);
  if (v > kLargest) throw Refused(std::string("no believable ") + what);
  return v;
}

/// The value of a column that may be empty.
double optional(const CsvRow& row, const char* column, double otherwise, double least) {
  const double v = row.text(column).empty() ? otherwise : row.number(column);
  if (!(v >= least && v <= kLargest)) throw Refused(std::string("no believable ") + column);
  return v;
}

/// y, or n as for an empty cell.
bool said(const CsvRow& row, const char* column) {
  const std::string& s = row.text(column);
  if (s != "y" && s != "n" && !s.empty()) throw Refused(std::string(column) + " '" + s + "' is not y or n");
  return s == "y";
}

/// Empty, or "unknown".
bool is_unsaid(const CsvRow& row, const char* column) {
  const std::string s = lower(row.text(column));
  return s.empty() || s == "unknown";
}

template <class T>
using Words = std::initializer_list<std::pair<const char*, T>>;

/// One of the words, in any case.
template <class T>
T one_of(const CsvRow& row, const char* column, const Words<T>& words) {
  const std::string s = lower(row.text(column));
  for (const auto& [word, meaning] : words)
    if (s == word) return meaning;
  throw Refused(std::string(column) + " '" + s + "' is not known");
}

Arch arch_of(const CsvRow& row) {
  const std::string a = lower(row.text("arch"));
  if (a == "llama" || a == "mla" || a == "moe" || a == "moe-mla") return Arch::llama;
  if (a == "gpt" || a == "mpt" || a == "bloom" || a == "bert") return Arch::gpt;
  if (a == "vit") return Arch::vit;
  throw Refused("nets of kind '" + a + "' are not modelled");
}

bool is_latent(const CsvRow& row) {
  return lower(row.text("arch")).ends_with("mla");
}

/// DeepSeek-V2's and V3's sizes where the row says none.
void read_latent_attention(const CsvRow& row, PublishedRun& r) {
  const auto whole = [&](const char* column, double otherwise, double least) {
    return std::llround(optional(row, column, otherwise, least));
  };
  LatentSpec& l = r.latent;
  l.kv_lora_rank = whole("kv_lora_rank", 512, 1);
  l.q_lora_rank = whole("q_lora_rank", 1536, 1);
  l.qk_nope_head_dim = whole("qk_head_dim", 192, 65) - l.qk_rope_head_dim;
  l.v_head_dim = whole("v_head_dim", 128, 1);
  r.head_dim = latent_head_dim(l);
}

/// Dense layers for the parameters that the row says, to the nearest: their label is rounded, and DeepSeek's
/// first three or Llama 4's every second layer differ by more.
double dense_layers_for(PublishedRun r, double parameters) {
  constexpr double kLabel = 0.03;
  const auto with = [&](double layers) {
    r.dense_layers = layers;
    return net_parameters(r);
  };
  const double none = with(0), each = none - with(1);
  const auto distance = [&](double layers) { return std::abs((none - layers * each) / parameters - 1); };
  if (distance(0) < kLabel) return 0;
  const double best = std::clamp(std::round((none - parameters) / each), 0.0, r.layers - 1);
  return distance(best) < kLabel ? best : 0;
}

void read_experts(const CsvRow& row, PublishedRun& r) {
  r.experts = positive(row, "experts", "number of experts");
  r.top_k = positive(row, "top_k", "number of experts that a token goes to");
  r.expert_ffn = optional(row, "expert_ffn", r.ffn, 1);
  r.shared_experts = optional(row, "shared_experts", is_latent(row) ? 1 : 0, 0);
  if (r.top_k > r.experts) throw Refused("a token goes to more experts than there are");
  const double parameters = 1e9 * optional(row, "params_b", 0, 0);
  r.dense_layers = !row.text("dense_layers").empty() ? optional(row, "dense_layers", 0, 0)
                   : parameters > 0                  ? dense_layers_for(r, parameters)
                                                     : 0;
  if (r.dense_layers >= r.layers) throw Refused("no layer has experts");
}

void read_net(const CsvRow& row, PublishedRun& r) {
  r.arch = arch_of(row);
  r.layers = positive(row, "layers", "number of layers");
  r.hidden = positive(row, "hidden", "hidden size");
  r.heads = positive(row, "heads", "number of heads");
  r.kv_heads = optional(row, "kv_heads", r.heads, 1);
  r.ffn = optional(row, "ffn_hidden", 4 * r.hidden, 1);
  r.seq = positive(row, "seq_len", "sequence length");
  r.attended = std::min(r.seq, optional(row, "attended_tokens", r.seq, 1));
  r.head_dim = optional(row, "head_dim", r.hidden / r.heads, 1e-3);
  r.vocab = r.arch == Arch::vit ? 0 : optional(row, "vocab", 50304, 1);
  if (is_latent(row)) read_latent_attention(row, r);
  if (lower(row.text("arch")).starts_with("moe")) read_experts(row, r);
}

void read_layout(const CsvRow& row, PublishedRun& r) {
  r.gpus = positive(row, "gpus", "number of GPUs");
  r.node = optional(row, "gpus_per_node", r.node, 1);
  r.tp = positive(row, "tp", "tensor-parallel size");
  r.pp = positive(row, "pp", "pipeline-parallel size");
  r.cp = optional(row, "cp", 1, 1);
  r.dp = optional(row, "dp", r.gpus / (r.tp * r.pp * r.cp), 1);
  r.ep = optional(row, "ep", 1, 1);
  if (std::abs(r.dp * r.tp * r.cp * r.pp - r.gpus) > 0.5 || std::abs(r.dp - std::round(r.dp)) > 1e-6)
    throw Refused("dp tp cp pp do not multiply to the GPUs");
  r.zero = optional(row, "zero_stage", r.habits.fully_sharded ? 3 : -1,
                    -1);  // FSDP2 shards unless disabled
  r.micro_batch = positive(row, "micro_batch", "micro-batch size");
  r.global_batch = positive(row, "global_batch", "global batch size");
  if (r.micro_batches() < 0.99) throw Refused("the micro-batches are larger than the global batch");
  refuse_impossible_layout(row, r);
  if (r.dp > 1 && is_unsaid(row, "zero_stage")) r.unsaid.insert("zero_stage");
  if (r.tp > 1 && is_unsaid(row, "sequence_parallel")) r.unsaid.insert("sequence_parallel");
  if (r.pp > 1 && is_unsaid(row, "schedule") && row.text("vpp").empty()) r.unsaid.insert("schedule");
  r.sequence_parallel = said(row, "sequence_parallel") ||
                        (row.text("sequence_parallel").empty() && r.tp > 1 && r.habits.sequence_parallel);
  r.schedule = one_of<Schedule>(row, "schedule",
                                {{"", Schedule::one_f_one_b},
                                 {"1f1b", Schedule::one_f_one_b},
                                 {"interleaved-1f1b", Schedule::interleaved},
                                 {"zb-1p", Schedule::zb_1p},
                                 {"zb-h1", Schedule::zb_1p},
                                 {"zb-2p", Schedule::zb_2p},
                                 {"zbv", Schedule::zb_2p}});
  r.stages_together = said(row, "synchronised_optimizer");
  const double layers_a_stage = std::max(1.0, std::ceil(r.layers / r.pp));
  r.schedule_stated = !is_unsaid(row, "schedule");
  r.vpp_stated = !row.text("vpp").empty();
  r.vpp = row.number("vpp", r.schedule == Schedule::interleaved ? layers_a_stage : 1);  // one layer a chunk
  if (r.pp == 1) r.vpp = 1;
  r.vpp = std::clamp(r.vpp, 1.0, layers_a_stage);
  r.short_end_stages = said(row, "short_end_stages");
  r.balanced_embedding = said(row, "balanced_embedding");
}

/// From the columns. Unsaid: flash attention for all but GPTs, and for them from Hopper on, which came later.
AttentionKernel attention_of(const CsvRow& row, const PublishedRun& r) {
  const std::string& flash_attention = row.text("flash_attention");
  if (!is_unsaid(row, "flash_attention")) said(row, "flash_attention");
  const bool usual_flash = r.arch != Arch::gpt || is_after_flash(*r.gpu);
  const bool flash = flash_attention == "y" || (flash_attention != "n" && usual_flash);
  const AttentionKernel usual = flash ? AttentionKernel::flash2 : AttentionKernel::fused_softmax;
  const bool flash_has_no_such_type = r.precision <= Precision::tf32;
  const auto kernel = one_of<AttentionKernel>(
      row, "attention_kernel",
      {{"", flash && flash_has_no_such_type ? AttentionKernel::memory_efficient : usual},
       {"flash1", AttentionKernel::flash1},
       {"flash2", AttentionKernel::flash2},
       {"fused",
        flash_attention == "y" ? usual : AttentionKernel::fused_softmax},  // cuDNN's, else of softmax
       {"torch", AttentionKernel::unfused},
       {"sdpa", flash_has_no_such_type ? AttentionKernel::memory_efficient : usual}});
  const std::string named = lower(row.text("attention_kernel"));
  if (!is_unsaid(row, "flash_attention") && !named.empty() && named != "sdpa" && is_fused(kernel) != flash)
    throw Refused("attention_kernel '" + named + "' contradicts flash_attention '" + flash_attention + "'");
  return kernel;
}

void read_policy(const CsvRow& row, PublishedRun& r) {
  const std::string precision = row.text("precision").empty() ? "bf16" : row.text("precision");
  const auto p = precision_named(precision);
  if (!p) throw Refused("precision '" + precision + "' is not known");
  r.precision = *p;
  r.fp16 = lower(precision).starts_with("fp16");
  r.autocast = lower(precision).ends_with("-amp");
  r.block_scaled = contains(lower(precision), "mx") || contains(lower(precision), "nv");
  r.recompute = one_of<Recompute>(row, "recompute",
                                  {{"", Recompute::none},
                                   {"none", Recompute::none},
                                   {"selective", Recompute::selective},
                                   {"full", Recompute::full}});
  const double layers_a_chunk = std::ceil(r.layers / (r.pp * r.vpp));
  r.recomputed = std::min(1.0, optional(row, "recomputed_layers", layers_a_chunk, 1) / layers_a_chunk);
  r.offloaded_layers = std::min(optional(row, "offloaded_layers", 0, 0), std::ceil(r.layers / r.pp));
  r.attention = attention_of(row, r);
  const bool kernel_said =
      !row.text("attention_kernel").empty() && lower(row.text("attention_kernel")) != "sdpa";
  if (r.arch != Arch::vit && !kernel_said && is_unsaid(row, "flash_attention"))
    r.unsaid.insert("flash_attention");
  r.rms_kernel = said(row, "rms_kernel");
  r.compiled = is_compiled(r, row.text("compiled").empty() ? r.habits.compiled : said(row, "compiled"));
  r.eager_loss =
      row.text("eager_loss").empty() ? r.habits.eager_loss && !r.compiled : said(row, "eager_loss");
  r.frozen_weights = said(row, "frozen_weights");
  if (said(row, "loader_bound")) throw Refused("the data loader is the bottleneck");
}

/// Seconds of a step from the row's rates or times; throws if there is none.
double step_seconds(const CsvRow& row, const PublishedRun& r) {
  if (const double s = row.number("step_time_s"); s > 0) return s;
  if (const double t = row.number("tokens_per_s_per_gpu"); t > 0)
    return r.global_batch * r.seq / (t * r.gpus);
  if (const double t = row.number("samples_per_s"); t > 0) return r.global_batch / t;
  const std::string metric = row.text("metric_name"), unit = row.text("metric_unit");
  const double value = row.number("metric_value");
  const bool share = metric == "mfu", model = share || metric == "model_tflops_per_gpu";
  if (!(value > 0) || !(model || metric == "step_time" || metric == "achieved_tflops_per_gpu"))
    throw Refused("no step time or throughput");
  if (metric == "step_time") {
    if (!unit.empty() && unit != "s" && unit != "ms")
      throw Refused("metric_unit of a step_time is '" + unit + "', neither s nor ms");
    return unit == "ms" ? 1e-3 * value : value;
  }
  if (share && unit != "%" && !(unit.empty() && value > 1))
    throw Refused("metric_unit of an mfu of " + row.text("metric_value") + " is '" + unit + "', not %");
  const double rate = (share ? value / 100 * r.gpu->peak(r.precision) : value * 1e12) * r.gpus;
  // Hardware FLOPs of Narayanan 2021: 96 B s L h^2 (1 + s / 6h + V / 16 L h), recomputation included.
  if (!model && r.arch == Arch::gpt && r.recompute == Recompute::full)
    return 96 * r.global_batch * r.seq * r.layers * r.hidden * r.hidden *
           (1 + r.seq / (6 * r.hidden) + r.vocab / (16 * r.layers * r.hidden)) / rate;
  return logged_flops(r) / rate;
}

/// By the column, the campaign, or a name in `framework`; nullptr: not said.
const ForeignEngine* engine_of_row(const CsvRow& row, const std::string& campaign) {
  const std::string& name = row.text("engine");
  if (!name.empty() && lower(name) != "unknown") {
    for (const ForeignEngine& e : shipped_engines())
      if (e.name == name) return &e;
    throw Refused("engine '" + name + "' is in no file of configs/engines; the nearest names: " +
                  nearest_few(name, engine_names()));
  }
  if (const ForeignEngine* e = engine_of(campaign)) return e;
  return engine_called(row.text("framework"));
}

const ChipSpec* chip_of_row(const CsvRow& row, const Surroundings* own) {
  const std::string& name = row.text("gpu_type");
  if (own && name.empty()) return own->chip;
  const ChipSpec* chip = chip_named(name, row.text("intra_node_link"));
  if (!chip) throw UnknownChip(name);
  if (own && chip->chip() != own->chip->chip())
    throw Refused("accelerator '" + name + "' is not the machine's, " + own->chip->name);
  return own ? own->chip : chip;
}

/// Its net, layout and policy, of which a plan counts the work.
void read_planned(const CsvRow& row, PublishedRun& r) try {
  read_net(row, r);
  refuse_impossible_net(row, r);
  read_layout(row, r);
  read_policy(row, r);
  refuse_missing_precision(r);
  count_net(r);
} catch (const ConfigError& e) {
  throw Refused("no plan has its net and cut", e.what());
}

}  // namespace

PublishedRun run_from(const CsvRow& row, const std::string& table, const Surroundings* own) {
  PublishedRun r;
  r.table = table;
  r.line = row.line();
  r.source = row.text("source").empty() ? table : row.text("source");
  r.section = row.text("section").empty() ? row.text("table") : row.text("section");
  r.id = row.text("row_id").empty() ? table + " line " + std::to_string(r.line) : row.text("row_id");
  r.model = row.text("model_name");
  r.engine = row.text("framework");
  r.gpu_type = row.text("gpu_type");
  r.campaign = row.text("campaign").empty() ? r.source : row.text("campaign");
  r.runs_on = own ? own->engine : engine_of_row(row, r.campaign);
  if (r.runs_on) r.habits = r.runs_on->habits;
  if (!row.text("overlap_grad_reduce").empty())
    r.habits.overlaps_gradients = said(row, "overlap_grad_reduce");
  if (!r.runs_on && !own) r.unsaid.insert("engine");
  r.gpu = chip_of_row(row, own);
  r.node = own ? own->node : std::min(8, r.gpu->domain);
  const std::string metric = row.text("metric_name");
  if (metric.starts_with("stage_T") || metric.starts_with("T_comm"))
    throw Refused("metric '" + metric + "' is part of a step");
  read_planned(row, r);
  r.nic_rate = 1e9 * optional(row, "nic_gb_s", 0, 0);
  r.memory_gb = row.number("memory_gb", 0);
  if (r.memory_gb < 0) throw Refused("memory_gb is below 0");
  r.mfu = row.number("mfu_pct", 0);
  const std::string outcome = metric == "outcome" ? lower(row.text("metric_value")) : "";
  if (outcome == "crashed_or_oom") throw Refused("the outcome lumps crashes and lack of memory");
  if (outcome == "oom" || said(row, "out_of_memory")) {
    r.outcome = Outcome::out_of_memory;
    r.memory_gb = 0;
    return r;
  }
  if (metric == "outcome")
    throw Refused("outcome '" + row.text("metric_value") + "' says nothing about time");
  r.step_s = step_seconds(row, r);
  if (!(r.step_s > 1e-6 && r.step_s < 1e6)) throw Refused("the step time is no time of a training step");
  refuse_contradictions(row, r);
  return r;
}

}  // namespace isobar::perf
