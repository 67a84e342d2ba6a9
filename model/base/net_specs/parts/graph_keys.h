// Keys that all graph networks have.
#pragma once
#include "model/base/net_specs/net_answers.h"

namespace isobar {

template <class Net>
void add_graph_rows(KeyRows& to, Net& n) {
  to.insert(to.end(),
            {{"net.latent_size", n.latent_size, kNetSize, "Width of nodes and edges."},
             {"net.num_gnn_layers", n.num_gnn_layers, kNetSize,
              "Message passing steps, each with its own weights."},
             {"net.mlp_hidden_size", n.mlp_hidden_size, kNetSize, "Width of each MLP's hidden layers."},
             {"net.mlp_num_hidden_layers", n.mlp_num_hidden_layers, kNetSize, "Hidden layers of each MLP."},
             {"net.norm_eps", n.norm_eps, positive("use 1e-5"), "Added to the variance in norms."},
             {"net.partition", n.partition,
              "Nodes of each layout.cp rank: bands of latitude, or METIS' cut of the graph."}});
}

}  // namespace isobar
