// The distinct parts of a net, each counted once from a plan of the net's own builder, forward and backward.
// Layouts with equal tp, cp, ep, sequence parallelism, recomputation and precision differ only in how often
// and where these run, so an exhaustive search builds a few hundred small plans.
//
//   SectionCache cache(spec);                       // net and policy of the search
//   const NetSections& s = cache.of({.tp = 8, .cp = 1, .sequence_parallel = true});
//   SectionTime t = time_of(s, s.parts[1].forward, key, 4 /* samples */, rates, …);
//
// An op's counts are linear in the samples of a micro-batch, so two small plans suffice.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/nets/layout/net_streams.h"
#include "perfmodel/step/op_terms.h"
#include "perfmodel/step/utilization.h"

namespace isobar::perf {

struct SectionKey {
  int64_t tp = 1, cp = 1;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::none;
  bool grouped = false;  // full recomputation: in a group of parts, not its first
  CpKind cp_kind = CpKind::allgather;
  int32_t alone = 0;  // if above 0, of micro-batches of this number of samples alone; 0: of any
  int64_t ep = 1;
  double imbalance = 0;                                 // of divided experts (expert_imbalance.h)
  auto operator<=>(const SectionKey&) const = default;  // NOLINT(modernize-use-nullptr): its own 0
};

struct Line {  // a + b * samples
  double a = 0, b = 0;
  double at(double samples) const { return a + b * samples; }
};

struct NamedShapes {  // of an op whose shape may have been timed (shapes.h), and its kind
  plan::Op one, two;  // for NetSections::one and ::two samples, without operands
  mutable std::map<double, double> factors;  // those asked for, by samples
};

struct SectionOp {
  OpShape one, two;  // for NetSections::one and ::two samples
  plan::Lane lane;
  bool weight = false;         // weight gradient, postponed by a split backward
  std::vector<int32_t> waits;  // ops of this section
  // Gradients of parameters that it writes in a recorded net, and their bytes: each is added by an op of its
  // own to those of earlier micro-batches
  double gradients = 0, gradient_bytes = 0;
  std::shared_ptr<const NamedShapes> named = nullptr;  // if shapes were timed
};
using Section = std::vector<SectionOp>;

struct ParameterCounts {                    // elements on a rank
  double cut = 0, whole = 0;                // trained; cut by tensor parallelism or whole
  double cut_matrix = 0, whole_matrix = 0;  // of them, read by matrix products
  double expert = 0, frozen_expert = 0;     // of divided experts (ep > 1), which are all matrices
  double partial = 0;                       // trained, whole, with gradients summed over tensor parallelism
                                            // (nets/transformer/adapter.h); all matrices
  double frozen_cut = 0, frozen_whole = 0, frozen_cut_matrix = 0, frozen_whole_matrix = 0;
  double trained() const { return cut + whole + partial + expert; }
  double frozen() const { return frozen_cut + frozen_whole + frozen_expert; }
  double frozen_matrix() const { return frozen_cut_matrix + frozen_whole_matrix + frozen_expert; }
  double all() const { return trained() + frozen(); }
  void add(double times, const ParameterCounts& o) {
    for (double ParameterCounts::*x :
         {&ParameterCounts::cut, &ParameterCounts::whole, &ParameterCounts::cut_matrix,
          &ParameterCounts::whole_matrix, &ParameterCounts::partial, &ParameterCounts::frozen_cut,
          &ParameterCounts::frozen_whole, &ParameterCounts::frozen_cut_matrix,
          &ParameterCounts::frozen_whole_matrix, &ParameterCounts::expert, &ParameterCounts::frozen_expert})
      this->*x += times * (o.*x);
  }
};

struct PartSections {  // of a part of the net
  Section forward, backward;
  ParameterCounts parameters;
  ParameterCounts read_again;  // of them, read by its backward pass
  Line saved;                  // bytes saved for a micro-batch in flight
  Line split;                  // further bytes if weight gradients are postponed: their operands
};

struct NetSections {
  double one = 1, two = 2;          // samples of its two plans; if equal, valid for these only
  std::vector<PartSections> parts;  // the distinct ones, numbered as in NetParts
  // Over a cut before each part of distinct_parts(net): bytes of all streams; and of those for that part,
  // which waits for them. Skip connections are sent earlier, beside compute.
  std::vector<Line> crossing, handed_on;
  Line scratch;          // bytes
  Line fed_back;         // bytes that a roll-out step gives to the next
  Line replayed;         // … of a prediction for a replay buffer
  double constants = 0;  // bytes on a rank with parts of all kinds
  double tied = 0;       // parameters of the first part that the last one also reads
};

struct StreamLine {        // of the whole net
  nets::NetStream stream;  // with the bytes of one sample, or two
  Line bytes;              // of a micro-batch
};

/// False if train.freeze or train.lora_targets name only some of equal parts, which then have no one price.
bool trains_alike(const RunSpec& spec);

class SectionCache {
 public:
  /// `where`: ops of the kinds that it has timed by shape are also distinguished by their shapes' names.
  explicit SectionCache(const RunSpec& spec, const Conditions& where = {});
  /// Throws ConfigError for what the net cannot take. References stay valid.
  const NetSections& of(const SectionKey& key);
  const std::vector<StreamLine>& streams(const SectionKey& key);
  size_t size() const { return known_.size(); }
  /// The cache of the i-th thread of a search, 0: this one; made on the first call, which no other may
  /// overlap.
  SectionCache& of_thread(size_t i);

