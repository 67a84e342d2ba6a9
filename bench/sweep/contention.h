// Trials that something else disturbed: their steps scatter far more than those of their siblings, or their
// cores lay far apart.
//
//   std::vector<RunRecord> runs = load_runs(dir);       // marked already
//   runs[0].contention.marked(), words_of(runs[0].contention)
//
// The scatter of a trial is (p90 - p10) / median of its steps. Its siblings are the other timed trials of the
// same directory with as many ranks, where there are at least four, else all others there; with fewer than
// four nobody is marked. It is contended when its scatter is above 15 % and above 3 times its siblings'
// median. Both are robust: one bad step of ten moves no 90th percentile far, and no half of the siblings
// moves their median. A machine that is busy throughout marks nobody: that is what `noise_limit` is for.
//
// Under a virtual machine the processors of a trial may lie in one core complex or in two, as the hypervisor
// likes (engine/core_hops.h). A trial whose cache lines travel more than twice as long as the host's quickest
// is far; what that costs it is seen in repetitions of its specification that were near, or else is what it
// costs the other far trials (median). It is contended when that is above 15 %. Where nothing shows the cost,
// nobody is marked: long steps do not feel it.
//
// A mark is no class: the trial stays ok (or noisy) and is kept. It is run once more (repeats.h). The fit
// hardly believes one that scatters (model/base/measurement.h); a far one it takes as it is, at its round
// trip's price.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace isobar {

struct RunRecord;

struct Contention {
  double spread = 0, siblings = 0;  // of this trial; the median of its siblings'. siblings 0: too few of them
  bool scattered = false;
  double trip_ns = 0, least_trip_ns = 0;  // its cores' round trip, where it is far; the host's quickest
  double slower = 1;                      // what being far cost it: 1.9 times the time of near ones
  bool far() const;
  bool marked() const { return scattered || far(); }
};
/// "contended: its steps scatter by 124 %, its siblings' by 9 %"; "" where it is not marked.
std::string words_of(const Contention& c);

struct Signs {
  int64_t ranks = 0;
  double spread = -1;              // negative: it was not timed
  double step_s = 0, trip_ns = 0;  // trip_ns 0: not measured
  std::string host = {};           // that trip_ns is of
};
/// What the trial at an index ran: those of one experiment are repetitions. Asked only where a trial is far.
using ExperimentOf = std::function<std::string(size_t)>;
/// One for each, in order. Without trip_ns `experiment_of` is not called.
std::vector<Contention> contention_of(const std::vector<Signs>& trials,
                                      const ExperimentOf& experiment_of = {});

/// Sets `contention` of all.
void mark_contended(std::vector<RunRecord>& runs);

}  // namespace isobar
