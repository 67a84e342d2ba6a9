// Trials that something else disturbed: their steps scatter far more than those of their siblings.
//
//   std::vector<RunRecord> runs = load_runs(dir);       // marked already
//   runs[0].contention.marked, words_of(runs[0].contention)
//
// The scatter of a trial is (p90 - p10) / median of its steps. Its siblings are the other timed trials of the
// same directory with as many ranks, where there are at least four, else all others there; with fewer than
// four nobody is marked. It is contended when its scatter is above 15 % and above 3 times its siblings'
// median. Both are robust: one bad step of ten moves no 90th percentile far, and no half of the siblings
// moves their median. A machine that is busy throughout marks nobody: that is what `noise_limit` is for.
//
// A mark is no class: the trial stays ok (or noisy) and is kept. It is run once more (repeats.h), and the fit
// hardly believes it (model/base/measurement.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar {

struct RunRecord;

struct Contention {
  double spread = 0, siblings = 0;  // of this trial; the median of its siblings'. siblings 0: too few of them
  bool marked = false;
};
/// "steps scatter by 124 %, its siblings' by 9 %"; "" where it is not marked.
std::string words_of(const Contention& c);

struct Scatter {
  int64_t ranks = 0;
  double spread = -1;  // negative: it was not timed
};
/// One for each, in order.
std::vector<Contention> contention_of(const std::vector<Scatter>& trials);

/// Sets `contention` of all.
void mark_contended(std::vector<RunRecord>& runs);

}  // namespace isobar
