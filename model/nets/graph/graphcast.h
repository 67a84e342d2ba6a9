// GraphCast (GraphcastSpec): from a grid of the globe to a mesh, many steps there, and back.
//
//   embed    fields [B,C,H,W] with the points' places as three more -> MLP -> grid [B n_g, D];
//            mesh nodes' places, with zeros for fields, -> MLP -> mesh [B n_m, D]
//   encode   grid to mesh edges' features -> MLP; one step of messages along them; then the mesh's own edges'
//            features -> MLP -> edges [B n_e, D]
//   step     × num_gnn_layers: edges, mesh -> edges, mesh, each with its own weights
//   decode   mesh to grid edges' features -> MLP; one step of messages along them
//   head     grid -> MLP -> prediction [B n_g, C'] -> loss, and RMSE of each channel
//
// Streams are in f32. The grid's bypasses the steps, from encode to decode. Nodes that receive nothing have
// their own MLP: the grid's in encode, and the mesh's in decode. The source counts the latter among its
// parameters though its result is unused: its gradients are zero.
#pragma once
#include <memory>
#include <vector>

#include "model/nets/layout/legal_layout.h"
#include "model/nets/net.h"

namespace isobar::nets {

std::unique_ptr<Net> make_net(const GraphcastSpec& n, Emission& e, const Sharding& at);
std::vector<plan::Part> parts_of(const GraphcastSpec& n);
GraphcastSpec distinct_parts(GraphcastSpec n);
NetLimits limits_of(const GraphcastSpec& n);

}  // namespace isobar::nets
