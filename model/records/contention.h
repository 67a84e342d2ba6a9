// Detects contended trials: disturbed by other load, so that their steps scatter far more than those of their
// siblings, or that they are slower than their own repetitions.
//
//   std::vector<RunRecord> runs = load_runs(dir);       // marked already
//   runs[0].contention.marked(), words_of(runs[0].contention)
//
// The scatter of a trial is (p90 - p10) / median of its steps. Its siblings are the other timed trials of the
// directory with the same number of ranks if there are at least four, else all others; with fewer than four
// nothing is marked. A trial is contended if its scatter exceeds 15 % and 3 times its siblings' median. Both
// statistics are robust: one slow step of ten does not change p90, and fewer than half of the siblings do not
// change their median. On a machine that is busy throughout nothing stands out: trials that scatter by more
// than 15 % as all do are `busy`, not marked, and have the same error. So is a trial during which other
// programs had more than a tenth of its cores, however even its steps are; unless a GPU computed.
//
// A trial slowed as a whole, for instance by a hypervisor that placed its processors far apart, is known by
// its repetitions: it takes 15 % more than the fastest of them on its host, and 3 times as much more as the
// median of at least four other repetitions in the directory.
//
// Contention is not a class: the trial stays ok (or noisy), is kept, and is run once more (repeats.h). The
// fit gives contended trials a low weight (model/base/measurement.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar::records {

struct RunRecord;

struct Contention {
  double spread = 0, siblings = 0;  // of this trial; median of its siblings. siblings 0: too few
  bool scattered = false;
  bool busy = false;  // scatters by more than 15 % without standing out, or more than a tenth was taken
  double taken = 0;   // share of its cores that other programs had (RanksRecord)
  double slower = 1;  // times the step time of its fastest repetition, if that marks it: 1.9
  bool marked() const { return scattered || slower > 1; }
};
/// "contended: its steps scatter by 124 %, its siblings' by 9 %"; "" if not marked.
std::string words_of(const Contention& c);

struct Signs {
  int64_t ranks = 0;
  double spread = -1;  // negative: not timed
  double step_s = 0;
  double taken = 0;
  std::string repeated = {};  // experiment and host, equal for repetitions; "": unknown
};
/// One entry a trial, in order.
std::vector<Contention> contention_of(const std::vector<Signs>& trials);

/// Sets `contention` of all runs.
void mark_contended(std::vector<RunRecord>& runs);

}  // namespace isobar::records
