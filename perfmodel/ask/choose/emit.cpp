#include "perfmodel/ask/choose/emit.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/base/text/printed.h"
#include "model/nets/parts.h"

namespace isobar::perf {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const RunSpec& s, const std::string& key, const std::string& what,
                         const std::string& mend) {
  throw ConfigError(s.file, key, what, mend);
}

const WordsSpec& words_of(const RunSpec& s, const char* target) {
  if (!s.net.words())
    refuse(s, "net.kind", std::string("is ") + s.net.kind() + ", which " + target + " does not train",
           "emit for isobar or deepspeed, or take a gpt or llama");
  if (s.net.words()->attended_tokens > 0)
    refuse(s, "net.attended_tokens", "is said by the data that " + std::string(target) + " packs",
           "set it to 0 once predicted");
  return *s.net.words();
}

void refuse_offloaded_layers(const RunSpec& s, const char* target) {
  if (s.policy.offloaded_layers > 0)
    refuse(s, "policy.offloaded_layers", std::string("is none of ") + target + "'s options", "set it to 0");
}

bool llama(const RunSpec& s) {
  return s.net.kind() == LlamaSpec::kKind;
}

std::string real(double x) {
  return printed("%.7g", x);
}

/// Gradients of a bucket, where the run says how large it is; 0: as the software chooses.
int64_t bucket_elements(const PolicySpec& p) {
  if (p.bucket_mb == PolicySpec{}.bucket_mb) return 0;
  return std::max<int64_t>(1, std::llround(p.bucket_mb * 1e6 / 4));
}

void refuse_offloaded_parameters(const RunSpec& s, const char* target) {
  if (s.policy.offload_parameters)
    refuse(s, "policy.offload_parameters", std::string("is none of ") + target + "'s options",
           "set it to false");
}

/// Options, one a line, for a shell.
class Options {
 public:
  Options(std::string prefix, char between) : prefix_(std::move(prefix)), between_(between) {}
  Options& flag(const std::string& name) { return line(prefix_ + name); }
  Options& set(const std::string& name, const std::string& value) {
    return line(prefix_ + name + between_ + value);
  }
  Options& set(const std::string& name, int64_t value) { return set(name, std::to_string(value)); }
  Options& word(const std::string& one) { return line(one); }
  const std::string& text() const { return text_; }

 private:
  Options& line(const std::string& one) {
    text_ += (text_.empty() ? "" : " \\\n") + one;
    return *this;
  }
  std::string prefix_, text_;
  char between_;
};

// ---- Megatron-LM (megatron/training/arguments.py, core v0.16) ----

void refuse_beyond_megatron(const RunSpec& s) {
  if (s.layout.pp > 1 &&
      (s.policy.schedule == PipelineSchedule::gpipe || s.policy.schedule == PipelineSchedule::zb_h1))
    refuse(s, "policy.schedule", name_of(s.policy.schedule) + " is none of Megatron's",
           "--exclude schedule=" + name_of(s.policy.schedule));
  if (s.layout.order != LayoutSpec{}.order)
    refuse(s, "layout.order", s.layout.order + " is none of Megatron's", "--fix order=tp-cp-dp-pp");
}

std::string cp_kind_of(const RunSpec& s) {
  return s.policy.cp_kind == CpKind::ring      ? "p2p"
         : s.policy.cp_kind == CpKind::ulysses ? "a2a"
                                               : "all_gather";
}

// Blocks of each pipeline chunk
std::vector<int32_t> blocks_of_chunks(const RunSpec& s) {
  const std::vector<int32_t> cuts = nets::cuts_of(s.net, s.layout.pp * s.layout.vpp, s.layout.stages);
  std::vector<int32_t> blocks;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) blocks.push_back(cuts[i + 1] - cuts[i]);
  --blocks.front(), --blocks.back();  // the net's ends
  return blocks;
}

bool equal_chunks(const RunSpec& s) {
  const std::vector<int32_t> blocks = blocks_of_chunks(s);
  return std::adjacent_find(blocks.begin(), blocks.end(), std::not_equal_to<>()) == blocks.end();
}

