// The fast gear: step time and memory of a layout in closed form, for exhaustive search. It does not describe
// the net again: what a part does comes from sections of plans (sections.h), which parts a stage has from the
// engine's own cuts (stage_kinds.h); schedule, data parallelism, ZeRO, placement and slots are closed forms
// over them.
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
#include "perfmodel/layouts/stage_kinds.h"
#include "perfmodel/machine/machine.h"
#include "perfmodel/step/cost.h"

namespace isobar {

/// Seconds of a step by what they are spent on (they add up to `seconds`), and bytes of the fullest rank.
struct LayoutCost {
  double seconds = 0;
  double compute = 0;         // parts of the slowest stage, all micro-batches
  double host = 0;            // launches that the host did not keep up with
  double tp = 0, cp = 0;      // exposed collectives inside parts
  double slowdown = 0;        // compute beside communication
  double bubble = 0, pp = 0;  // waiting for other stages; transfers between them
  double dp = 0;              // exposed reduction of gradients and gathering of parameters
  double data = 0;            // reading samples, or waiting for those who do
  double optimizer = 0, step = 0, imbalance = 0;
  double persistent = 0, saved = 0, scratch = 0, process = 0;  // bytes
  double nccl = 0;  // its buffers on NVIDIA's accelerators, an estimate (model/base/nccl_resources.h)
  double memory = 0;
  double ceiling = 0;  // no machine of these peaks is faster
  double flops = 0;    // matrix FLOPs of all ranks, recomputation too
};

class LayoutModel {
 public:
  /// `ranks_on_host`: of cores, 0: all of them.
  LayoutModel(const RunSpec& spec, const Machine& machine, const HostShare& host = {});
  /// Throws ConfigError for a layout that the net cannot take (see build.h).
  LayoutCost cost(const Layout& l, Counts* counts = nullptr);
  // The halves of cost(), for a search: many placements need the same memory.
  void add_memory(const Layout& l, LayoutCost& c);
  void add_time(const Layout& l, const Placements& at, LayoutCost& c, Counts* counts = nullptr);
  /// Seconds of parts between the ends alone: no layout with these sections and so many stages is faster.
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
  struct StageTimes {
    std::vector<PartTime> parts;  // by distinct part
    const NetSections* sections;
    std::vector<PartTime> device;  // the same were there no launches to wait for
    double of(const std::vector<PartCount>& counts, double SectionTime::*member) const {
      double all = 0;
      for (const PartCount& c : counts) all += c.count * parts[c.part].of(member);
      return all;
    }
  };
  struct Key {
    SectionKey section;
    int32_t micro_batch;
    int16_t tp_per_host, cp_per_host;
    bool split;       // ZB-H1
    int32_t mix = 0;  // index of mixes_: parts that are recomputed otherwise
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const;
  };
  struct Step {  // its kinds of stages, and the one that the others are taken to wait for
    const StageKinds* stages = nullptr;
    struct Kind {
      double compute = 0;  // seconds of a micro-batch of all chunks, waits for units not included
      double longest = 0;  // of a micro-batch of its longest chunk
      const UnitTimes* units = nullptr;
      UnitWaits waits;  // ZeRO 2 and 3
      double all() const { return compute + waits.all(); }
      // ZB-H1: without the weight gradients, under which units hide no more
      double urgent = 0;
      UnitWaits urgent_waits;
    };
    std::vector<Kind> kinds;
    std::vector<PartTime> urgent;  // of each distinct part
    // Seconds over cuts of each range: of what the next part waits for, inside hosts and between; of all
    std::vector<double> near, far, busy;
    double events = 0;  // seconds of all micro-batches, event by event; 0: parts are equal, closed forms hold
    double round = 0;   // seconds from the last stage to the first, of a step of a roll-out
    size_t slow = 0;
    const StageKind& slowest() const { return stages->kinds[slow]; }
    double others(size_t i) const { return stages->kinds[i].times - (i == slow ? 1 : 0); }
  };
  double micro_batches(const Layout& l) const {
    return static_cast<double>(spec_.train.global_batch) / (static_cast<double>(l.dp) * l.micro_batch);
  }
  bool rolls() const { return spec_.train.rollout > 1; }
  bool replays() const { return spec_.train.replay_capacity > 0; }
  /// Passes of a micro-batch: the times of a part are those of all of them.
  double forwards() const { return static_cast<double>(spec_.train.rollout); }
  double backwards() const { return static_cast<double>(spec_.learnt_steps()); }
  static double shards_of(const Layout& l) { return l.zero > 0 ? static_cast<double>(l.dp) * l.cp : 1; }
  bool away(const Layout& l) const { return spec_.policy.offload_parameters && l.zero == 3; }  // parameters
  const StageKinds& stages_of(const Layout& l);
  // Under full recomputation parts of two kinds: in groups, or some of them not at all.
  int mixed_with() const;  // SectionKey::recompute of the other kind
  const ReadTime& read_of(const Layout& l);
  StageTimes price(const Key& key, Counts* counts);
  StageTimes price_mixed(const Key& key, Counts* counts);
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
  static double unit_of(const StageKind& s, const NetSections& n, bool gradients);
  UnitPolicy unit_policy(const Layout& l, const Placements& at) const;
  // layout_pipeline.cpp
  void time_transfers(const Layout& l, const Placements& at, const NetSections& n, Step& step) const;
  void add_rollout(const Layout& l, const Step& step, LayoutCost& c) const;
  double boundaries_of(const Layout& l, const StageTimes& t, const Step& step) const;
  static double link_of(const Step& step);
  void split_events(const Layout& l, const StageTimes& t, const Step& step, LayoutCost& c) const;
  double pipeline_seconds(const Layout& l, const Placements& at, const StageTimes& t, const Step& step);
  double boundary_of(const Layout& l, const NetSections& n, const CutRange& cut) const;
  void add_pipeline(const Layout& l, const Placements& at, const StageTimes& t, const Step& step,
                    LayoutCost& c) const;
  // layout_time.cpp
  std::vector<PartTime> of_a_step(std::vector<PartTime> parts) const;
  UnitWaits rolled(UnitWaits w) const;
  Step& step_of(const Layout& l, const Placements& at, const StageTimes& t);
  const UnitTimes& units_of(const Layout& l, const Placements& at, const NetSections& n, size_t kind,
                            const StageKind& s);
  /// Whether launches are timed over all parts of a step, not part by part.
  bool launched_apart(const Layout& l) const { return !rolls() && (l.pp == 1 || unequal_parts_); }
  /// Seconds of a step of a stage that waits for no other, at its host's pace.
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
  bool sixteen_;     // parameters have a 16-bit copy
  double gradient_;  // bytes of an element of the gradients
  double moments_;   // of the optimizer, an element
  double average_;   // of the weights, kept as moments are: 1, or 0
  const NetParts net_;
  bool unequal_parts_ = false;  // between the ends
  std::vector<double>
      priced_inner_;  // of each distinct part between the ends, how many plans of sections have
  SectionCache cache_;
  std::unordered_map<uint64_t, StageKinds> stages_;  // by pp and vpp
  uint64_t last_cut_ = 0;
  const StageKinds* last_stages_ = nullptr;
  std::vector<std::vector<double>> mixes_;  // shares of each distinct part; the first: none
  Step step_;                               // of the layout that is being priced: its memory is used again
  std::unordered_map<Key, StageTimes, Hash> known_;
  // Units of the layouts with these axes, by kind of stage, chunks, ZeRO and placement.
  std::array<int32_t, 5> unit_axes_{};
  std::unordered_map<uint64_t, UnitTimes> unit_times_;
  int64_t last_read_ = -1;  // samples of a rank, and how long reading them takes
  ReadTime read_;
  Key last_key_{};
  const StageTimes* last_ = nullptr;
  SectionKey last_section_{};
  const NetSections* last_sections_ = nullptr;
};

}  // namespace isobar
