// Steps of runs for the fit, for intervals and for suggestions, priced by the closed form of layouts.
//
//   LayoutModels models;
//   StepView v = models.view(run.spec, machine, run.host);   // v.seconds(coefficients)
#pragma once
#include <map>
#include <memory>
#include <string>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/layouts/layout_model.h"

namespace isobar::perf {

/// One model for all layouts of a net on the same number of ranks; references and views stay valid as long
/// as this does.
class LayoutModels {
 public:
  LayoutModel& of(const RunSpec& spec, const Machine& machine, const HostShare& host = {});
  StepView view(const RunSpec& spec, const Machine& machine, const HostShare& host);

 private:
  std::map<std::string, std::unique_ptr<LayoutModel>> known_;
};

/// The effect of a campaign (engine and cluster), a group like any other (effects_of), if a fit has several.
std::string campaign_effect(const std::string& campaign);
/// `model` must outlive the view; every evaluation changes its coefficients.
StepView view_of(LayoutModel& model, const RunSpec& spec);

}  // namespace isobar::perf