// Megatron's --pipeline-model-parallel-layout: embedding, layers and loss by chunk
std::string pipeline_layout(const RunSpec& s) {
  std::string text;
  for (const int32_t blocks : blocks_of_chunks(s)) {
    text += text.empty() ? "'E" : "|";
    if (blocks > 0) text += "t*" + std::to_string(blocks);
  }
  return text + "L'";
}

int64_t layers_of_chunk(const RunSpec& s) {
  return s.net.blocks() / (s.layout.pp * s.layout.vpp);
}

std::string shards_of(int64_t zero) {
  return zero == 3 ? "optim_grads_params" : "optim_grads";
}

/// Transformer Engine offloads whole layers.
int64_t layers_offloaded(const RunSpec& s) {
  if (s.layout.pp > 1)
    refuse(s, "policy.offloaded_layers", "with layout.pp is none of Megatron's", "set one of them to 0 or 1");
  return static_cast<int64_t>(std::ceil(s.policy.offloaded_layers));
}

// The balance loss of a sample is Megatron's seq_aux_loss.
void add_experts(const LlamaSpec& n, Options& o) {
  const ExpertsSpec& x = n.experts;
  o.set("num-experts", x.num_experts).set("moe-router-topk", x.num_experts_per_tok);
  o.set("moe-ffn-hidden-size", n.expert_hidden()).flag("moe-grouped-gemm");
  o.set("moe-token-dispatcher-type", "alltoall");
  if (!x.norm_topk_prob) o.flag("moe-router-pre-softmax");
  if (x.expert_capacity_factor > 0)  // there of a rank's micro-batch, here of each sample
    o.set("moe-expert-capacity-factor", real(x.expert_capacity_factor))
        .set("moe-token-drop-policy", "position");
  if (x.num_shared_experts > 0)
    o.set("moe-shared-expert-intermediate-size", x.num_shared_experts * n.expert_hidden());
  if (const int64_t dense = n.dense_blocks(); dense > 0)
    o.set("moe-layer-freq",
          "'([0]*" + std::to_string(dense) + "+[1]*" + std::to_string(n.depth - dense) + ")'");
  o.set("moe-router-load-balancing-type", x.router_balance_loss > 0 ? "seq_aux_loss" : "none");
  if (x.router_balance_loss > 0) o.set("moe-aux-loss-coeff", real(x.router_balance_loss));
  if (x.router_z_loss > 0) o.set("moe-z-loss-coeff", real(x.router_z_loss));
  if (x.has_bias())
    o.set("moe-router-score-function", "sigmoid")
        .flag("moe-router-enable-expert-bias")
        .set("moe-router-bias-update-rate", real(x.router_bias_rate));
  if (x.n_group > 1) o.set("moe-router-num-groups", x.n_group).set("moe-router-group-topk", x.topk_group);
  if (x.routed_scaling_factor != 1) o.set("moe-router-topk-scaling-factor", real(x.routed_scaling_factor));
}

// An option of whole numbers
std::string rotary_base(const RunSpec& s, double theta) {
  if (theta != std::round(theta))
    refuse(s, "net.rope_theta", real(theta) + " is no whole number, as Megatron's --rotary-base is",
           "round it");
  return std::to_string(std::llround(theta));
}

// Latent attention has YaRN there by default.
void add_rotary(const RunSpec& s, const LlamaSpec& n, Options& o) {
  const RotarySpec& r = n.rotary;
  const bool yarn = r.scaling == RopeScaling::yarn;
  o.set("position-embedding-type", "rope").set("rotary-base", rotary_base(s, r.theta));
  if (n.latent.any()) o.set("rope-type", yarn ? "yarn" : "rope");
  if (r.factor == 1) return;
  const RotarySpec usual;
  if (yarn != n.latent.any())
    refuse(s, "net.rope_scaling",
           yarn ? "yarn is of latent attention in Megatron" : "llama3 is of the usual attention in Megatron",
           "emit without it, or train this net here");
  if (r.original_length != (yarn ? 4096 : 8192) || r.beta_fast != usual.beta_fast ||
      r.beta_slow != usual.beta_slow)
    refuse(s, "net.rope_original_length",
           "and YaRN's bounds are fixed in Megatron: 8192 for llama3, 4096, 32 and 1 for yarn",
           "emit without them, or train this net here");
  if (!yarn) {
    o.flag("use-rope-scaling").set("rope-scaling-factor", real(r.factor));
    return;
  }
  o.set("rotary-scaling-factor", real(r.factor));
  o.set("mscale", real(r.mscale)).set("mscale-all-dim", real(r.mscale_all_dim));
}

