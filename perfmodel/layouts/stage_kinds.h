// How a pipeline cuts a net, as the closed forms read it: kinds of stages, each of few runs of equal parts.
//
//   NetParts parts(net);
//   StageKinds p = cut_stages(parts, cuts_of(net, pp * vpp), pp, vpp, policy);
//   for (const StageKind& s : p.kinds) …       // s.times stages are like stage s.stage
//
// A net of a hundred equal parts has three or four kinds of stages, of one to three runs, however it is cut.
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec.h"
#include "model/plan/plan.h"

namespace isobar {

struct PartCount {   // how often parts that are alike occur
  int32_t part = 0;  // index among the distinct parts
  double count = 0;  // all of them
  double inner = 0;  // of them, between the ends of the net
  bool operator==(const PartCount&) const = default;
};

/// A net as a list of distinct parts.
struct NetParts {
  NetParts() = default;
  explicit NetParts(const NetSpec& net);
  std::vector<int32_t> part;      // of each part of the net, which of the distinct ones it is
  std::vector<int32_t> cut_like;  // of each, before which part of distinct_parts(net) a cut carries the same
  std::vector<PartCount> counts;  // rare ones first
  int32_t distinct() const { return static_cast<int32_t>(counts.size()); }
  bool inner(int64_t i) const { return i > 0 && i + 1 < static_cast<int64_t>(part.size()); }
};
/// Which of the distinct parts each is, in the order in which they first occur.
std::vector<int32_t> number_distinct(const std::vector<Part>& parts);
/// One of each: the middle of its longest run, which has neighbours like most others.
std::vector<int32_t> representatives(const std::vector<int32_t>& distinct);
/// Rare ones first, so that sums begin with what is small.
std::vector<PartCount> count_parts(const std::vector<int32_t>& distinct);

struct PartRun {     // neighbours in a chunk that are alike
  int32_t part = 0;  // index among the distinct parts
  double count = 1;
  double inner = 1;  // of them, between the ends of the net: what policies recompute
  // Under full recomputation of the inner parts (recomputed_with in model/nets/stages.h):
  double whole = 0;    // are not recomputed
  double grouped = 0;  // are recomputed with others and keep nothing
  double at_once = 0;  // but for the run's last: are gathered with others, right before the backward pass
  bool operator==(const PartRun&) const = default;
};

struct StageChunk {  // neighbouring chunks of a stage that are alike
  double times = 1;
  int32_t chunk = 0;                 // the first of them
  int32_t enters = -1, leaves = -1;  // which cuts its streams come over and go over; -1: none
  std::vector<PartRun> runs;
  bool operator==(const StageChunk&) const = default;
};

struct StageKind {
  int32_t stage = 0;  // the first of its kind, which holds the most micro-batches
  double times = 1;
  std::vector<StageChunk> chunks;
  std::vector<PartCount> counts;  // of all chunks
  double inner = 0;               // parts between the ends of the net
  std::vector<double> before;     // how many stages of each kind precede this one
};

struct CutRange {  // neighbouring cuts that carry the same: those after virtual stages [begin, end)
  int32_t begin = 0, end = 0;
  int32_t like = 0;  // the cut before this part of distinct_parts(net)
};

struct StageKinds {
  std::vector<StageKind> kinds;
  std::vector<CutRange> cuts;
  std::vector<double> otherwise;             // of each distinct part, the share that is whole or grouped
  std::vector<std::vector<double>> largest;  // parts that are recomputed together, by distinct part
  int32_t mix = 0;                           // LayoutModel's number for `otherwise`
  std::vector<int32_t> begins;               // first part of each virtual stage, and their number
  std::vector<int32_t> kind_of;              // of each stage
};

/// `cuts`: the first part of each virtual stage, and their number. Chunk c of stage s is virtual stage
/// c * pp + s. `recompute`: what a policy of full recomputation says about groups.
StageKinds cut_stages(const NetParts& net, const std::vector<int32_t>& cuts, int32_t pp, int32_t vpp,
                      const PolicySpec& recompute);

}  // namespace isobar
