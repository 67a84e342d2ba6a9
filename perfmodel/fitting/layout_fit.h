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

/// Engines and clusters of one kind of accelerator differ: a group of runs like any other (effects_of), where
/// a fit has several.
std::string campaign_effect(const std::string& campaign);
/// `model` must stay; its coefficients are changed by every evaluation.
StepView view_of(LayoutModel& model, const RunSpec& spec);

}  // namespace isobar
