// Predicts a layout by the closed form, with an interval: predict() on accelerators, and candidates of a
// search.
//
//   LayoutModel model(spec, machine);
//   Prediction p = predict_layout(model, layout);
#pragma once
#include <string>

#include "perfmodel/ask/predict.h"
#include "perfmodel/layouts/layout_model.h"

namespace isobar::perf {

/// The errors of a layout's step, which predict_layout() keeps where nothing was fitted.
ErrorParts error_parts(LayoutModel& model, const Layout& l);

/// The model's machine decides what computes; device_of(spec, machine) checks that the run may.
Prediction predict_layout(LayoutModel& model, const Layout& l, const std::string& campaign = "");

}  // namespace isobar::perf
