// The regional rain net (RegionalGnnSpec): GraphCast's scheme on two regions of a grid.
//
//   embed    fields [B,C,H,W] -> both regions' points -> MLP -> down [B n_d, D], up [B n_u, D]; edge
//   features,
//            constants, -> MLP -> intra, boundary [B edges, D], the same of every sample
//   step     × num_gnn_layers, each with its own weights (message_passing.h)
//   head     down -> MLP -> prediction [B n_d, C'] -> loss, and RMSE of each channel, over the downstream
//   points
//
// Streams are in f32. The prediction is a line of n_d points to those who look at it.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "model/nets/legal_layout.h"
#include "model/nets/net.h"

namespace isobar {

std::unique_ptr<Net> make_net(const RegionalGnnSpec& n, Emission& e, const Sharding& at);
std::vector<Part> parts_of(const RegionalGnnSpec& n);
RegionalGnnSpec distinct_parts(RegionalGnnSpec n);
NetLimits limits_of(const RegionalGnnSpec& n);

/// Of a net that predicts for a part of its grid: that part. Its prediction is a line of those points.
std::optional<GridBox> predicted_region(const NetSpec& net);

}  // namespace isobar
