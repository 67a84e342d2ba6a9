// Step time and memory of a layout in closed form, for exhaustive search. Nothing describes the net again: a
// part's work comes from sections of plans (sections.h), the parts of a stage from the engine's cuts
// (stage_kinds.h); schedule, data parallelism, ZeRO, placement and slots are closed forms over them.
//
//   LayoutModel model(spec, load_machine("configs/machines/dgx-a100.yaml"));   // net, batch and precision
//   LayoutCost c = model.cost(layout);                                         // fast once sections are
//   cached
//
// Closed forms: bubble (p-1)/(m v) of Narayanan 2021 with unequal stages, ZB-H1's of Qi 2023; ring and tree
// collectives by tier (collective.h); shards of ZeRO (Rajbhandari 2020); in-flight micro-batches of each
// schedule as in model/plan/schedule.h. Ranks on cores have no launches, and without a spare core they make
// the transfers inside their host themselves. A test holds all to the replay of linked plans (simulate.h).
#pragma once
#include <array>
#include <map>
#include <unordered_map>

#include "perfmodel/layouts/layout.h"
#include "perfmodel/layouts/layout_units.h"
#include "perfmodel/layouts/stage_kinds.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/cost.h"
#include "perfmodel/step/reading.h"

namespace isobar::perf {

/// Seconds of a step by cause (they add up to `seconds`), and bytes of the fullest rank.
struct LayoutCost {
  double seconds = 0;
  double compute = 0;             // parts of the slowest stage, all micro-batches
  double host = 0;                // launches for which the device waits
  double tp = 0, cp = 0, ep = 0;  // exposed collectives inside parts
  double slowdown = 0;            // of compute beside communication
  double bubble = 0, pp = 0;      // waiting for other stages; transfers between them
  double dp = 0;                  // exposed reduction of gradients and gathering of parameters
  double data = 0;                // reading samples, or waiting for ranks that read
  double optimizer = 0, step = 0, imbalance = 0;
  double persistent = 0, saved = 0, scratch = 0, process = 0;  // bytes
  double nccl = 0;  // estimated buffers on NVIDIA's accelerators (model/base/nccl_resources.h)
  double memory = 0;
  double ceiling = 0;  // least time by the machine's peaks
  double flops = 0;    // matrix FLOPs of all ranks, recomputation included
};

class LayoutModel {
 public:
  /// `ranks_on_host`: on cores, 0: all of them. `sections`: those of a model of the same net, training,
  /// precision and ops timed by shape, with any batch and number of ranks; nullptr: new ones.
  LayoutModel(const RunSpec& spec, const Machine& machine, const HostShare& host = {},
              std::shared_ptr<SectionCache> sections = nullptr);
  /// Throws ConfigError for a layout that the net cannot take (see build.h).
  LayoutCost cost(const Layout& l, Counts* counts = nullptr);
  /// Without its memory.
  LayoutCost time(const Layout& l);
  // The halves of cost(), for a search: many placements have the same memory.
  void add_memory(const Layout& l, LayoutCost& c);
  void add_time(const Layout& l, const Placements& at, LayoutCost& c, Counts* counts = nullptr);
  /// Seconds of the parts between the ends: a lower bound for any layout with these sections and stages.
  double least_seconds(const Layout& l, const Placements& at);

  /// Sets the layout's loader threads to the fewest of these (ascending) whose step is within 1 % of the
  /// shortest, and the cost's reading to theirs.
  void choose_workers(Layout& l, LayoutCost& c, const std::vector<int32_t>& workers);

  /// Parameters of the whole net.
  double parameters(const Layout& l);
  /// Changes the batch; prices stay.
  void set_batch(int64_t samples);
  /// How uneven experts are (expert_imbalance.h); at first as spec and machine say.
  double imbalance() const { return imbalance_; }
  void set_imbalance(double imbalance) { imbalance_ = imbalance; }
  /// Changes the prices, not the counts.
  void set_coefficients(const Counts& coefficients);
  const Machine& machine() const { return machine_; }
  const RunSpec& spec() const { return spec_; }
  const Conditions& where() const { return where_; }
  const Counts& prices() const { return k_; }
  const std::shared_ptr<SectionCache>& sections() const { return cache_; }

