// Keys of graph networks.
#pragma once
#include "model/base/net_specs/images.h"

namespace isobar {

struct GraphSpec : Images {
  static constexpr const char* kDepthKey = "net.num_gnn_layers";
  static constexpr bool kHasEdges = true;
  int64_t latent_size;     // of nodes and edges
  int64_t num_gnn_layers;  // message passing steps, each with its own weights
  int64_t mlp_hidden_size, mlp_num_hidden_layers;
  double norm_eps = 1e-5;
  GraphPartition partition = GraphPartition::bands;  // bands: grid and mesh are cut evenly each
  int64_t width() const { return latent_size; }
  int64_t heads() const { return 1; }
  int64_t blocks() const { return num_gnn_layers; }
  void add_graph_rows(KeyRows& to);
};

}  // namespace isobar
