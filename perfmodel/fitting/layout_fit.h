// Runs on accelerators as the fit sees them: the closed form of layouts is what prices them.
//
//   LayoutModels models;
//   StepView v = view_of(models.of(run.spec, machine), run.spec);   // v.seconds(coefficients)
#pragma once
#include <map>
#include <memory>
#include <string>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/layouts/layout_model.h"

namespace isobar {

/// One model for all layouts of a net on as many ranks; references stay.
class LayoutModels {
 public:
  LayoutModel& of(const RunSpec& spec, const Machine& machine);

 private:
  std::map<std::string, std::unique_ptr<LayoutModel>> known_;
};

/// `model` must stay; its coefficients are changed by every evaluation.
StepView view_of(LayoutModel& model, const RunSpec& spec);
/// The name of the peak that bounds this run's matrix products.
std::string peak_of(const RunSpec& spec);

}  // namespace isobar