void add_latent(const LatentSpec& l, Options& o) {
  o.flag("multi-latent-attention").set("kv-lora-rank", l.kv_lora_rank);
  if (l.q_lora_rank > 0) o.set("q-lora-rank", l.q_lora_rank);
  o.set("qk-head-dim", l.qk_nope_head_dim).set("qk-pos-emb-head-dim", l.qk_rope_head_dim);
  o.set("v-head-dim", l.v_head_dim);
}

// Megatron's own defaults are a dropout of 0.1 and 1e-5 in norms; its vocabulary is the tokenizer's.
void add_what_differs(const RunSpec& s, const WordsSpec& n, Options& o) {
  const bool of_weights = s.policy.attention == AttentionKind::unfused;
  o.set("vocab-size", n.vocab_size).set("norm-epsilon", real(n.norm_eps));
  o.set("hidden-dropout", real(n.dropout)).set("attention-dropout", real(of_weights ? n.dropout : 0));
}

// The optimizer on the host is Megatron's precision-aware one, which shards its states.
void add_offload(const RunSpec& s, Options& o) {
  refuse_offloaded_parameters(s, "Megatron");
  if (!s.policy.offload_optimizer) return;
  if (s.policy.zero == 0)
    refuse(s, "policy.offload_optimizer", "is of Megatron's distributed optimizer", "set policy.zero to 1");
  o.flag("optimizer-cpu-offload").flag("use-precision-aware-optimizer");
}

std::string megatron(const RunSpec& s) {
  const WordsSpec& n = words_of(s, "Megatron");
  refuse_beyond_megatron(s);
  const LayoutSpec& l = s.layout;
  const PolicySpec& p = s.policy;
  Options o("--", ' ');
  o.set("num-layers", s.net.blocks()).set("hidden-size", n.embed_dim).set("ffn-hidden-size", n.hidden());
  o.set("num-attention-heads", n.num_heads);
  if (n.kv_heads() != n.num_heads) o.flag("group-query-attention").set("num-query-groups", n.kv_heads());
  o.set("seq-length", n.seq_length).set("max-position-embeddings", n.seq_length);
  add_what_differs(s, n, o);
  if (llama(s)) o.flag("swiglu").set("normalization", "RMSNorm").flag("disable-bias-linear");
  if (llama(s)) add_rotary(s, s.net.llama(), o);
  if (llama(s) && s.net.llama().window() > 0)  // keys before a token's own
    o.set("window-size", std::to_string(s.net.llama().window() - 1) + ",0");
  if (llama(s) && s.net.llama().head_dim > 0) o.set("kv-channels", s.net.llama().head_dim);
  if (llama(s) && s.net.llama().latent.any()) add_latent(s.net.llama().latent, o);
  if (llama(s) && s.net.llama().qk_norm) o.flag("qk-layernorm");
  if (llama(s) && s.net.llama().attention_bias) o.flag("add-qkv-bias");
  if (llama(s) && s.net.llama().has_experts()) add_experts(s.net.llama(), o);
  if (l.ep > 1) o.set("expert-model-parallel-size", l.ep);
  if (!n.tie_embeddings) o.flag("untie-embeddings-and-output-weights");
  o.set("micro-batch-size", s.micro_batch()).set("global-batch-size", s.train.global_batch);
  o.set("tensor-model-parallel-size", l.tp).set("pipeline-model-parallel-size", l.pp);
  o.set("context-parallel-size", l.cp);
  if (l.cp > 1) o.set("cp-comm-type", cp_kind_of(s));
  if (!equal_chunks(s))
    o.set("pipeline-model-parallel-layout", pipeline_layout(s));
  else if (l.vpp > 1)
    o.set("num-layers-per-virtual-pipeline-stage", layers_of_chunk(s));
  if (p.sequence_parallel && l.tp > 1) o.flag("sequence-parallel");
  if (p.zero >= 1) o.flag("use-distributed-optimizer");
  if (p.zero >= 2)
    o.flag("use-megatron-fsdp")
        .set("data-parallel-sharding-strategy", shards_of(p.zero))
        .flag("no-gradient-accumulation-fusion")
        .set("ckpt-format", "fsdp_dtensor");
  if (p.overlap && l.dp > 1) o.flag("overlap-grad-reduce");
  if (const int64_t bucket = bucket_elements(p); bucket > 0) o.set("ddp-bucket-size", bucket);
  if (p.main_grads_dtype == GradientType::bf16) o.flag("grad-reduce-in-bf16");
  if (p.recompute == Recompute::selective) o.set("recompute-granularity", "selective");
  if (p.recompute == Recompute::full)
    o.set("recompute-granularity", "full")
        .set("recompute-method", name_of(p.recompute_method))
        .set("recompute-num-layers", p.recompute_num_layers);
  if (p.amp == Amp::bf16 || p.amp >= Amp::fp8) o.flag("bf16");
  if (p.amp == Amp::fp16) o.flag("fp16");
  if (p.amp == Amp::fp8) o.set("fp8-format", "hybrid");
  if (p.amp == Amp::mxfp8) o.set("fp8-format", "e4m3").set("fp8-recipe", "mxfp8");
  if (p.amp == Amp::nvfp4) o.set("fp4-format", "e2m1").set("fp4-recipe", "nvfp4");
  if (p.offloaded_layers > 0) o.set("cpu-offloading-num-layers", layers_offloaded(s));
  add_offload(s, o);
  o.set("attention-backend", name_of(p.attention));
  return o.text() + "\n";
}

