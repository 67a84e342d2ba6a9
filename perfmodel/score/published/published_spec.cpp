#include "perfmodel/score/published/published_spec.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/spec/settings_of_others.h"
#include "model/nets/layout/legal_layout.h"

namespace isobar::perf {
namespace {

Amp amp_of(const PublishedRun& r) {
  switch (r.precision) {
    case Precision::fp32:
      return Amp::none;
    case Precision::tf32:
      return Amp::tf32;
    case Precision::bf16:
      return Amp::bf16;  // fp16's scaled loss costs next to nothing
    case Precision::fp8:
      return r.block_scaled ? Amp::mxfp8 : Amp::fp8;
    case Precision::fp4:
      break;
  }
  return Amp::nvfp4;
}

/// A row says of how many layers of a chunk all is recomputed.
void take_recomputation(const PublishedRun& r, PolicySpec& to) {
  to.recompute = r.recompute;
  const auto layers = std::llround(r.recomputed * std::ceil(r.layers / (r.pp * r.vpp)));
  if (r.recompute != Recompute::full || r.recomputed >= 1) return;
  to.recompute_method = RecomputeMethod::block;
  to.recompute_num_layers = std::max(1LL, layers);
}

/// Mean tokens that attend to each other; in a window of w of T tokens T w - w^2 / 2 pairs do, of T^2 / 2.
double attended_of(const RunSpec& s) {
  const auto tokens = static_cast<double>(s.net.tokens());
  const WordsSpec* words = s.net.words();
  if (words && words->attended_tokens > 0) return static_cast<double>(words->attended_tokens);
  if (s.net.kind() != LlamaSpec::kKind || s.net.llama().window() == 0) return tokens;
  const auto window = static_cast<double>(s.net.llama().window());
  return 2 * window - window * window / tokens;
}

NetSpec image_net_of(const PublishedRun& p) {
  VitSpec net;
  net.embed_dim = std::llround(p.hidden);
  net.depth = std::llround(p.layers);
  net.num_heads = std::llround(p.heads);
  net.mlp_ratio = std::llround(p.ffn / p.hidden);
  if (static_cast<double>(net.mlp_ratio) * p.hidden != p.ffn)
    throw ConfigError("", "ffn_hidden", "of a ViT is no multiple of its width", "leave such rows out");
  net.img_height = net.patch_size;  // one row of patches: its blocks are those of any image
  net.img_width = net.patch_size * std::llround(p.seq);
  return NetSpec(net);
}

}  // namespace

NetSpec net_of(const PublishedRun& p) {
  if (p.arch == Arch::vit) return image_net_of(p);
  NetSpec whole = p.arch == Arch::gpt ? NetSpec(GptSpec{}) : NetSpec(LlamaSpec{});
  WordsSpec& net = *whole.words();
  net.embed_dim = std::llround(p.hidden);
  net.depth = std::llround(p.layers);
  net.num_heads = std::llround(p.heads);
  net.num_kv_heads = p.kv_heads == p.heads ? 0 : std::llround(p.kv_heads);
  net.ffn_dim = std::llround(p.ffn);
  net.seq_length = std::llround(p.seq);
  net.attended_tokens = p.attended < p.seq ? std::llround(p.attended) : 0;
  net.vocab_size = std::llround(p.vocab);
  if (p.arch == Arch::llama) {
    LlamaSpec& llama = whole.llama();
    llama.latent = p.latent;
    if (!p.latent.any() && p.head_dim * p.heads != p.hidden) llama.head_dim = std::llround(p.head_dim);
  }
  if (p.experts > 0) {
    ExpertsSpec& experts = whole.llama().experts;
    experts.num_experts = std::llround(p.experts);
    experts.num_experts_per_tok = std::llround(p.top_k);
    experts.expert_ffn_dim = std::llround(p.expert_ffn);
    experts.num_shared_experts = std::llround(p.shared_experts);
    experts.first_k_dense_replace = std::llround(p.dense_layers);
    if (p.dense_layers == 0) net.ffn_dim = 0;  // all blocks have experts
  }
  return whole;
}

RunSpec spec_of(const PublishedRun& p) {
  RunSpec s;
  if (p.arch == Arch::vit)
    throw ConfigError("", "arch", "of a ViT does not say its images", "import GPT and Llama");
  if (p.frozen_weights)
    throw ConfigError("", "frozen_weights", "leaves the rank of its adapters open", "import whole trainings");
  s.net = net_of(p);
  s.train.global_batch = std::llround(p.global_batch);
  s.layout.dp = std::llround(p.dp);
  s.layout.tp = std::llround(p.tp);
  s.layout.cp = std::llround(p.cp);
  s.layout.pp = std::llround(p.pp);
  s.layout.vpp = std::llround(p.vpp);
  s.layout.ep = std::llround(p.ep);
  if (!nets::ep_divides(nets::limits_of(s.net), s.layout.ep, s.layout.dp, s.layout.cp))
    throw ConfigError("", "ep", "does not divide both the experts and dp * cp, as in plans",
                      "import other runs");
  s.policy.amp = amp_of(p);
  s.policy.micro_batch = std::llround(p.micro_batch);
  s.policy.zero = p.zero < 0 ? 0 : std::llround(p.zero);  // not stated: none
  s.policy.sequence_parallel = p.sequence_parallel && p.tp > 1;
  take_recomputation(p, s.policy);
  s.policy.offloaded_layers = p.offloaded_layers;
  s.policy.attention = is_fused(p.attention) ? AttentionKind::flash : AttentionKind::unfused;
  s.policy.schedule = p.schedule == Schedule::interleaved || p.vpp > 1 ? PipelineSchedule::interleaved
                      : p.schedule == Schedule::one_f_one_b            ? PipelineSchedule::one_f_one_b
                                                                       : PipelineSchedule::zb_h1;
  if (p.schedule == Schedule::zb_2p)
    throw ConfigError("", "schedule", "zb-2p is none of this program's", "leave such rows out");
  validate(s);
  return s;
}

namespace {

[[noreturn]] void refuse(const RunSpec& s, const char* key, const std::string& what, const char* mend) {
  throw ConfigError(s.file, key, what, mend);
}

/// Refuses settings that a foreign engine's closed form does not cover.
void refuse_unpriced(const RunSpec& s) {
  const RunSpec usual;
  const char* const own = "is priced of Isobar's own engine alone";
  if (s.policy.offload_optimizer) refuse(s, "policy.offload_optimizer", own, "set it to false");
  if (s.policy.main_grads_dtype != usual.policy.main_grads_dtype)
    refuse(s, "policy.main_grads_dtype", "is the engine's own choice", "leave it out");
  if (s.policy.bucket_mb != usual.policy.bucket_mb)
    refuse(s, "policy.bucket_mb", "is the engine's own choice", "leave it out");
  if (!s.train.freeze.empty())
    refuse(s, "train.freeze", own, "leave it out: with train.lora_rank all but adapters is frozen");
  if (s.net.kind() == LlamaSpec::kKind) {
    const ExpertsSpec& experts = s.net.llama().experts;
    if (experts.expert_imbalance > 0)
      refuse(s, "net.expert_imbalance", own, "leave it out: published runs have their own");
    if (experts.expert_capacity_factor > 0 && experts.expert_capacity_factor < 1)
      refuse(s, "net.expert_capacity_factor",
             "below 1, which drops tokens of even experts, " + std::string(own),
             "use 1 or more, or leave --engine out");
  }
  if (s.train.rollout > 1) refuse(s, "train.rollout", own, "set it to 1, or leave --engine out");
  if (s.train.ema > 0) refuse(s, "train.ema", own, "set it to 0, or leave --engine out");
  if (s.train.optimizer == OptimizerKind::sgd)
    refuse(s, "train.optimizer", "sgd " + std::string(own), "use adam or adamw, or leave --engine out");
  if (s.layout.order != usual.layout.order)
    refuse(s, "layout.order", "is tp-cp-dp-pp where other engines are priced", "leave it out");
  if (s.layout.cp > 1 && s.policy.cp_kind == CpKind::ulysses)
    refuse(s, "policy.cp_kind", "ulysses is priced of Isobar's own engine alone", "use ring or allgather");
  if (s.policy.schedule == PipelineSchedule::gpipe && s.layout.pp > 1)
    refuse(s, "policy.schedule", "gpipe is priced of Isobar's own engine alone", "use 1f1b or interleaved");
}

Precision precision_of(const RunSpec& s) {
  switch (s.policy.amp) {
    case Amp::none:
      return Precision::fp32;
    case Amp::tf32:
      return Precision::tf32;
    case Amp::bf16:
    case Amp::fp16:
      return Precision::bf16;
    case Amp::fp8:
    case Amp::mxfp8:
      return Precision::fp8;
    case Amp::nvfp4:
      break;
  }
  return Precision::fp4;
}

/// Block scales are of chips with 4-bit products: Blackwell, CDNA 4 and later.
void refuse_missing_products(const RunSpec& s, const ChipSpec& chip) {
  const Amp amp = s.policy.amp;
  if (is_block_scaled(amp) && !(chip.fp4 > 0))
    refuse(s, "policy.amp", name_of(amp) + " is not among the products of " + chip.name, "use bf16 or fp8");
  if (amp == Amp::fp8 && !(chip.fp8 > chip.half))
    refuse(s, "policy.amp", "fp8 is not among the products of " + chip.name, "use bf16");
}

void take_experts(const LlamaSpec& net, PublishedRun& r) {
  r.experts = static_cast<double>(net.experts.num_experts);
  r.top_k = static_cast<double>(net.experts.num_experts_per_tok);
  r.expert_ffn = static_cast<double>(net.expert_hidden());
  r.shared_experts = static_cast<double>(net.experts.num_shared_experts);
  r.dense_layers = static_cast<double>(net.dense_blocks());
}

/// A net that is counted whole: closed forms of pipelines and of rings of keys need equal blocks.
void ask_whole(const RunSpec& s, PublishedRun& r) {
  const std::string kind = "of '" + s.net.kind() + "' is priced of Isobar's own engine alone";
  if (s.net.recorded()) refuse(s, "net.kind", kind, "leave --engine out, or name pytorch");
  if (s.layout.pp > 1) refuse(s, "layout.pp", kind, "set it to 1, or leave --engine out");
  if (s.layout.cp > 1) refuse(s, "layout.cp", kind, "set it to 1, or leave --engine out");
  r.arch = Arch::other;
  nlohmann::json text = to_json(s);
  r.asked = std::make_shared<AskedNet>(AskedNet{s, text["net"].dump() + text["data"].dump()});
}

}  // namespace

bool is_asked_whole(const NetSpec& net) {
  return net.kind() != VitSpec::kKind && !net.words();
}

void as_asked(PublishedRun& r) {
  r.source = r.campaign = r.section = "asked";
  r.model = r.arch == Arch::vit     ? "vit"
            : r.arch == Arch::llama ? "llama"
            : r.arch == Arch::gpt   ? "gpt"
                                    : "another net";
}

PublishedRun run_of(const RunSpec& s, const Machine& machine, const ChipSpec& chip, const Habits& habits) {
  refuse_unpriced(s);
  refuse_missing_products(s, chip);
  PublishedRun r;
  r.id = s.file;
  r.gpu = &chip;
  r.habits = habits;
  r.habits.overlaps_gradients = habits.overlaps_gradients && s.policy.overlap;
  if (s.net.kind() == VitSpec::kKind) {
    r.arch = Arch::vit;
    r.ffn = static_cast<double>(s.net.vit().hidden());
  } else if (const WordsSpec* words = s.net.words()) {
    r.arch = s.net.kind() == LlamaSpec::kKind ? Arch::llama : Arch::gpt;
    r.ffn = static_cast<double>(words->hidden());
    r.vocab = static_cast<double>(words->vocab_size);
    if (r.arch == Arch::llama && s.net.llama().has_experts()) take_experts(s.net.llama(), r);
  }
  if (is_asked_whole(s.net)) ask_whole(s, r);
  as_asked(r);
  r.layers = static_cast<double>(s.net.blocks());
  r.hidden = static_cast<double>(s.net.width());
  r.heads = static_cast<double>(s.net.heads());
  r.kv_heads = s.net.words() ? static_cast<double>(s.net.words()->kv_heads()) : r.heads;
  if (r.arch == Arch::llama) r.latent = s.net.llama().latent;
  r.head_dim = r.latent.any()          ? latent_head_dim(r.latent)
               : r.arch == Arch::llama ? static_cast<double>(s.net.llama().head_width())
                                       : r.hidden / r.heads;
  r.seq = static_cast<double>(s.net.tokens());
  r.attended = attended_of(s);
  r.precision = precision_of(s);
  r.block_scaled = is_block_scaled(s.policy.amp);
  r.fp16 = s.policy.amp == Amp::fp16;
  r.autocast = habits.autocast && (s.policy.amp == Amp::bf16 || s.policy.amp == Amp::fp16);
  r.dp = static_cast<double>(s.layout.dp);
  r.tp = static_cast<double>(s.layout.tp);
  r.cp = static_cast<double>(s.layout.cp);
  r.pp = static_cast<double>(s.layout.pp);
  r.vpp = static_cast<double>(s.layout.vpp);
  r.ep = static_cast<double>(s.layout.ep);
  r.gpus = static_cast<double>(s.layout.world());
  r.node = machine.accelerator->host.ranks;
  r.compiled = is_compiled(r, habits.compiled);
  r.eager_loss = habits.eager_loss && !r.compiled;
  r.zero = static_cast<double>(s.policy.zero);
  r.micro_batch = static_cast<double>(s.micro_batch());
  r.global_batch = static_cast<double>(s.train.global_batch);
  r.sequence_parallel = s.policy.sequence_parallel && s.layout.tp > 1;
  // Without flash kernels for its type PyTorch takes the memory-efficient one.
  r.attention = s.policy.attention != AttentionKind::flash ? AttentionKernel::fused_softmax
                : r.precision <= Precision::tf32           ? AttentionKernel::memory_efficient
                                                           : AttentionKernel::flash2;
  r.frozen_weights = s.train.lora_rank > 0;
  r.recompute = s.policy.recompute;
  const double chunk = std::ceil(r.layers / (r.pp * r.vpp));
  if (s.policy.recompute_method == RecomputeMethod::block)
    r.recomputed = std::min(1.0, static_cast<double>(s.policy.recompute_num_layers) / chunk);
  r.offloaded_layers = s.policy.offloaded_layers;
  r.schedule = s.policy.schedule == PipelineSchedule::zb_h1 ? Schedule::zb_1p
               : r.vpp > 1                                  ? Schedule::interleaved
                                                            : Schedule::one_f_one_b;
  return r;
}

}  // namespace isobar::perf
