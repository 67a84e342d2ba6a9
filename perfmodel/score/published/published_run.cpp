#include "perfmodel/score/published/published_run.h"

#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "perfmodel/score/published/published_row.h"

namespace isobar::perf {
namespace {

// The columns of a table of training runs: required ones, and others that are read or shown
// (configs/published/README.md).
const std::vector<std::string> kNeeded = {"arch", "gpus"};
constexpr const char* kKnown =
    "layers,hidden,heads,seq_len,gpu_type,dp,tp,pp,micro_batch,global_batch,metric_name,source,"
    "row_id,url_or_repo_path,table,section,campaign,model_name,engine,framework,ffn_hidden,"
    "kv_heads,head_dim,vocab,attended_tokens,params_b,experts,top_k,expert_ffn,shared_experts,"
    "dense_layers,q_lora_rank,kv_lora_rank,qk_head_dim,v_head_dim,gpus_per_node,intra_node_link,"
    "inter_node_link,nic_gb_s,cp,vpp,ep,sequence_parallel,zero_stage,precision,recompute,"
    "recomputed_layers,offloaded_layers,flash_attention,attention_kernel,rms_kernel,compiled,"
    "eager_loss,schedule,synchronised_optimizer,overlap_grad_reduce,short_end_stages,"
    "balanced_embedding,frozen_weights,loader_bound,out_of_memory,metric_value,metric_unit,"
    "memory_gb,step_time_s,tflops_per_gpu,mfu_pct,hfu_pct,tokens_per_s_per_gpu,samples_per_s,"
    "provenance,completeness,split,notes";

}  // namespace

bool is_of_words(const PublishedRun& r) {
  return r.arch == Arch::gpt || r.arch == Arch::llama;
}

std::string PublishedRun::layout() const {
  return printed("dp%g tp%g cp%g pp%g v%g", dp, tp, cp, pp, vpp);
}

std::string PublishedRun::choice_group() const {
  const std::string s = printed("%s L%g h%g s%g V%g g%g b%g %d", gpu->name.c_str(), layers, hidden, seq,
                                vocab, gpus, global_batch, frozen_weights ? 1 : 0);
  return source + "|" + model + "|" + s;
}

std::string PublishedRun::specification() const {
  return printed("%d %g %g %g %g %g %g %s %d%d %s ep%g z%g mb%g gb%g %d%d%d%d%d %d %d %g %g %d",
                 static_cast<int>(arch), layers, hidden, ffn, heads, seq, vocab, gpu->name.c_str(),
                 static_cast<int>(precision), block_scaled, layout().c_str(), ep, zero, micro_batch,
                 global_batch, sequence_parallel, rms_kernel, compiled, eager_loss, frozen_weights,
                 static_cast<int>(attention), static_cast<int>(recompute), recomputed, offloaded_layers,
                 static_cast<int>(schedule));
}

int PublishedTable::refused_rows() const {
  int n = 0;
  for (const auto& [reason, rows] : refused) n += rows;
  return n;
}

// Fills virtual stages that a recipe's release notes omit, if all releases that state them agree for the
// model, chip and pipeline.
void fill_virtual_stages(std::vector<PublishedRun>& runs) {
  const auto key = [](const PublishedRun& r) {
    return std::tuple(r.source, r.model, r.gpu, r.layers, r.hidden, r.seq, r.tp, r.pp, r.frozen_weights);
  };
  std::map<decltype(key(runs[0])), std::set<double>> stated;
  for (const PublishedRun& r : runs)
    if (r.vpp_stated) stated[key(r)].insert(r.vpp);
  for (PublishedRun& r : runs) {
    const auto known = stated.find(key(r));
    if (r.schedule_stated || r.vpp_stated || r.pp == 1 || known == stated.end()) continue;
    if (known->second.size() != 1) continue;
    r.vpp = *known->second.begin();
    r.schedule = r.vpp > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
    r.unsaid.erase("schedule");
  }
}

// RMS norms are PyTorch's own ops in rows that do not say `rms_kernel`, if others of their source do.
void fill_eager_norms(std::vector<PublishedRun>& runs) {
  std::set<std::string> telling;
  for (const PublishedRun& r : runs)
    if (r.rms_kernel) telling.insert(r.source);
  for (PublishedRun& r : runs) r.eager_norms = !r.rms_kernel && telling.contains(r.source);
}

PublishedTable published_from(const CsvTable& csv, const Surroundings* own) {
  static const std::vector<std::string> known = parse_csv(kKnown, "").columns;
  require_columns(csv, kNeeded, known, "configs/published/README.md");
  PublishedTable t;
  t.name = std::filesystem::path(csv.file).stem().string();
  t.file = csv.file;
  std::map<std::string, std::string> first;  // of rows refused for one reason, with the first's numbers
  for (const CsvRow& row : csv.rows) {
    try {
      refuse_foreign_cells(row);
      if (OpenRun open = open_run(row, t.name, own); !open.missing.empty()) {
        if (open.candidates.front().outcome == Outcome::ran) t.open.push_back(std::move(open));
        continue;
      }
      PublishedRun r = run_from(row, t.name, own);
      (r.outcome == Outcome::ran ? t.runs : t.outcomes).push_back(std::move(r));
    } catch (const Refused& why) {
      const std::string& text =
          first.try_emplace(why.reason.empty() ? why.what() : why.reason, why.what()).first->second;
      ++t.refused[text];
      t.first_refused.try_emplace(text, row.line());
      if (const auto* chip = dynamic_cast<const UnknownChip*>(&why))
        t.unknown_chips.try_emplace(chip->name, row.line());
    }
  }
  fill_virtual_stages(t.runs);
  fill_eager_norms(t.runs);
  return t;
}

PublishedTable read_published(const std::string& path) {
  return published_from(read_csv(path));
}

}  // namespace isobar::perf
