// TensorBoard curves of a run's records, while it runs and exported: the tags of the NERSC example, so that
// its runs and ours are in one plot. By optimizer step:
//
//   every step: Loss/train, RMSE(u10m)/train, Learning Rate, Avg iters per sec, Avg samples per sec,
//     Gradient norm
//   every validation: Loss/valid, RMSE(u10m)/valid of every channel; MAE(name) of scalars, Accuracy of
//   classes with validations, checkpoints and the last step: Rank compute (ms)/least, …/most, Rank memory
//   (MB)/most;
//     Power (W), Energy per sample (J) where they are metered
//
//   const RunCurves curves(spec, {"u10m", "v10m"});
//   for (const CurvePoint& p : curves.of(step)) events.add(now, step.step, p.tag, p.value);
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/records/records.h"

namespace isobar::records {

struct CurvePoint {
  std::string tag;
  double value;
};

class RunCurves {
 public:
  /// `channels`: what is predicted, in order; those without a name are numbered.
  RunCurves(const RunSpec& spec, std::vector<std::string> channels)
      : batch_(spec.train.global_batch), channels_(std::move(channels)) {}

  std::vector<CurvePoint> of(const StepRecord& s) const;
  std::vector<CurvePoint> of(const ValidRecord& v) const;
  std::vector<CurvePoint> of(const RanksRecord& r) const;
  std::string channel(size_t i) const;

 private:
  std::string of(const char* what, size_t i, const char* part) const;
  int64_t batch_;
  std::vector<std::string> channels_;
};

/// The channel drawn as "Visualization, …": the temperature at 2 m, as in that example, else the first.
size_t pictured_channel(const std::vector<std::string>& channels);

/// For TensorBoard's table of hyperparameters: settings that differ from their defaults, without files and
/// folders, as an object.
nlohmann::json hyperparameters(const RunSpec& spec);

}  // namespace isobar::records
