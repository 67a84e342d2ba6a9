// The distinct parts of a net, each counted once from a plan that the net's own builder emitted, forward and
// backward. Layouts that share what decides them (tp, cp, sequence parallelism, recomputation, precision)
// differ in how often and where these run, so an exhaustive search builds a few hundred small plans and no
// more.
//
//   SectionCache cache(spec);                       // net and policy of the search
//   const NetSections& s = cache.of({.tp = 8, .cp = 1, .sequence_parallel = true, .recompute = "none"});
//   SectionTime t = time_of(s, s.parts[1].forward, key, 4 /* samples */, rates, …);
//
// Everything about an op is linear in the samples of a micro-batch, so two small plans are enough.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/nets/net_streams.h"
#include "perfmodel/step/terms.h"

namespace isobar {

struct SectionKey {
  int64_t tp = 1, cp = 1;
  bool sequence_parallel = false;
  int recompute = 0;    // index of kRecompute, or kGroupRecompute
  int cp_kind = 0;      // index of kCpKinds
  bool single = false;  // of one sample, and cp > 1: it needs no regrouping by sample
  auto operator<=>(const SectionKey&) const = default;  // NOLINT(modernize-use-nullptr): its own 0
};
inline constexpr const char* kRecompute[] = {"none", "selective", "full"};
inline constexpr int kFullRecompute = 2, kGroupRecompute = 3;  // 3: in a group of parts, not its first
inline constexpr const char* kCpKinds[] = {"allgather", "ring", "ulysses"};

struct Line {  // a + b * samples
  double a = 0, b = 0;
  double at(double samples) const { return a + b * samples; }
};

struct NamedShapes {  // of an op whose shape may have been timed (shapes.h), and its kind
  Op one, two;        // for NetSections::one and ::two samples; operands are left out
};

struct SectionOp {
  OpShape one, two;  // for NetSections::one and ::two samples
  Lane lane;
  bool weight = false;                                 // weight gradient: what a split backward pass puts off
  std::vector<int32_t> waits;                          // ops of this section
  std::shared_ptr<const NamedShapes> named = nullptr;  // where shapes were timed
};
using Section = std::vector<SectionOp>;

struct ParameterCounts {                    // elements a rank holds
  double cut = 0, whole = 0;                // by tensor parallelism; trained
  double cut_matrix = 0, whole_matrix = 0;  // of them, what matrix products read
  double partial = 0;  // trained, whole, and of sums over tensor parallelism (nets/adapter.h); all matrices
  double frozen_cut = 0, frozen_whole = 0, frozen_cut_matrix = 0, frozen_whole_matrix = 0;
  double trained() const { return cut + whole + partial; }
  double frozen() const { return frozen_cut + frozen_whole; }
  double frozen_matrix() const { return frozen_cut_matrix + frozen_whole_matrix; }
  double all() const { return trained() + frozen(); }
  void add(double times, const ParameterCounts& o) {
    for (double ParameterCounts::*x :
         {&ParameterCounts::cut, &ParameterCounts::whole, &ParameterCounts::cut_matrix,
          &ParameterCounts::whole_matrix, &ParameterCounts::partial, &ParameterCounts::frozen_cut,
          &ParameterCounts::frozen_whole, &ParameterCounts::frozen_cut_matrix,
          &ParameterCounts::frozen_whole_matrix})
      this->*x += times * (o.*x);
  }
};

struct PartSections {  // of a part of the net
  Section forward, backward;
  ParameterCounts parameters;
  ParameterCounts read_again;  // of them, what its backward pass reads
  Line saved;                  // bytes that a micro-batch in flight keeps
  Line split;                  // more of it when weight gradients are put off: their operands
};

struct NetSections {
  double one = 1, two = 2;          // samples of the plans that it was cut from; equal: it is of these alone
  std::vector<PartSections> parts;  // the distinct ones, as NetParts numbers them
  // Over a cut before each part of distinct_parts(net): bytes of all streams; and of those to that part, for
  // which it waits. What jumps is made earlier and passed on at once, beside compute.
  std::vector<Line> crossing, handed_on;
  Line scratch;          // bytes
  Line fed_back;         // bytes of what a step of a roll-out hands to the next
  Line replayed;         // … of a prediction as a replay buffer takes it
  double constants = 0;  // bytes, of a rank with parts of all kinds
  double tied = 0;       // elements of the first part's parameters that the last one reads, too
};

struct StreamLine {  // of the whole net
  NetStream stream;  // its bytes are of one sample, or two
  Line bytes;        // of a micro-batch
};

class SectionCache {
 public:
  /// `named`: ops are told apart by the names of their shapes, too (Machine::shapes).
  explicit SectionCache(const RunSpec& spec, bool named = false);
  /// Throws ConfigError for what the net cannot take. References stay.
  const NetSections& of(const SectionKey& key);
  const std::vector<StreamLine>& streams(const SectionKey& key);
  size_t size() const { return known_.size(); }

 private:
  RunSpec spec_of(const SectionKey& key) const;
  /// Of the plans, or streams, that a line goes through; equal: what is asked for is of so many alone.
  static std::pair<double, double> samples_of(const SectionKey& key);
  RunSpec base_;
  bool named_;
  NetSpec net_;                           // the whole one
  std::vector<int32_t> distinct_;         // of each part of the small net that plans are of
  std::vector<int32_t> representatives_;  // of each distinct one, which part of it is priced
  std::map<SectionKey, std::unique_ptr<NetSections>> known_;
  std::map<SectionKey, std::vector<StreamLine>> streams_;
};

struct Placements {  // ranks of each axis' groups on one host
  double tp = 1, cp = 1, dp = 1, pp = 1;
};

struct SectionTime {
  double seconds = 0;             // from begin to end
  double compute = 0;             // all compute ops, undisturbed
  double weight = 0;              // of them, weight gradients
  double after_reads = 0;         // from the end of the last op that reads weights to the end
  double device_after_reads = 0;  // the same were there no launches to wait for
  double tp = 0, cp = 0;          // compute waits for these collectives
  double slowdown = 0;            // compute beside communication
  double host = 0;                // the rest: launches come too slowly
  double launches = 0;            // of the host, for all ops
  double flops = 0, ceiling = 0;  // matrix FLOPs; least possible seconds of them
};
struct PartTime {
  SectionTime forward, backward;
  double of(double SectionTime::*member) const { return forward.*member + backward.*member; }
};
/// `split`: weight gradients come after everything else, so they hide no collective.
/// `counts`: all of the section's counts, added up. `peaks`: FLOP/s by type, for the ceiling.
struct Peaks {
  double f32 = 0, tf32 = 0, bf16 = 0, fp8 = 0;
  double of(const OpShape& s) const {
    return s.fp8 ? fp8 : s.tf32 ? tf32 : s.dtype == DType::f32 ? f32 : bf16;
  }
};
SectionTime time_of(const NetSections& of, const Section& section, const SectionKey& key, double samples,
                    const Counts& rates, double slowdown, const Conditions& where,
                    const Placements& placements, const Peaks& peaks, Counts* counts = nullptr,
                    bool split = false);

}  // namespace isobar
