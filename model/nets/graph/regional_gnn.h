// The regional rain net (RegionalGnnSpec): GraphCast's scheme on two regions of a grid.
//
//   embed    fields [B,C,H,W] -> both regions' points -> MLP -> down [B n_d, D], up [B n_u, D]; constant
//            edge features -> MLP -> intra, boundary [B edges, D], equal for every sample
//   step     × num_gnn_layers, each with its own weights (message_passing.h)
//   head     down -> MLP -> prediction [B n_d, C'] -> loss, and RMSE of each channel, at downstream points
//
// Streams are in f32. The prediction is a line of n_d points.
#pragma once
#include <optional>

#include "model/base/spec/net_spec.h"

namespace isobar::nets {

/// The part of its grid that a net predicts, if it predicts a part; the prediction is a line of those points.
std::optional<GridBox> predicted_region(const NetSpec& net);

}  // namespace isobar::nets
