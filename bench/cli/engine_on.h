// Another's engine on a machine: what it makes of a layout, and of the layouts that a search finds.
//
//   const EngineOn nemo(spec, machine, {"nemo"});      // its coefficients are learnt here, once
//   EngineLayout one = nemo.own(spec);                 // one.answer.step.value, one.fits
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/cli/predict_layouts.h"
#include "perfmodel/score/engine_model.h"
#include "perfmodel/ties.h"

namespace isobar {

struct EngineQuestion {
  std::string engine;           // a file of configs/engines, or unknown
  std::optional<double> tuned;  // 0 … 1; none: the engine's usual
  std::string fit{};            // of own runs (isobar fit --engine); "": none
};

/// As the fit says: its engine, and how tuned it is. Throws ConfigError where --engine says another.
void take_fit(const Machine& machine, EngineQuestion& engine);

struct EngineLayout {
  RunSpec spec;
  EngineAnswer answer;
  double fits = 1;  // the chance that its memory does
  double score() const { return answer.step.value / fits; }
};

class EngineOn {
 public:
  /// Throws ConfigError for an engine that nobody knows, and for cores. `spec` says what computes.
  EngineOn(const RunSpec& spec, const Machine& machine, const EngineQuestion& q);
  ~EngineOn();
  std::string name() const;
  double tuned() const;
  size_t own_runs() const;  // that it learnt from, besides published ones
  double memory() const;    // bytes that a process can allocate
  void print_origin() const;
  /// The run, with the largest micro-batch that fits where it gives none.
  EngineLayout own(RunSpec spec) const;
  /// What it makes of a search for Isobar's own engine: least score first, one for each (dp, tp, cp, pp).
  /// Throws DoesNotFit.
  std::vector<EngineLayout> best(const RunSpec& spec, const LayoutQuestion& q, SearchResult& found) const;
  /// The fastest of those that fit with one key changed; where none does, on twice, four times … as many
  /// accelerators. none: nothing of that fits.
  struct Change {
    std::vector<std::string> set;  // key=value
    EngineLayout layout;
  };
  std::optional<Change> smallest_change(const RunSpec& spec) const;
  /// Of these, which are the fastest with 80 %, likeliest first; the two likeliest would tell most.
  Ties ties(const std::vector<EngineLayout>& layouts) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace isobar
