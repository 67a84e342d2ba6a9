#include "bench/sweep/results/repeats.h"

#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace isobar::sweep {
namespace {

void append(SweepOutcome& all, SweepOutcome more) {
  all.runs.insert(all.runs.end(), std::make_move_iterator(more.runs.begin()),
                  std::make_move_iterator(more.runs.end()));
  all.problems = std::move(more.problems);  // the whole directory was read again
  all.started += more.started;
  all.reused += more.reused;
  all.adopted += more.adopted;
  all.interrupted = more.interrupted;
  if (more.used) all.used = more.used;
}

/// Repeats that are due and not yet in `m`.
std::vector<Trial> wanted_repeats(const Matrix& m, const std::vector<records::RunRecord>& runs,
                                  int64_t most) {
  std::map<std::string, const records::RunRecord*> by_id;
  for (const records::RunRecord& r : runs) by_id[r.id] = &r;
  std::set<std::string> there;
  for (const Trial& t : m.trials) there.insert(t.id);
  std::vector<Trial> out;
  for (const Trial& t : m.trials) {
    if (!t.repeats.empty()) continue;
    auto last = by_id.find(t.id);
    for (int64_t n = 1; n <= most && last != by_id.end() && last->second->contention.marked(); ++n) {
      Trial again = t;
      again.id = trial_id(t.spec, t.repetition, n);
      again.repeats = t.id;
      again.name = t.name + " again";
      again.baseline = false;
      last = by_id.find(again.id);
      if (!there.contains(again.id)) out.push_back(std::move(again));
    }
  }
  return out;
}

}  // namespace

SweepOutcome run_with_repeats(Matrix& whole, const Matrix& part, const SweepSpec& sweep,
                              const std::function<SweepOutcome(const Matrix& m)>& run) {
  SweepOutcome all = run(part);
  std::vector<Trial> done = part.trials;
  while (!all.interrupted && all.complete()) {
    Matrix known, more;
    known.trials = done;
    more.trials = wanted_repeats(known, all.runs, sweep.repeat_contended);
    if (more.trials.empty()) break;
    done.insert(done.end(), more.trials.begin(), more.trials.end());
    std::set<std::string> listed;
    for (const Trial& t : whole.trials) listed.insert(t.id);
    for (const Trial& t : more.trials)
      if (!listed.contains(t.id)) whole.trials.push_back(t);
    name_trials(whole.trials);
    append(all, run(more));
  }
  return all;
}

}  // namespace isobar::sweep
