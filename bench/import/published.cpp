// Rows of tables in the columns of configs/published, as runs of this program's specification.
#include <cmath>

#include "bench/import/import.h"
#include "bench/sweep/trials.h"
#include "model/base/error.h"
#include "perfmodel/score/published_run.h"

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

RunSpec spec_of(const PublishedRun& p) {
  RunSpec s;
  if (p.arch == Arch::vit)
    throw ConfigError("", "arch", "of a ViT does not say its images", "import GPT and Llama");
  if (p.experts > 0) throw ConfigError("", "experts", "are not planned", "import dense nets");
  s.net.kind = p.arch == Arch::gpt ? "gpt" : "llama";
  s.net.embed_dim = std::llround(p.hidden);
  s.net.depth = std::llround(p.layers);
  s.net.num_heads = std::llround(p.heads);
  s.net.num_kv_heads = p.kv_heads == p.heads ? 0 : std::llround(p.kv_heads);
  s.net.ffn_dim = std::llround(p.ffn);
  s.net.seq_length = std::llround(p.seq);
  s.net.vocab_size = std::llround(p.vocab);
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
  s.policy.attention =
      p.attention == AttentionKernel::flash1 || p.attention == AttentionKernel::flash2 ? "flash" : "unfused";
  s.policy.schedule = p.schedule == Schedule::interleaved || p.vpp > 1 ? "interleaved"
                      : p.schedule == Schedule::one_f_one_b            ? "1f1b"
                                                                       : "zb-h1";
  if (p.schedule == Schedule::zb_2p)
    throw ConfigError("", "schedule", "zb-2p is none of this program's", "leave such rows out");
  validate(s);
  return s;
}

}  // namespace

Imported import_published(const std::string& csv, const PublishedImport& options) {
  const PublishedTable table = read_published(csv);
  Imported out;
  for (const auto& [reason, rows] : table.refused) out.refused[reason] += static_cast<size_t>(rows);
  for (const auto& [reason, line] : table.first_refused) out.first[reason] = "line " + std::to_string(line);
  const auto leave_out = [&](const std::string& reason, const PublishedRun& p) {
    ++out.refused[reason];
    out.first.try_emplace(reason, "row " + p.id);
  };
  std::map<std::string, int64_t> seen;  // repetitions of one specification
  for (const PublishedRun& p : table.runs) {
    if (p.gpu_type.find(options.only) == std::string::npos) {
      leave_out("another accelerator", p);
      continue;
    }
    RunRecord r;
    try {
      r.spec = spec_of(p);
    } catch (const ConfigError& e) {
      const std::string why = e.what();
      leave_out(why.starts_with(": ") ? why.substr(2) : why, p);
      continue;
    }
    r.repetition = seen[to_json(r.spec).dump()]++;
    r.id = trial_id(r.spec, r.repetition);
    r.axes = {{"net", p.model},
              {"gpus", std::llround(p.gpus)},
              {"layout.dp", r.spec.layout.dp},
              {"layout.tp", r.spec.layout.tp},
              {"layout.cp", r.spec.layout.cp},
              {"layout.pp", r.spec.layout.pp},
              {"policy.micro_batch", r.spec.policy.micro_batch},
              {"policy.recompute", r.spec.policy.recompute},
              {"policy.amp", r.spec.policy.amp}};
    r.ranks = r.spec.layout.world();
    r.ranks_on_host = std::min<int64_t>(r.ranks, std::llround(p.node));
    r.threads = 1;
    r.step_s = {p.step_s, p.step_s, p.step_s, p.step_s, 1};
    r.samples_per_s = p.global_batch / p.step_s;
    r.peak_rss_bytes = std::llround(p.memory_gb * 1e9);
    r.provenance = {{"imported_from", csv},
                    {"row", p.id},
                    {"source", p.source},
                    {"engine", p.engine},
                    {"gpu", p.gpu_type}};
    write_imported_run(r, options.out);
    ++out.runs;
  }
  return out;
}

}  // namespace isobar
