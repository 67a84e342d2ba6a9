// A pipeline's cuts for the closed forms: kinds of stages, each of few runs of equal parts.
//
//   NetParts parts(net);
//   StageKinds p = cut_stages(parts, cuts_of(net, pp * vpp), pp, vpp, policy);
//   for (const StageKind& s : p.kinds) …       // s.times stages are like stage s.stage
//
// However it is cut, a net of a hundred equal parts has three or four kinds of stages, of one to three runs.
#pragma once
#include <cstdint>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/plan/plan.h"

namespace isobar::perf {

struct PartCount {   // occurrences of equal parts
  int32_t part = 0;  // index among the distinct parts
  double count = 0;  // all of them
  double inner = 0;  // of them, between the ends of the net
  bool operator==(const PartCount&) const = default;
};

/// A net as a list of distinct parts.
struct NetParts {
  NetParts() = default;
  explicit NetParts(const NetSpec& net);
  std::vector<int32_t> part;      // for each part of the net, its distinct part
  std::vector<int32_t> cut_like;  // for each, the part of distinct_parts(net) whose cut carries the same
  std::vector<PartCount> counts;  // rare ones first
  int32_t distinct() const { return static_cast<int32_t>(counts.size()); }
  bool inner(int64_t i) const { return i > 0 && i + 1 < static_cast<int64_t>(part.size()); }
};
/// The distinct part of each, numbered by first occurrence.
std::vector<int32_t> number_distinct(const std::vector<plan::Part>& parts);
/// One of each: the middle of its longest run, which has typical neighbours.
std::vector<int32_t> representatives(const std::vector<int32_t>& distinct);
/// Rare ones first, so that sums begin with small terms.
std::vector<PartCount> count_parts(const std::vector<int32_t>& distinct);

struct PartRun {     // adjacent equal parts of a chunk
  int32_t part = 0;  // index among the distinct parts
  double count = 1;
  double inner = 1;  // of them, between the ends of the net, subject to recomputation
  // Under full recomputation of the inner parts (recomputed_with in model/nets/layout/stages.h):
  double whole = 0;    // not recomputed
  double grouped = 0;  // recomputed with others, saving nothing
  double at_once = 0;  // gathered together right before backward, except the run's last
  bool operator==(const PartRun&) const = default;
};

struct StageChunk {  // equal adjacent chunks of a stage
  double times = 1;
  int32_t chunk = 0;                 // the first of them
  int32_t enters = -1, leaves = -1;  // cuts over which its streams enter and leave; -1: none
  std::vector<PartRun> runs;
  bool operator==(const StageChunk&) const = default;
};

struct StageKind {
  int32_t stage = 0;  // the first of its kind, with the most micro-batches in flight
  double times = 1;
  std::vector<StageChunk> chunks;
  std::vector<PartCount> counts;  // of all chunks
  double inner = 0;               // parts between the ends of the net
  std::vector<double> before;     // stages of each kind before this one
};

struct CutRange {  // adjacent cuts with the same streams: after virtual stages [begin, end)
  int32_t begin = 0, end = 0;
  int32_t like = 0;  // the cut before this part of distinct_parts(net)
};

struct StageKinds {
  std::vector<StageKind> kinds;
  std::vector<CutRange> cuts;
  std::vector<double> otherwise;             // by distinct part: the share that is whole or grouped
  std::vector<std::vector<double>> largest;  // parts recomputed together, by distinct part
  int32_t mix = 0;                           // LayoutModel's index of `otherwise`
  std::vector<int32_t> begins;               // first part of each virtual stage, and the number of parts
  std::vector<int32_t> kind_of;              // of each stage
};

/// `cuts`: the first part of each virtual stage, and the number of parts. Chunk c of stage s is virtual stage
/// c * pp + s. `recompute`: groups under full recomputation.
StageKinds cut_stages(const NetParts& net, const std::vector<int32_t>& cuts, int32_t pp, int32_t vpp,
                      const PolicySpec& recompute);

}  // namespace isobar::perf