// ---- NeMo 2 (nemo.lightning.MegatronStrategy, as overrides of a recipe) ----

// NeMo's recipes have fused attention, no dropout, and all on the device.
void add_beyond_recipe(const RunSpec& s, const WordsSpec& n, Options& o) {
  const PolicySpec& p = s.policy;
  if (p.attention == AttentionKind::unfused)
    refuse(s, "policy.attention", "unfused is none of NeMo's recipes", "set it to flash");
  refuse_offloaded_parameters(s, "NeMo");
  if (n.dropout > 0) o.set("model.config.hidden_dropout", real(n.dropout));
  if (p.main_grads_dtype == GradientType::bf16) o.set("trainer.plugins.grad_reduce_in_fp32", "False");
  if (const int64_t bucket = bucket_elements(p); bucket > 0)
    o.set("trainer.strategy.ddp.bucket_size", bucket);
  if (!p.offload_optimizer) return;
  if (p.zero == 0)
    refuse(s, "policy.offload_optimizer", "is of NeMo's distributed optimizer", "set policy.zero to 1");
  o.set("optim.config.optimizer_cpu_offload", "True").set("optim.config.optimizer_offload_fraction", "1.0");
  o.set("optim.config.use_precision_aware_optimizer", "True");
}

std::string nemo(const RunSpec& s) {
  const WordsSpec& n = words_of(s, "NeMo");
  refuse_beyond_megatron(s);
  const LayoutSpec& l = s.layout;
  const PolicySpec& p = s.policy;
  const auto truth = [](bool b) { return std::string(b ? "True" : "False"); };
  Options o("", '=');
  o.set("data.seq_length", n.seq_length).set("data.micro_batch_size", s.micro_batch());
  o.set("data.global_batch_size", s.train.global_batch);
  const std::string strategy = "trainer.strategy.";
  o.set(strategy + "tensor_model_parallel_size", l.tp).set(strategy + "pipeline_model_parallel_size", l.pp);
  o.set(strategy + "virtual_pipeline_model_parallel_size", l.vpp > 1 ? std::to_string(l.vpp) : "None");
  if (!equal_chunks(s)) o.set(strategy + "pipeline_model_parallel_layout", pipeline_layout(s));
  o.set(strategy + "context_parallel_size", l.cp);
  if (l.ep > 1) o.set(strategy + "expert_model_parallel_size", l.ep);
  o.set(strategy + "sequence_parallel", truth(p.sequence_parallel && l.tp > 1));
  o.set(strategy + "ddp.use_distributed_optimizer", truth(p.zero >= 1));
  if (p.zero >= 2)
    o.set(strategy + "fsdp", "megatron")
        .set(strategy + "ddp.data_parallel_sharding_strategy", shards_of(p.zero));
  o.set(strategy + "ddp.overlap_grad_reduce", truth(p.overlap && l.dp > 1));
  o.set("model.config.recompute_granularity", p.recompute == Recompute::none ? "None" : name_of(p.recompute));
  if (p.recompute == Recompute::full)
    o.set("model.config.recompute_method", name_of(p.recompute_method))
        .set("model.config.recompute_num_layers", p.recompute_num_layers);
  if (l.cp > 1) o.set("model.config.cp_comm_type", cp_kind_of(s));
  if (p.offloaded_layers > 0)
    o.set("model.config.cpu_offloading", "True")
        .set("model.config.cpu_offloading_num_layers", layers_offloaded(s));
  add_beyond_recipe(s, n, o);
  return o.text() + "\n";
}

