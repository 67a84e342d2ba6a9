// The trials of a sweep grouped by specification, with their results so far: what suggestions choose from.
//
//   SweepField field(matrix, {.results = "results/demo", .machine = "machine.yaml"});
//   field.refresh();                        // reads the results directory and fits
//   const Outlook o = field.look(4);        // field.trials_of(o.next): the trials to run
#pragma once
#include <csignal>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bench/sweep/results/trials.h"
#include "bench/sweep/run/runner.h"
#include "perfmodel/ask/suggest.h"
#include "perfmodel/fitting/layout_fit.h"
#include "perfmodel/fitting/measured_run.h"

namespace isobar::suggest {

struct FieldOptions {
  std::string results, machine;
  int64_t ranks_per_node = 0;  // 0: all ranks of a trial share a host
  Statistic statistic = kStatistic;
  uint64_t seed = 0;  // of the draws behind suggestions
};

/// True if no trial has a net that a machine could price. Throws ConfigError where some have.
bool are_by_settings(const sweep::Matrix& matrix);

class SweepField {
 public:
  /// Without a machine where no net is described (run.by_settings). Throws ConfigError for a machine of
  /// accelerators, and for devices that the machine file lacks. `matrix` must outlive it.
  SweepField(const sweep::Matrix& matrix, FieldOptions options);
  /// Reads the results directory and fits. Throws ConfigError where the machine file was fitted to these
  /// runs.
  void refresh();
  bool none_can_run() const { return candidates_.empty(); }
  /// The error where no trial was measured and none is left.
  std::string why_nothing() const;
  perf::Outlook look(int64_t count) const;
  /// The trials of suggested specifications: the next repetitions that were not run.
  std::vector<const sweep::Trial*> trials_of(const std::vector<perf::Suggestion>& next) const;
  /// A trial that could not be launched under this command is not suggested to it again.
  void tried(const sweep::Trial& t) { tried_.insert(t.id); }

  const std::string& name(size_t candidate) const { return groups_[shown_[candidate]].trials[0]->name; }
  const sweep::Assignments& axes(size_t candidate) const {
    return groups_[shown_[candidate]].trials[0]->axes;
  }
  const std::vector<perf::Candidate>& candidates() const { return candidates_; }
  const perf::Machine& before() const { return before_; }
  bool by_settings() const { return by_settings_; }  // no net is described: no machine prices the trials
  Statistic statistic() const { return options_.statistic; }
  const std::vector<std::string>& problems() const { return problems_; }
  int64_t measured_trials() const { return measured_; }
  const RunToRun& between() const { return between_; }
  int64_t complete() const { return complete_; }
  int64_t trials() const { return static_cast<int64_t>(matrix_.trials.size()); }

 private:
  struct Group {
    perf::Candidate candidate;
    std::vector<const sweep::Trial*> trials = {};
    std::set<std::string> done = {};  // ids with a final verdict
    bool failed = false;              // one of them is not ok
  };
  bool can_run(const Group& g, const sweep::Trial& t) const;
  void take(const records::RunRecord& run, std::vector<perf::MeasuredRun>& runs);
  void refuse_seen(const std::vector<perf::MeasuredRun>& runs) const;
  void list_candidates();

  const sweep::Matrix& matrix_;
  FieldOptions options_;
  bool by_settings_ = false;
  perf::Machine before_, machine_;
  perf::SettingsFit settings_{std::vector<perf::MeasuredRun>{}};
  perf::LayoutModels models_;
  std::vector<Group> groups_;
  std::map<std::string, size_t> group_of_;   // by trial
  std::vector<perf::Candidate> candidates_;  // can run, or did
  std::vector<size_t> shown_;                // their groups
  std::set<std::string> tried_;
  std::vector<std::string> problems_;
  RunToRun between_;
  int64_t measured_ = 0, failed_ = 0, complete_ = 0;  // trials
};

// Rounds of suggested trials: look ahead, run the suggestions, fit again.

struct RoundOptions {
  int64_t count = 0;       // trials of a round; 0: four
  bool run = false;        // runs one round; without `run` and `bound` nothing runs
  double bound = 0;        // of the expected regret: rounds until it is reached; 0: none
  int64_t max_trials = 0;  // with a bound: stop at this number; 0: none
  const volatile std::sig_atomic_t* stop = nullptr;  // not 0: stop after this round
};

struct RoundsOutcome {
  bool complete =
      true;  // every suggested trial has its verdict, and a bound is reached or all trials were run
  bool reached = false;  // the bound, confirmed by measurements
  double left = 1;       // expected regret
};

/// Runs these trials of the matrix; complete ones are not run again.
using RunPart = std::function<sweep::SweepOutcome(const sweep::Matrix& part)>;

/// `show`: called with each look ahead, before its trials run. `field` is refreshed.
RoundsOutcome suggest_rounds(SweepField& field, const RoundOptions& options, const RunPart& run,
                             const std::function<void(const perf::Outlook&)>& show);

/// "regret<2%" -> 0.02; throws ConfigError for anything else.
double regret_bound(const std::string& until);

}  // namespace isobar::suggest
