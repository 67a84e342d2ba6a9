#include "perfmodel/referee/rehearse.h"

#include <algorithm>
#include <limits>

#include "model/base/rng.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar::perf {
namespace {

constexpr uint64_t kOrderStream = uint64_t{0x72656865} << 32;  // "rehe": a separate random stream

double seconds_per_sample(const Candidate& c) {
  std::vector<double> seconds;
  for (const MeasuredRun& r : c.measured) seconds.push_back(r.step_s);
  return quantile(seconds, 0.5) / static_cast<double>(c.spec.train.global_batch);
}

/// Throughput lost by each candidate against the best: 1 - best / own time, by samples a second.
std::vector<double> true_regrets(const std::vector<Candidate>& finished) {
  std::vector<double> out;
  out.reserve(finished.size());
  for (const Candidate& c : finished) out.push_back(seconds_per_sample(c));
  const double best = out.empty() ? 0 : *std::min_element(out.begin(), out.end());
  for (double& s : out) s = 1 - best / s;
  return out;
}

// A simulated sweep: the runs of the finished one that are revealed so far.
class Stage {
 public:
  Stage(const std::vector<Candidate>& finished, const Machine& machine, const RehearsalOptions& options)
      : finished_(finished), machine_(machine), options_(options), truth_(true_regrets(finished)) {
    for (const Candidate& c : finished) {
      known_.push_back(c);
      known_.back().measured.clear();
      known_.back().trials_left = static_cast<int64_t>(c.measured.size());
    }
  }

  void show(size_t candidate) {
    Candidate& c = known_[candidate];
    const MeasuredRun& r = finished_[candidate].measured[c.measured.size()];
    c.measured.push_back(r);
    --c.trials_left;
    runs_.push_back(r);
  }
  size_t shown() const { return runs_.size(); }

  /// `suggests`: also suggests the next round's trials, which is slow.
  Outlook look(uint64_t seed, bool suggests) const {
    const Machine m = runs_.empty() ? machine_ : fit(runs_, machine_, options_.statistic);
    return look_ahead(known_, m, {.count = suggests ? options_.round : 0, .seed = seed});
  }
  void note(const Outlook& o, Play& play) const {
    play.trials.push_back(shown());
    play.regret.push_back(truth_[o.choice]);
    play.expected.push_back(o.regret);
  }
  /// Without a model: the best measured so far.
  void note_blind(Play& play) const {
    size_t best = truth_.size();
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < known_.size(); ++i)
      if (!known_[i].measured.empty() && seconds_per_sample(known_[i]) < least) {
        least = seconds_per_sample(known_[i]);
        best = i;
      }
    play.trials.push_back(shown());
    play.regret.push_back(best == truth_.size() ? 1 : truth_[best]);
    play.expected.push_back(0);
  }

 private:
  const std::vector<Candidate>& finished_;
  const Machine& machine_;
  const RehearsalOptions& options_;
  std::vector<double> truth_;
  std::vector<Candidate> known_;
  std::vector<MeasuredRun> runs_;
};

}  // namespace

size_t Play::reached(double enough) const {
  for (size_t i = 0; i < regret.size(); ++i)
    if (regret[i] <= enough) return trials[i];
  return trials.empty() ? 1 : trials.back() + 1;
}

size_t Play::kept(double enough) const {
  size_t from = trials.empty() ? 1 : trials.back() + 1;
  for (size_t i = regret.size(); i-- > 0 && regret[i] <= enough;) from = trials[i];
  return from;
}

size_t Play::stop(double bound) const {
  const auto at = std::find_if(expected.begin(), expected.end(), [&](double r) { return r < bound; });
  return at == expected.end() ? expected.size() - 1 : static_cast<size_t>(at - expected.begin());
}

Rehearsal rehearse(const std::vector<Candidate>& all, const Machine& machine,
                   const RehearsalOptions& options) {
  std::vector<Candidate> finished;
  std::vector<size_t> trials;  // the candidate of each measured run
  for (const Candidate& c : all) {
    if (c.measured.empty()) continue;
    trials.insert(trials.end(), c.measured.size(), finished.size());
    finished.push_back(c);
  }
  const size_t most = options.max_trials > 0 ? std::min(options.max_trials, trials.size()) : trials.size();
  Rehearsal out;
  for (int64_t s = 0; s < options.seeds; ++s) {
    const uint64_t seed = options.seed + static_cast<uint64_t>(s);
    const std::vector<int64_t> order = permutation(static_cast<int64_t>(trials.size()), seed, kOrderStream);
    const auto over = [&](const Play& p, const Stage& stage, bool doubts) {
      if (stage.shown() >= most) return true;
      if (options.enough <= 0 || p.kept(options.enough) + options.hold > stage.shown()) return false;
      return !doubts || p.expected[p.stop(options.enough)] < options.enough;
    };
    for (const bool suggests : {true, false}) {
      Stage stage(finished, machine, options);
      Play play, blind;
      for (size_t i = 0; i < std::min(options.first, most); ++i)
        stage.show(trials[static_cast<size_t>(order[i])]);
      while (true) {
        const Outlook o = stage.look(seed, suggests);
        stage.note(o, play);
        if (!suggests) stage.note_blind(blind);
        if (over(play, stage, suggests)) break;
        const size_t until = std::min(stage.shown() + options.round, most);
        if (suggests)
          for (size_t i = 0; i < o.next.size() && stage.shown() < until; ++i) stage.show(o.next[i].candidate);
        else
          while (stage.shown() < until) stage.show(trials[static_cast<size_t>(order[stage.shown()])]);
      }
      if (!suggests) {  // measuring on without fits
        while (!over(blind, stage, false)) {
          stage.show(trials[static_cast<size_t>(order[stage.shown()])]);
          stage.note_blind(blind);
        }
        out.blind.push_back(std::move(blind));
      }
      (suggests ? out.suggested : out.random).push_back(std::move(play));
      if (options.progress) options.progress(2 * s + (suggests ? 1 : 2), 2 * options.seeds);
    }
  }
  return out;
}

}  // namespace isobar::perf