// ---- torchtitan (torchtitan/config/configs.py, 0.3) ----

std::string titan_flavor(const RunSpec& s, const WordsSpec& n) {
  struct Flavor {
    int64_t layers, dim, heads, hidden;
    const char* name;
  };
  for (const Flavor& f : {Flavor{32, 4096, 32, 14336, "llama3_8b"},
                          {80, 8192, 64, 28672, "llama3_70b"},
                          {126, 16384, 128, 53248, "llama3_405b"}})
    if (llama(s) && n.num_heads == f.heads && n.kv_heads() == 8 && n.hidden() == f.hidden &&
        n.vocab_size == 128256 && !n.tie_embeddings && n.dropout == 0 &&
        s.net.llama().rotary.theta == 500000 && !s.net.llama().has_experts() && !s.net.llama().qk_norm &&
        !s.net.llama().attention_bias && !s.net.llama().latent.any() && s.net.llama().window() == 0 &&
        s.net.llama().rotary.scaling == RopeScaling::llama3 && f.layers == s.net.blocks() &&
        f.dim == n.embed_dim)
      return f.name;
  refuse(s, "net.kind", "is none of torchtitan's llama3 (8B, 70B, 405B)",
         "emit for megatron, or write a torchtitan configuration of this net");
}

void refuse_beyond_titan(const RunSpec& s) {
  const LayoutSpec& l = s.layout;
  const PolicySpec& p = s.policy;
  if (l.cp > 1 && p.cp_kind != CpKind::allgather)
    refuse(s, "policy.cp_kind", name_of(p.cp_kind) + " is none of torchtitan's", "--fix cp_kind=allgather");
  if (l.order != LayoutSpec{}.order)
    refuse(s, "layout.order", l.order + " is none of torchtitan's", "--fix order=tp-cp-dp-pp");
  if (p.attention == AttentionKind::unfused)
    refuse(s, "policy.attention", "unfused is none of torchtitan's", "set it to flash");
  if (p.recompute == Recompute::full &&
      (p.recompute_method != RecomputeMethod::uniform || p.recompute_num_layers != 1))
    refuse(s, "policy.recompute_num_layers", "is none of torchtitan's: it recomputes each block",
           "set recompute_method to uniform, and it to 1");
  if (p.main_grads_dtype == GradientType::bf16)
    refuse(s, "policy.main_grads_dtype", "bf16 is none of torchtitan's", "set it to fp32");
  if (bucket_elements(p) > 0 || (!p.overlap && l.dp > 1))
    refuse(s, p.overlap ? "policy.bucket_mb" : "policy.overlap", "is none of torchtitan's options",
           "leave it out");
  if (p.offload_optimizer != p.offload_parameters)
    refuse(s, p.offload_optimizer ? "policy.offload_optimizer" : "policy.offload_parameters",
           "alone is none of torchtitan's", "set both or none of offload_optimizer and offload_parameters");
}