 private:
  RunSpec spec_of(const SectionKey& key) const;
  /// Samples of the two plans, or streams; equal: valid for this number only.
  static std::pair<double, double> samples_of(const SectionKey& key);
  RunSpec base_;
  Conditions where_;
  NetSpec net_;                           // the whole one
  std::vector<int32_t> distinct_;         // for each part of the small planned net
  std::vector<int32_t> representatives_;  // for each distinct one, the part that is priced
  std::map<SectionKey, std::unique_ptr<NetSections>> known_;
  std::map<SectionKey, std::vector<StreamLine>> streams_;
  std::vector<std::unique_ptr<SectionCache>> others_;  // of further threads
};

struct Placements {  // ranks of each axis' groups on one host
  double tp = 1, cp = 1, dp = 1, pp = 1, ep = 1;
};

struct SectionTime {
  double seconds = 0;             // from begin to end
  double compute = 0;             // all compute ops, undisturbed
  double weight = 0;              // of them, weight gradients
  double after_reads = 0;         // from the last read of weights to the end
  double device_after_reads = 0;  // the same without waiting for launches
  double tp = 0, cp = 0, ep = 0;  // waits of compute for these collectives
  double slowdown = 0;            // of compute beside communication
  double host = 0;                // the rest: waits for launches
  double launches = 0;            // host time, for all ops
  double flops = 0, ceiling = 0;  // matrix FLOPs, of even experts; their least possible seconds
};
struct PartTime {
  SectionTime forward, backward;
  double of(double SectionTime::*member) const { return forward.*member + backward.*member; }
};
/// Prices of ops on a rank.
struct OpPrices {
  const Counts& rates;
  double slowdown;     // compute beside communication takes 1 + slowdown times as long
  double cache_share;  // bytes of the last-level cache; infinite: operands never spill
  bool serial;         // every op waits for the one before
  double added;        // share of micro-batches whose weight gradients are added to those before
  const Conditions& where;
  const Peaks& peaks;  // for the ceiling
};
/// `split`: weight gradients come last, so they hide no collective. `counts`: sums the section's counts.
SectionTime time_of(const NetSections& of, const Section& section, const SectionKey& key, double samples,
                    const OpPrices& prices, const Placements& placements, Counts* counts = nullptr,
                    bool split = false);

}  // namespace isobar::perf