 private:
  static constexpr double kF32 = 4, kHalf = 2;  // bytes of an element
  struct StageTimes {
    std::vector<PartTime> parts;  // by distinct part
    const NetSections* sections;
    std::vector<PartTime> device;  // the same without waiting for launches
    double of(const std::vector<PartCount>& counts, double SectionTime::*member) const {
      double all = 0;
      for (const PartCount& c : counts) all += c.count * parts[c.part].of(member);
      return all;
    }
  };
  struct Key {
    SectionKey section;
    int32_t micro_batch;
    int16_t tp_per_host, cp_per_host, ep_per_host;
    bool split;         // ZB-H1
    int32_t mix = 0;    // index into mixes_: parts with other recomputation
    int32_t added = 0;  // micro-batches after the first, which add to gradients; 0 on accelerators but for
                        // recorded nets
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const;
  };
  struct Step {  // its kinds of stages, and the one that sets the pace
    const StageKinds* stages = nullptr;
    struct Kind {
      double compute = 0;  // seconds of a micro-batch in all chunks, without waits for units
      double longest = 0;  // of a micro-batch in its longest chunk
      double moved = 0;    // beyond compute: transfers of a micro-batch that its core makes itself
      const UnitTimes* units = nullptr;
      UnitWaits waits;  // ZeRO 2 and 3
      double all() const { return compute + waits.all(); }
      // ZB-H1: without the weight gradients, which then hide no units
      double urgent = 0;
      UnitWaits urgent_waits;
    };
    std::vector<Kind> kinds;
    std::vector<PartTime> urgent;  // by distinct part
    // Seconds over each range of cuts of what the next part waits for, inside hosts and between; and of all
    // streams
    std::vector<double> near, far, busy;
    double events = 0;  // seconds of all micro-batches by events; 0: parts are equal and closed forms apply
    double round = 0;   // seconds from the last stage to the first in a roll-out step
    size_t slow = 0;
    const StageKind& slowest() const { return stages->kinds[slow]; }
    double others(size_t i) const { return stages->kinds[i].times - (i == slow ? 1 : 0); }
  };
  double micro_batches(const Layout& l) const {
    return static_cast<double>(spec_.train.global_batch) / (static_cast<double>(l.dp) * l.micro_batch);
  }
  bool rolls() const { return spec_.train.rollout > 1; }
  bool replays() const { return spec_.train.replay_capacity > 0; }
  /// Passes of a micro-batch; a part's times include all of them.
  double forwards() const { return static_cast<double>(spec_.train.rollout); }
  double backwards() const { return static_cast<double>(spec_.learnt_steps()); }
  static double shards_of(const Layout& l) { return l.zero > 0 ? static_cast<double>(l.dp) * l.cp : 1; }
  static double expert_shards_of(const Layout& l) { return l.zero > 0 ? shards_of(l) / l.ep : 1; }
  /// Elements whose moments a rank keeps.
  static double updated_of(const Layout& l, const ParameterCounts& p) {
    return (p.trained() - p.expert) / shards_of(l) + p.expert / expert_shards_of(l);
  }
  bool away(const Layout& l) const {
    return spec_.policy.offload_parameters && l.zero == 3;
  }  // offloaded parameters
  const StageKinds& stages_of(const Layout& l);
  // Under full recomputation there are two kinds of parts: in groups, or some not recomputed.
  SectionKey mixed_with(SectionKey section) const;  // key of the other kind
  const ReadTime& read_of(const Layout& l);
  double data_of(const Layout& l, double rest);  // seconds of reading in a step that takes `rest` without it
  OpPrices op_prices() const;
  /// Seconds of an op without a section, in f32.
  double op_time(plan::OpKind kind, double bytes, double vector_flops) const;
  bool on_cores() const { return where_.processors == 0; }
  /// True if compute stops for transfers in a group: cores make them if it is `inside` their host.
  bool stops(bool inside) const { return spec_.run.serial || (inside && !where_.overlaps()); }
  bool exchange_stops(const Layout& l, const Placements& at) const {
    return stops(at.dp * at.cp >= static_cast<double>(l.dp) * l.cp);
  }
  StageTimes price(const Key& key, Counts* counts);
  StageTimes price_mixed(const Key& key, Counts* counts);
  SectionKey sections_key(const Layout& l) const {
    SectionKey key = l.key();
    if (l.cp > 1 && spec_.policy.edge_chunks > 1) key.alone = l.micro_batch;
    if (l.ep > 1) key.imbalance = imbalance_;
    return key;
  }
  Key key_of(const Layout& l, const Placements& at);
  const StageTimes& times_of(const Layout& l, const Placements& at);
  const NetSections& sections_of(const Layout& l);
  static ParameterCounts parameters_of(const std::vector<PartCount>& counts, const NetSections& n);
  void count(const Layout& l, const Placements& at, const StageKind& slow, const NetSections& n,
             Counts& counts);
  // layout_memory.cpp
  double replay_of(const Layout& l, const StageKind& s, const NetSections& n) const;
  double saved_of(const Layout& l, const StageKind& s, const NetSections& n);
  double scratch_of(const Layout& l, const StageKinds& stages, const NetSections& n);  // without ZeRO's units
  static double unit_of(const Layout& l, const StageKind& s, const NetSections& n, bool gradients);
  UnitPolicy unit_policy(const Layout& l, const Placements& at) const;
  // layout_pipeline.cpp
  void time_transfers(const Layout& l, const Placements& at, const NetSections& n, Step& step) const;
  void add_rollout(const Layout& l, const Step& step, LayoutCost& c) const;
  /// Seconds of a micro-batch's transfers into and out of a stage, both ways.
  static double transfers_of(const StageKind& stage, const Step& step);
  double boundaries_of(const Layout& l, const StageTimes& t, const Step& step) const;
  static double link_of(const Step& step);
  void split_events(const Layout& l, const StageTimes& t, const Step& step, LayoutCost& c) const;
  double pipeline_seconds(const Layout& l, const Placements& at, const StageTimes& t, const Step& step);
  double boundary_of(const Layout& l, const NetSections& n, const CutRange& cut) const;
  void add_pipeline(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                    LayoutCost& c) const;
  void add_waits(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                 LayoutCost& c) const;
  // layout_time.cpp
  std::vector<PartTime> of_a_step(std::vector<PartTime> parts) const;
  UnitWaits rolled(UnitWaits w) const;
  Step& step_of(const Layout& l, const Placements& at, const StageTimes& t);
  const UnitTimes& units_of(const Layout& l, const Placements& at, const NetSections& n, size_t kind,
                            const StageKind& s);
  /// True if launches are timed over all parts of a step, not part by part.
  bool launched_apart(const Layout& l) const { return !rolls() && (l.pp == 1 || unequal_stages_); }
  /// Seconds of a step of a stage that waits for no other, limited by its host's launches.
  double launched(const Layout& l, const StageKind& stage, const StageTimes& t, const Step::Kind& kind) const;
  double launches_of(const StageKind& stage, const StageTimes& t, const UnitTimes& units, int zero) const;
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
  double cache_share_;  // bytes of the last-level cache for a rank; of an accelerator infinite
  double imbalance_;    // of experts (expert_imbalance.h)
  bool sixteen_;        // parameters have a 16-bit copy
  double gradient_;     // bytes of a gradient element
  double moments_;      // optimizer moments an element
  double average_;      // moving average of weights: 1 or 0
  const NetParts net_;
  bool unequal_stages_ = false;       // parts between the ends differ, or layout.stages cuts them
  std::vector<double> priced_inner_;  // distinct parts between the ends, as counted in the plans of sections
  std::shared_ptr<SectionCache> cache_;
  std::unordered_map<uint64_t, StageKinds> stages_;  // by pp and vpp
  uint64_t last_cut_ = 0;
  const StageKinds* last_stages_ = nullptr;
  std::vector<std::vector<double>> mixes_;  // shares of each distinct part; the first: none
  Step step_;                               // of the layout being priced, to reuse its memory
  std::unordered_map<Key, StageTimes, Hash> known_;
  // Units of layouts with these axes, by kind of stage, chunks, ZeRO and placement.
  std::array<int32_t, 6> unit_axes_{};
  std::unordered_map<uint64_t, UnitTimes> unit_times_;
  std::map<std::array<int64_t, 3>, ReadTime> read_;  // by a rank's samples, micro-batches, loader threads
  Key last_key_{};
  const StageTimes* last_ = nullptr;
  SectionKey last_section_{};
  const NetSections* last_sections_ = nullptr;
};

}  // namespace isobar::perf
