// The fast gear: step time and memory of a layout in closed form, for exhaustive search. It does not describe
// the net again: what a stage does comes from sections of plans (sections.h); schedule, data parallelism,
// ZeRO, placement and slots are closed forms over them.
//
//   LayoutModel model(spec, load_machine("configs/machines/dgx-a100.yaml"));   // net, batch and precision
//   LayoutCost c = model.cost(layout);                     // some hundred nanoseconds, once its sections are
//   known
//
// Closed forms: bubble (p-1)/(m v) of Narayanan 2021 with unequal stages, ZB-H1's of Qi 2023; ring and tree
// collectives by tier (collective.h); shards of ZeRO (Rajbhandari 2020); in-flight micro-batches of each
// schedule as in model/plan/schedule.h. A test holds them to the replay of linked plans (simulate.h).
#pragma once
#include <array>
#include <unordered_map>

#include "perfmodel/layouts/layout.h"
#include "perfmodel/layouts/layout_waits.h"
#include "perfmodel/machine/machine.h"

namespace isobar {

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

/// Blocks of virtual stage j, as cuts_of() (model/nets/parts.h) deals them out.
inline int64_t stage_depth(int64_t depth, int64_t stages, int64_t j) {
  return depth / stages + (j >= 1 && j <= depth % stages ? 1 : 0);
}

class LayoutModel {
 public:
  /// `ranks_on_host`: of cores, 0: all of them.
  LayoutModel(const RunSpec& spec, const Machine& machine, int64_t ranks_on_host = 0, int64_t threads = 0);
  /// Throws ConfigError for a layout that the net cannot take (see build.h).
  LayoutCost cost(const Layout& l, Counts* counts = nullptr);
  // The halves of cost(), for a search: many placements need the same memory.
  void add_memory(const Layout& l, LayoutCost& c);
  void add_time(const Layout& l, const Placements& at, LayoutCost& c, Counts* counts = nullptr);
  /// Seconds of blocks alone: no layout with these sections and this pipeline is faster.
  double least_seconds(const Layout& l, const Placements& at);

  /// Of the whole net.
  double parameters(const Layout& l);
  /// Other prices for the same counts.
  void set_coefficients(const Counts& coefficients);
  const Machine& machine() const { return machine_; }
  const RunSpec& spec() const { return spec_; }
  const Conditions& where() const { return where_; }
  const Counts& prices() const { return k_; }
  size_t sections_built() const { return cache_.size(); }

 private:
  static constexpr double kF32 = 4, kHalf = 2;  // bytes of an element
  struct PartTime {
    SectionTime forward, backward;
    double of(double SectionTime::*member) const { return forward.*member + backward.*member; }
  };
  struct StageTimes {
    PartTime embed, block, head;
    const NetSections* sections;
    double of_blocks(double blocks, double SectionTime::*member) const { return blocks * block.of(member); }
    double of_ends(bool first, bool last, double SectionTime::*member) const {
      return (first ? embed.of(member) : 0) + (last ? head.of(member) : 0);
    }
  };
  struct Key {
    SectionKey section;
    int32_t micro_batch;
    int16_t tp_per_host, cp_per_host;
    bool split;       // ZB-H1
    float mixed = 0;  // share of blocks that are recomputed otherwise (RecomputeMix)
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const;
  };
  struct Rank {  // one of each kind of pipeline stage
    int64_t stage, blocks;
    bool first, last;
    double of(const StageTimes& t, double SectionTime::*member) const {
      return t.of_blocks(static_cast<double>(blocks), member) + t.of_ends(first, last, member);
    }
  };
  struct Step {  // its kinds of stages, and the one that the others are taken to wait for
    std::array<Rank, 3> ranks;
    std::array<double, 3> times;  // how many stages are of the kind
    std::array<const UnitTimes*, 3> units{};
    std::array<UnitWaits, 3> waits;  // ZeRO 2 and 3
    std::array<double, 3> micro;     // seconds of a micro-batch, waits for units included
    size_t slow = 0;
    const Rank& slowest() const { return ranks[slow]; }
  };
  // Full recomputation of groups of blocks, or of some: blocks of two kinds.
  struct RecomputeMix {
    int other = 2;     // SectionKey::recompute of the other kind
    double share = 0;  // of all blocks
  };
  RecomputeMix mix_of(const Layout& l) const;
  double micro_batches(const Layout& l) const {
    return static_cast<double>(spec_.train.global_batch) / (static_cast<double>(l.dp) * l.micro_batch);
  }
  static double shards_of(const Layout& l) { return l.zero > 0 ? static_cast<double>(l.dp) * l.cp : 1; }
  std::array<Rank, 3> ranks_of(const Layout& l) const;
  StageTimes price(const Key& key, Counts* counts);
  StageTimes price_mixed(const Key& key, const RecomputeMix& mix, Counts* counts);
  double saved_of(const Layout& l, double blocks);  // bytes that a chunk's blocks keep of a micro-batch
  double scratch_of(const Layout& l);               // bytes, ZeRO's units not included
  const StageTimes& times_of(const Layout& l, const Placements& at);
  const NetSections& sections_of(const Layout& l);
  ParameterCounts parameters_of(const Rank& r, const NetSections& n) const;
  void count(const Layout& l, const Placements& at, const Rank& slow, const NetSections& n, Counts& counts);
  UnitStage stage_of(const Layout& l, const Rank& r) const;
  UnitPolicy unit_policy(const Layout& l, const Placements& at) const;
  // layout_pipeline.cpp
  void add_pipeline(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                    LayoutCost& c) const;
  // layout_time.cpp
  Step step_of(const Layout& l, const Placements& at, const StageTimes& t);
  const UnitTimes& units_of(const Layout& l, const Placements& at, const NetSections& n, size_t kind,
                            const Rank& r);
  void add_compute(const Layout& l, const StageTimes& t, const Step& step, LayoutCost& c) const;
  void add_data_parallel(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                         LayoutCost& c) const;
  void add_optimizer(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                     LayoutCost& c) const;

  RunSpec spec_;
  Machine machine_;
  Counts k_;  // coefficients as prices: every rank has its accelerator, or its share of the host
  Conditions where_;
  Peaks peaks_;
  bool sixteen_;     // parameters have a 16-bit copy
  double gradient_;  // bytes of an element of the gradients
  double moments_;   // of the optimizer, an element
  SectionCache cache_;
  std::unordered_map<Key, StageTimes, Hash> known_;
  // Units of the layouts with these axes, by kind of stage, chunks, ZeRO and placement.
  std::array<int32_t, 5> unit_axes_{};
  std::unordered_map<uint64_t, UnitTimes> unit_times_;
  Key last_key_{};
  const StageTimes* last_ = nullptr;
  SectionKey last_section_{};
  const NetSections* last_sections_ = nullptr;
};

}  // namespace isobar
