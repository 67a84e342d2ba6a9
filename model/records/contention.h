// Detects contended trials: disturbed by other load (their steps scatter far more than those of their
// siblings), or run on distant cores.
//
//   std::vector<RunRecord> runs = load_runs(dir);       // marked already
//   runs[0].contention.marked(), words_of(runs[0].contention)
//
// The scatter of a trial is (p90 - p10) / median of its steps. Its siblings are the other timed trials of the
// directory with the same number of ranks if there are at least four, else all others; with fewer than four
// nothing is marked. A trial is contended if its scatter exceeds 15 % and 3 times its siblings' median. Both
// statistics are robust: one slow step of ten does not change p90, and fewer than half of the siblings do not
// change their median. On a machine that is busy throughout nothing is marked; `noise_limit` covers that.
//
// A hypervisor may place a trial's processors in one core complex or in two (engine/core_hops.h). A trial is
// far if its core-to-core round trip exceeds twice the host's shortest. Its slowdown is relative to near
// repetitions of its specification, or else the median of the other far trials; above 15 % it is contended.
// Without an estimate nothing is marked.
//
// Contention is not a class: the trial stays ok (or noisy), is kept, and is run once more (repeats.h). The
// fit gives scattered trials a low weight (model/base/measurement.h), and prices far ones by their round
// trip.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace isobar {

struct RunRecord;

struct Contention {
  double spread = 0, siblings = 0;  // of this trial; median of its siblings. siblings 0: too few
  bool scattered = false;
  double trip_ns = 0, least_trip_ns = 0;  // round trip of a far trial; the shortest on its host
  double slower = 1;                      // slowdown from being far: 1.9 times the step time of near trials
  bool far() const;
  bool marked() const { return scattered || far(); }
};
/// "contended: its steps scatter by 124 %, its siblings' by 9 %"; "" if not marked.
std::string words_of(const Contention& c);

struct Signs {
  int64_t ranks = 0;
  double spread = -1;              // negative: not timed
  double step_s = 0, trip_ns = 0;  // trip_ns 0: not measured
  std::string host = {};           // host of trip_ns
};
/// Experiment of the trial at an index; repetitions share it. Called only if a trial is far.
using ExperimentOf = std::function<std::string(size_t)>;
/// One entry a trial, in order. Without trip_ns `experiment_of` is not called.
std::vector<Contention> contention_of(const std::vector<Signs>& trials,
                                      const ExperimentOf& experiment_of = {});

/// Sets `contention` of all runs.
void mark_contended(std::vector<RunRecord>& runs);

}  // namespace isobar
