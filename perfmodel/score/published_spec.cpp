#include "perfmodel/score/published_spec.h"

#include <cmath>

#include "model/base/error.h"

namespace isobar {
namespace {

const char* amp_of(Precision p) {
  switch (p) {
    case Precision::fp32:
      return "none";
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp8:
      return "fp8";
    case Precision::fp4:
      break;
  }
  throw ConfigError("", "precision", "is none that this program plans", "leave such rows out");
}

}  // namespace

RunSpec spec_of(const PublishedRun& p) {
  RunSpec s;
  if (p.arch == Arch::vit)
    throw ConfigError("", "arch", "of a ViT does not say its images", "import GPT and Llama");
  if (p.experts > 0) throw ConfigError("", "experts", "are not planned", "import dense nets");
  s.net = p.arch == Arch::gpt ? NetSpec(GptSpec{}) : NetSpec(LlamaSpec{});
  WordsSpec& net = *s.net.words();
  net.embed_dim = std::llround(p.hidden);
  net.depth = std::llround(p.layers);
  net.num_heads = std::llround(p.heads);
  net.num_kv_heads = p.kv_heads == p.heads ? 0 : std::llround(p.kv_heads);
  net.ffn_dim = std::llround(p.ffn);
  net.seq_length = std::llround(p.seq);
  net.vocab_size = std::llround(p.vocab);
  s.train.global_batch = std::llround(p.global_batch);
  s.layout.dp = std::llround(p.dp);
  s.layout.tp = std::llround(p.tp);
  s.layout.cp = std::llround(p.cp);
  s.layout.pp = std::llround(p.pp);
  s.layout.vpp = std::llround(p.vpp);
  s.policy.amp = amp_of(p.precision);
  s.policy.micro_batch = std::llround(p.micro_batch);
  s.policy.zero = p.zero < 0 ? 0 : std::llround(p.zero);  // not stated: none
  s.policy.sequence_parallel = p.sequence_parallel && p.tp > 1;
  s.policy.recompute = p.recompute == Recompute::none        ? "none"
                       : p.recompute == Recompute::selective ? "selective"
                                                             : "full";
  s.policy.attention = is_fused(p.attention) ? "flash" : "unfused";
  s.policy.schedule = p.schedule == Schedule::interleaved || p.vpp > 1 ? "interleaved"
                      : p.schedule == Schedule::one_f_one_b            ? "1f1b"
                                                                       : "zb-h1";
  if (p.schedule == Schedule::zb_2p)
    throw ConfigError("", "schedule", "zb-2p is none of this program's", "leave such rows out");
  validate(s);
  return s;
}

}  // namespace isobar
