// A layout priced by the closed form, with its interval: predict() on accelerators, and of the candidates of
// a search.
//
//   LayoutModel model(spec, machine);
//   Prediction p = predict_layout(model, layout);
#pragma once
#include <string>

#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/predict.h"

namespace isobar {

/// The model's machine decides what computes: whether the run may is device_of(spec, machine)'s to say.
Prediction predict_layout(LayoutModel& model, const Layout& l, const std::string& campaign = "");

}  // namespace isobar
