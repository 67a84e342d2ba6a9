#include "model/base/net_specs/parts/graph.h"

namespace isobar {

void GraphSpec::add_graph_rows(KeyRows& to) {
  to.insert(
      to.end(),
      {{"net.latent_size", latent_size, kNetSize, "Width of nodes and edges."},
       {"net.num_gnn_layers", num_gnn_layers, kNetSize, "Message passing steps, each with its own weights."},
       {"net.mlp_hidden_size", mlp_hidden_size, kNetSize, "Width of each MLP's hidden layers."},
       {"net.mlp_num_hidden_layers", mlp_num_hidden_layers, kNetSize, "Hidden layers of each MLP."},
       {"net.norm_eps", norm_eps, positive("use 1e-5"), "Added to the variance in norms."},
       {"net.partition", partition,
        "Nodes of each layout.cp rank: bands of latitude, or METIS' cut of the graph."}});
}

}  // namespace isobar
