// A published training run, read from a table in the column format of configs/published: either its row
// specifies it, or it is refused with the reason.
//
//   PublishedTable t = read_published("vtrain_ground_truth.csv");
//   t.runs[0].step_s; t.refused["no micro-batch size"]   // number of rows
//
// Every fact has a column; `notes` are free text. A table with an unknown column, or without a required one,
// is refused as a whole.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/base/net_specs/parts/latent.h"
#include "model/base/spec/settings.h"
#include "model/base/text/csv_table.h"
#include "perfmodel/machine/engine.h"
#include "perfmodel/score/counts/hardware.h"

namespace isobar::perf {

struct AskedNet;  // published_spec.h

enum class Arch { gpt, llama, vit, other };
struct PublishedRun;
/// True for language nets, whose residual stream plans keep in 2 bytes.
bool is_of_words(const PublishedRun& run);
/// memory_efficient: PyTorch's scaled_dot_product_attention for types without flash kernels (fp32): no scores
/// in memory either, products of fp32 accuracy.
enum class AttentionKernel { unfused, fused_softmax, memory_efficient, flash1, flash2 };
/// True if the T x T scores stay on the chip.
constexpr bool is_fused(AttentionKernel k) {
  return k >= AttentionKernel::memory_efficient;
}
enum class Schedule { one_f_one_b, interleaved, zb_1p, zb_2p };
enum class Outcome { ran, out_of_memory };

/// Mean width of a head in the two products with scores
inline double latent_head_dim(const LatentSpec& l) {
  return static_cast<double>(l.qk_head_dim() + l.v_head_dim) / 2;
}

struct PublishedRun {
  std::string table;     // file name without folder and ending
  std::string source;    // who measured it
  std::string campaign;  // runs that share an engine, its tuning and thus prices: a source, or the vendor's
                         // own recipes for Megatron-Core on any page
  std::string section;   // the table inside the source
  std::string id, model, engine, gpu_type;
  int line = 0;
  // the net
  Arch arch = Arch::gpt;
  double layers = 0, hidden = 0, ffn = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0, seq = 0;
  double attended = 0;  // tokens that attend to each other; less than seq for packed samples
  double experts = 0, top_k = 0, expert_ffn = 0;  // 0: dense
  double shared_experts = 0;                      // that every token passes
  double dense_layers = 0;                        // of a net of experts
  LatentSpec latent;                      // attention, if any; head_dim is then the mean of both products'
  std::shared_ptr<const AskedNet> asked;  // of Arch::other, of which the figures above are rough
  // where and how
  const ChipSpec* gpu = nullptr;
  Precision precision = Precision::bf16;
  bool fp16 = false;    // where precision says bf16
  double nic_rate = 0;  // B/s per GPU; 0: the accelerator's usual system
  double gpus = 0, node = 8, dp = 1, tp = 1, cp = 1, pp = 1, vpp = 1, ep = 1;
  double zero = -1;  // ZeRO stage; -1: not stated
  double micro_batch = 0, global_batch = 0;
  bool sequence_parallel = false, rms_kernel = false, eager_norms = false, frozen_weights = false,
       balanced_embedding = false;
  bool autocast = false;          // AMP: the residual stream stays in fp32, products cast their inputs
  bool compiled = false;          // pointwise work is compiled into few kernels
  bool eager_loss = false;        // fp32 logits and their gradient are in memory
  bool block_scaled = false;      // mxfp8, nvfp4: a scale every 16 or 32 values
  bool short_end_stages = false;  // first and last stage hold one layer less
  AttentionKernel attention = AttentionKernel::flash2;
  Recompute recompute = Recompute::none;
  double recomputed = 1;        // share of the layers with full recomputation
  double offloaded_layers = 0;  // with activations in host memory
  Schedule schedule = Schedule::one_f_one_b;
  bool schedule_stated = false, vpp_stated = false;
  const ForeignEngine* runs_on = nullptr;  // null: not said
  Habits habits;                           // of that engine
  /// Columns that the row leaves out though they matter, and that are read as usual (choices.h):
  /// flash_attention, schedule, sequence_parallel, zero_stage, engine.
  std::set<std::string> unsaid;
  bool stages_together = false;  // all stages end at once: the optimizer waits for all gradients
  // measurements; 0: not stated
  double step_s = 0, memory_gb = 0, mfu = 0;
  Outcome outcome = Outcome::ran;

  double micro_batches() const { return global_batch / (dp * micro_batch); }
  /// Runs with the same key repeat each other: one must not be fitted when the other is scored.
  std::string specification() const;
  std::string layout() const;  // "dp8 tp4 cp1 pp2 v1"
  /// Model, machine, GPUs and batch: a planner chooses within such a group.
  std::string choice_group() const;
};

/// True if compilation is effective: hand-written collectives break its graphs.
inline bool is_compiled(const PublishedRun& r, bool asked) {
  return asked && !(r.habits.own_collectives && r.tp * r.cp > 1);
}

/// A row that leaves parts of its net or layout open (open_run), and its candidate runs.
struct OpenRun {
  std::vector<std::string> missing;  // columns
  std::vector<PublishedRun> candidates;
};

struct PublishedTable {
  std::string name;                          // file name without folder and ending
  std::string file;                          // for messages
  std::vector<PublishedRun> runs;            // with a step time, in file order
  std::vector<PublishedRun> outcomes;        // did not fit in memory (no step time); or only memory was read
  std::vector<OpenRun> open;                 // with a step time, but not all inputs
  std::map<std::string, int> refused;        // reason -> rows
  std::map<std::string, int> first_refused;  // reason -> line of the first such row
  std::map<std::string, int> unknown_chips;  // gpu_type -> line of the first such row; refused, too
  int refused_rows() const;
};

/// Facts that a table of a user's own runs may omit: engine and machine.
struct Surroundings {
  const ForeignEngine* engine;  // nullptr: unknown
  const ChipSpec* chip;         // must outlive the runs
  double node;                  // accelerators
};

/// Throws ConfigError for a table without training runs (nccl-tests, GEMM sweeps).
PublishedTable read_published(const std::string& path);
PublishedTable published_from(const CsvTable& csv, const Surroundings* own = nullptr);

}  // namespace isobar::perf
