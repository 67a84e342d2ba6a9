// Another engine on a machine: its step and memory for one layout, or for those that a search finds.
//
//   const EngineOn nemo(spec, machine, {"nemo"});      // its coefficients are fitted here, once
//   EngineLayout one = nemo.own(spec);                 // one.answer.step.value, one.fits
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/question.h"
#include "perfmodel/ask/ties.h"
#include "perfmodel/machine/device.h"
#include "perfmodel/score/engine_model.h"

namespace isobar::perf {

struct EngineLayout {
  RunSpec spec;
  EngineAnswer answer;
  double fits = 1;  // chance that it fits into memory
  double score() const { return answer.step.value / fits; }
};

class EngineOn {
 public:
  /// Throws ConfigError for an unknown engine, and for cores. The device comes from `spec`.
  EngineOn(const RunSpec& spec, const Machine& machine, const EngineQuestion& q);
  std::string name() const { return engine_ ? engine_->name : "unknown"; }
  double tuned() const { return model_.tuned().mean; }
  /// Runs that it was fitted to, besides published ones
  size_t own_runs() const { return model_.own_runs().size(); }
  double memory() const { return chip_.memory_bytes; }  // that a process can allocate
  /// "for nemo: coefficients fitted to 31 published runs of it and …", a line or two.
  std::string origin() const;
  /// The spec's own layout, with the largest micro-batch that fits where it gives none.
  EngineLayout own(RunSpec spec) const;
  /// The layouts of a search for Isobar's own engine, ranked for this one: least score first, one for each
  /// (dp, tp, cp, ep, pp). Throws DoesNotFit.
  std::vector<EngineLayout> best(const RunSpec& spec, const LayoutQuestion& q, SearchResult& found) const;
  /// The fastest layout that fits with one key changed, else with twice, four times … the accelerators. none:
  /// nothing of that fits.
  struct Change {
    std::vector<std::string> set;  // key=value
    EngineLayout layout;
  };
  std::optional<Change> smallest_change(const RunSpec& spec) const;
  /// The layouts among which the fastest is with 80 %, likeliest first; runs of the first two decide most.
  Ties ties(const std::vector<EngineLayout>& layouts) const;

 private:
  EngineAnswer answer(const RunSpec& spec) const;
  EngineLayout layout(const RunSpec& spec) const;
  bool fits(const EngineLayout& l) const { return l.answer.memory.value <= chip_.memory_bytes; }
  /// With activations of the fewest layers in host memory that make it fit, 0 or more; nullopt: none do.
  std::optional<EngineLayout> offloaded(RunSpec spec) const;
  SearchResult searched(const RunSpec& spec, const Machine& on, SearchSpace space, size_t variants,
                        bool progress) const;
  /// With activations in host memory, of engines that have that, unless the number of layers is given
  std::vector<EngineLayout> offloading(const RunSpec& spec, const SearchSpace& space,
                                       int64_t& considered) const;

  const ForeignEngine* engine_;  // nullptr: unknown
  EngineModel model_;
  ChipSpec chip_;
  const Machine& machine_;
  std::string fit_, why_;
  mutable std::shared_ptr<SectionCache> sections_;  // of the net, from one search to the next
};

}  // namespace isobar::perf
