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
  ~EngineOn();
  std::string name() const;
  double tuned() const;
  size_t own_runs() const;  // number of them that it was fitted to, besides published runs
  double memory() const;    // bytes that a process can allocate
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
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace isobar::perf
