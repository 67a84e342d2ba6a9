// A loss's settings as ops have them. Some weights follow from the data's channels and rows: a plan that is
// made before the data are open learns them later.
//
//   know_loss_weights(plan, with_channel_loss(spec, channels.targets));
#pragma once
#include "model/base/spec/spec.h"
#include "model/plan/plan.h"

namespace isobar::nets {

/// Kind, delta and weights; no image and no weight in the mean. Throws std::logic_error for a loss of
/// classes.
plan::LossAttrs loss_settings(const TrainSpec& train);

/// Gives the plan's losses the weights that `train` knows now.
void know_loss_weights(plan::Plan& plan, const TrainSpec& train);

/// Has the plan's losses be of another kind.
void change_loss(plan::Plan& plan, LossKind kind);

}  // namespace isobar::nets
