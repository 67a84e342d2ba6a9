// The fast gear: step time and memory of a layout in closed form, for exhaustive search. It does not describe
// the net again: what a stage does comes from sections of plans (sections.h); schedule, data parallelism,
// ZeRO, placement and slots are closed forms over them.
//
//   LayoutPrediction p = predict_layout(spec, load_machine("configs/machines/dgx-a100.yaml"));
//   p.step_s, p.terms, p.memory, p.counts       // the same of `isobar predict` for accelerators
//
// and of many layouts:
//
//   LayoutModel model(spec, machine);                      // net, batch and precision of the search
//   LayoutCost c = model.cost(layout);                     // some hundred nanoseconds, once its sections are
//   known
//
// Closed forms: bubble (p-1)/(m v) of Narayanan 2021 with unequal stages, ZB-H1's of Qi 2023; ring and tree
// collectives by tier (collective.h); shards of ZeRO (Rajbhandari 2020); in-flight micro-batches of each
// schedule as in model/plan/schedule.h. A test holds them to the replay of linked plans (simulate.h).
#pragma once
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "perfmodel/predict.h"
#include "perfmodel/sections.h"

namespace isobar {

enum class ScheduleKind : uint8_t { gpipe, one_f_one_b, interleaved, zb_h1 };

/// A layout and its policy, without words.
struct Layout {
  int32_t dp = 1, tp = 1, cp = 1, pp = 1, vpp = 1;
  int32_t micro_batch = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int8_t zero = 0;
  bool sequence_parallel = false;
  int8_t recompute = 0, cp_kind = 0;  // as SectionKey
  int8_t order = 0;                   // index of kOrders: which axis' ranks are neighbours
  int64_t world() const { return int64_t{dp} * tp * cp * pp; }
  SectionKey key() const {
    return {tp, cp, sequence_parallel, recompute, cp_kind, cp > 1 && micro_batch == 1};
  }
};
Layout layout_of(const RunSpec& spec);
RunSpec with_layout(RunSpec spec, const Layout& l);
/// Rank orders, "tp-cp-dp-pp" first.
const std::vector<std::string>& rank_orders();
/// How many ranks of each axis' groups share a host.
Placements placements_of(const Layout& l, int64_t ranks_on_host);

/// Seconds of a step by what they are spent on (they add up to `seconds`), and bytes of the fullest rank.
struct LayoutCost {
  double seconds = 0;
  double compute = 0;         // blocks and ends of the slowest stage, all micro-batches
  double host = 0;            // launches that the host did not keep up with
  double tp = 0, cp = 0;      // exposed collectives inside blocks
  double slowdown = 0;        // compute beside communication
  double bubble = 0, pp = 0;  // waiting for other stages; transfers between them
  double dp = 0;              // exposed reduction of gradients and gathering of parameters
  double data = 0;            // reading samples, or waiting for those who do
  double optimizer = 0, step = 0, imbalance = 0;
  double persistent = 0, saved = 0, scratch = 0, process = 0;  // bytes
  double memory = 0;
  double ceiling = 0;  // no machine of these peaks is faster
  double flops = 0;    // matrix FLOPs of all ranks, recomputation too
};

class LayoutModel {
 public:
  LayoutModel(const RunSpec& spec, const Machine& machine);
  /// Throws ConfigError for a layout that the net cannot take (see build.h).
  LayoutCost cost(const Layout& l, Counts* counts = nullptr);
  // The halves of cost(), for a search: many placements need the same memory.
  void add_memory(const Layout& l, LayoutCost& c);
  void add_time(const Layout& l, const Placements& at, LayoutCost& c, Counts* counts = nullptr);
  /// Seconds of blocks alone: no layout with these sections and this pipeline is faster.
  double least_seconds(const Layout& l, const Placements& at);

  /// Other prices for the same counts.
  void set_coefficients(const Counts& coefficients);
  const Machine& machine() const { return machine_; }
  const RunSpec& spec() const { return spec_; }
  const Conditions& where() const { return where_; }
  const Counts& prices() const { return k_; }
  size_t sections_built() const { return cache_.size(); }

 private:
  struct StageTimes {
    SectionTime embed_forward, block_forward, head_forward, head_backward, block_backward, embed_backward;
    const NetSections* sections;
  };
  struct Key {
    SectionKey section;
    int32_t micro_batch;
    int16_t tp_per_host, cp_per_host;
    bool split;  // ZB-H1
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const;
  };
  struct Rank {  // one of each kind of pipeline stage
    int64_t stage, blocks;
    bool first, last;
  };
  double micro_batches(const Layout& l) const {
    return static_cast<double>(spec_.train.global_batch) / (static_cast<double>(l.dp) * l.micro_batch);
  }
  static double shards_of(const Layout& l) { return l.zero > 0 ? static_cast<double>(l.dp) * l.cp : 1; }
  std::array<Rank, 3> ranks_of(const Layout& l) const;
  StageTimes price(const Key& key, Counts* counts);
  const StageTimes& times_of(const Layout& l, const Placements& at);
  const NetSections& sections_of(const Layout& l);
  Parameters parameters_of(const Rank& r, const NetSections& n) const;
  double reduce_seconds(const Layout& l, const Parameters& p, const Placements& at) const;
  double gather_seconds(const Layout& l, const Parameters& p, const Placements& at) const;
  void add_rank_time(const Layout& l, const Placements& at, const StageTimes& t, const Rank& r,
                     LayoutCost& c) const;
  void add_pipeline(const Layout& l, const Placements& at, const StageTimes& t, const Rank& slow,
                    double slowest, LayoutCost& c) const;
  void add_data_parallel(const Layout& l, const Placements& at, const StageTimes& t, const Rank& slow,
                         LayoutCost& c) const;

  RunSpec spec_;
  Machine machine_;
  Counts k_;  // coefficients as prices: every rank has its accelerator, or its share of the host
  Conditions where_;
  Peaks peaks_;
  bool sixteen_;     // parameters have a 16-bit copy
  double gradient_;  // bytes of an element of the gradients
  SectionCache cache_;
  std::unordered_map<Key, StageTimes, Hash> known_;
  Key last_key_{};
  const StageTimes* last_ = nullptr;
  SectionKey last_section_{};
  const NetSections* last_sections_ = nullptr;
};

struct LayoutPrediction {
  LayoutCost cost;
  double step_s = 0, lower = 0, upper = 0;  // 80 % interval
  double samples_per_s = 0, tokens_per_s = 0;
  std::vector<Term> terms;                             // seconds, largest first; add up to step_s
  std::vector<std::pair<std::string, double>> memory;  // bytes
  double memory_total = 0;
  double flops = 0;  // matrix FLOPs of all ranks' steps, recomputation too
  Counts counts{};   // of the slowest rank's step, hidden or not, in units of the coefficients
};
LayoutPrediction predict_layout(const RunSpec& spec, const Machine& machine);
/// The same of a layout of a model that is already there.
LayoutPrediction predict_layout(LayoutModel& model, const Layout& l);

}  // namespace isobar