std::string torchtitan(const RunSpec& s) {
  const WordsSpec& n = words_of(s, "torchtitan");
  const LayoutSpec& l = s.layout;
  const PolicySpec& p = s.policy;
  if (p.zero == 1)
    refuse(s, "policy.zero", "1 is none of torchtitan's: FSDP shards gradients too", "--exclude zero=1");
  const bool shards = p.zero >= 2 || l.cp > 1;  // torchtitan folds cp into FSDP's shards
  if (l.cp > 1 && p.zero < 2)
    refuse(s, "policy.zero", "0 with cp is none of torchtitan's: it shards over dp * cp", "--fix zero=2..3");
  refuse_beyond_titan(s);
  refuse_offloaded_layers(s, "torchtitan");
  if (p.amp != Amp::bf16 && p.amp != Amp::none)
    refuse(s, "policy.amp", name_of(p.amp) + " is a converter of torchtitan's model, no option",
           "use bf16 or none");
  const char* schedule = p.schedule == PipelineSchedule::gpipe         ? "GPipe"
                         : p.schedule == PipelineSchedule::interleaved ? "Interleaved1F1B"
                                                                       : "1F1B";
  if (!equal_chunks(s))
    refuse(s, "layout.pp", "cuts the blocks into unequal stages, which torchtitan takes only by module names",
           "--fix pp=N that divides net.depth");
  if (l.pp > 1 && p.schedule == PipelineSchedule::zb_h1)
    refuse(s, "policy.schedule", "zb-h1 is none of torchtitan's", "--exclude schedule=zb-h1");
  const int64_t samples = s.train.global_batch / l.dp;
  Options o("--", ' ');
  o.set("module", "llama3").set("config", titan_flavor(s, n));
  o.set("training.seq_len", n.seq_length).set("training.global_batch_size", s.train.global_batch);
  // With a pipeline, torchtitan cuts the local batch into micro-batches; without one it accumulates them.
  o.set("training.local_batch_size", l.pp > 1 ? samples : s.micro_batch());
  o.set("training.mixed_precision_param", p.amp == Amp::bf16 ? "bfloat16" : "float32");
  o.set("parallelism.data_parallel_replicate_degree", shards ? 1 : l.dp);
  o.set("parallelism.data_parallel_shard_degree", shards ? l.dp : 1);
  if (shards) o.set("parallelism.fsdp_reshard_after_forward", p.zero == 3 ? "always" : "never");
  if (p.offload_parameters) o.flag("training.enable_cpu_offload");
  o.set("parallelism.tensor_parallel_degree", l.tp);
  if (l.tp > 1)
    o.flag(p.sequence_parallel ? "parallelism.enable_sequence_parallel"
                               : "parallelism.no-enable-sequence-parallel");
  o.set("parallelism.context_parallel_degree", l.cp);
  o.set("parallelism.pipeline_parallel_degree", l.pp);
  if (l.pp > 1) {
    o.flag("training.disable_cuda_graphs");  // torchtitan refuses them with a pipeline
    o.set("parallelism.pipeline_parallel_schedule", schedule);
    o.set("parallelism.pipeline_parallel_microbatch_size", s.micro_batch());
    o.set("parallelism.pipeline_parallel_layers_per_stage", layers_of_chunk(s));
    o.set("parallelism.pipeline_parallel_first_stage_less_layers", 0);
    o.set("parallelism.pipeline_parallel_last_stage_less_layers", 0);
  }
  o.word("activation-checkpoint:" + name_of(p.recompute));  // its "selective" keeps more than Isobar's
  return o.text() + "\n";
}

// ---- DeepSpeed (a ds_config.json, 0.19) ----

// Settings of the model's code, which the file does not have
std::string of_model(const RunSpec& s) {
  const PolicySpec& p = s.policy;
  std::string text;
  const auto add = [&](const std::string& one) { text += (text.empty() ? "" : ", ") + one; };
  if (p.recompute != Recompute::none) add("recompute " + name_of(p.recompute));
  if (p.sequence_parallel && s.layout.tp > 1) add("sequence_parallel");
  if (p.attention == AttentionKind::unfused) add("unfused attention");
  return text.empty() ? "" : "; the model's code says: " + text;
}

// Sizes and places of DeepSpeed's gradients and states
void add_states(const PolicySpec& p, json& j) {
  json& zero = j["zero_optimization"];
  if (p.offload_optimizer) zero["offload_optimizer"] = {{"device", "cpu"}};
  if (p.offload_parameters) zero["offload_param"] = {{"device", "cpu"}};
  if (const int64_t bucket = bucket_elements(p); bucket > 0) zero["reduce_bucket_size"] = bucket;
  if (p.main_grads_dtype == GradientType::bf16) j["data_types"] = {{"grad_accum_dtype", "bf16"}};
}

std::string deepspeed(const RunSpec& s, const std::string& comment) {
  const LayoutSpec& l = s.layout;
  const PolicySpec& p = s.policy;
  refuse_offloaded_layers(s, "DeepSpeed");
  if (l.pp > 1)
    refuse(s, "layout.pp", "is said in the model's code (PipelineModule), not in DeepSpeed's file",
           "--fix pp=1");
  if (l.ep > 1)
    refuse(s, "layout.ep", "is said in the model's code (MoE's ep_size), not in DeepSpeed's file",
           "--fix ep=1");
  if (l.cp > 1 && p.cp_kind != CpKind::ulysses)
    refuse(s, "policy.cp_kind", name_of(p.cp_kind) + " is none of DeepSpeed's",
           "--fix cp=1, or cp_kind=ulysses");
  if (p.amp >= Amp::fp8 || p.amp == Amp::tf32)
    refuse(s, "policy.amp", name_of(p.amp) + " is none of DeepSpeed's file", "use bf16, fp16 or none");
  json j = {{"train_batch_size", s.train.global_batch},
            {"train_micro_batch_size_per_gpu", s.micro_batch()},
            {"gradient_accumulation_steps", s.micro_batches()},
            {"bf16", {{"enabled", p.amp == Amp::bf16}}},
            {"fp16", {{"enabled", p.amp == Amp::fp16}}},
            {"zero_optimization", {{"stage", p.zero}, {"overlap_comm", p.overlap}}}};
  if (!comment.empty()) j["_comment"] = comment + of_model(s);
  if (s.train.grad_clip > 0) j["gradient_clipping"] = s.train.grad_clip;
  add_states(p, j);
  if (l.tp > 1) j["tensor_parallel"] = {{"autotp_size", l.tp}};
  if (l.cp > 1) j["sequence_parallel_size"] = l.cp;
  return json_text(j, 2) + "\n";
}

std::string isobar_file(const RunSpec& s) {
  return json_text(to_json(s), 2) + "\n";  // which is YAML
}

}  // namespace

std::vector<std::string> emit_targets() {
  return {"isobar", "megatron", "nemo", "torchtitan", "deepspeed"};
}

std::vector<Constraint> said_by(const std::string& target) {
  if (target != "deepspeed") return {};
  return {{LayoutAxis::pp, 1, 1, false, "DeepSpeed's file says no pp", true},
          {LayoutAxis::ep, 1, 1, false, "DeepSpeed's file says no ep", true}};
}

namespace {

std::string without_comment(const RunSpec& s, const std::string& target) {
  if (target == "megatron") return megatron(s);
  if (target == "nemo") return nemo(s);
  if (target == "torchtitan") return torchtitan(s);
  return isobar_file(s);
}

}  // namespace

std::string emitted(const RunSpec& s, const std::string& target, const std::string& comment) {
  if (target == "deepspeed") return deepspeed(s, comment);
  return (comment.empty() ? "" : "# " + comment + "\n") + without_comment(s, target);
}

}  // namespace isobar::perf
