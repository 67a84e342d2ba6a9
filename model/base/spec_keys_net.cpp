// Keys of nets: one row a key, or one for each group of kinds in which it means something else.
#include "model/base/spec_keys.h"

namespace isobar {
namespace {

constexpr const char* kNetSize = "[1, 131072]";

constexpr KeyRow kNetKeys[] = {
    {"net.kind", "", "vit | gpt | llama | unet | mlp | regional-gnn | aurora | graphcast", "The net."},
    // vit, unet, gpt, llama
    {"net.embed_dim", "vit gpt llama", kNetSize, "Width of a token."},
    {"net.embed_dim", "unet", kNetSize, "Width on the fine grid; the coarse grid has twice as much."},
    {"net.embed_dim", "aurora", kNetSize, "Width at the finest resolution, doubled at each coarser one."},
    {"net.depth", "", kNetSize, "Transformer blocks."},
    {"net.encoder_depth", "", kNetSize, "Blocks on the fine grid before the coarse one."},
    {"net.bottleneck_depth", "", kNetSize, "Blocks on the coarse grid."},
    {"net.decoder_depth", "", kNetSize, "Blocks on the fine grid after the coarse one."},
    {"net.num_heads", "vit gpt llama", kNetSize, "Attention heads."},
    {"net.num_heads", "unet", kNetSize,
     "Attention heads on the fine grid; the coarse grid has twice as many."},
    {"net.num_heads", "aurora", kNetSize, "Attention heads of the Perceivers."},
    {"net.num_kv_heads", "", "[0, 16777216]",
     "Heads of keys and values (grouped-query attention); 0: num_heads."},
    {"net.mlp_ratio", "vit unet gpt llama", kNetSize, "Hidden width of a block's MLP over embed_dim."},
    {"net.mlp_ratio", "aurora", kNetSize, "Hidden width over width in the MLPs of backbone and encoder."},
    {"net.ffn_dim", "", "[0, 16777216]", "Hidden width of a block's MLP; 0: mlp_ratio times embed_dim."},
    {"net.patch_size", "", kNetSize, "Rows and columns of a square patch."},
    {"net.gelu", "", "erf | tanh", "Exact GELU, or its tanh approximation."},
    {"net.norm_eps", "", "> 0", "Added to the variance in norms."},
    {"net.seq_length", "", "[1, 16777216]", "Tokens of a sample."},
    {"net.vocab_size", "", "[1, 16777216]", "Words; tables are padded to a multiple of 128 times layout.tp."},
    {"net.tie_embeddings", "", "", "The head shares the embedding's weight."},
    {"net.rope_theta", "", "> 0", "Base of the angles of rotary position embedding."},
    {"net.rope_scaling_factor", "", "[1, 1024]",
     "Stretches long wavelengths of the rotary angles for longer contexts, as Llama 3.1 does (8)."},
    {"net.rope_original_length", "", "[1, 16777216]",
     "Tokens of the contexts before that; wavelengths below a quarter of it stay."},
    {"net.dropout", "gpt llama", "[0, 1)",
     "Dropout of the embedding, of attention's and the MLP's results and, if policy.attention is unfused, of "
     "attention weights; drawn independently of the layout."},
    {"net.dropout", "mlp", "[0, 1)",
     "Dropout of each hidden layer's results, drawn independently of the layout."},
    // fields on a grid
    {"net.img_height", "vit unet regional-gnn aurora", kNetSize, "Rows of the grid (latitudes)."},
    {"net.img_height", "graphcast", "[2, 131072]", "Rows of the grid from pole to pole, both included."},
    {"net.img_width", "", kNetSize, "Columns of the grid (longitudes)."},
    {"net.in_channels", "vit unet regional-gnn graphcast", kNetSize,
     "Channels read: fields, static fields and forcings, times data.history."},
    {"net.in_channels", "aurora", kNetSize,
     "Channels read: history steps of surface and upper-air fields, then static fields once."},
    {"net.out_channels", "", kNetSize, "Channels predicted."},
    {"net.north", "", "[-90, 90]", "Latitude of the grid's first row, degrees."},
    {"net.west", "regional-gnn", "[-360, 360]", "Longitude of the grid's first column, degrees."},
    {"net.west", "aurora", "[0, 360)",
     "Longitude of the grid's first column, degrees; the grid may cross 0 E."},
    {"net.spacing", "", "[0.0001, 90]", "Step of the grid, degrees."},
    // aurora
    {"net.surf_vars", "", "", "Surface fields, in channel order."},
    {"net.static_vars", "", "", "Static fields, last among the input channels."},
    {"net.atmos_vars", "", "", "Upper-air variables; each has all levels."},
    {"net.levels", "", "", "Pressure levels, hPa."},
    {"net.history", "", kNetSize, "Time steps read, oldest first."},
    {"net.lead_time", "", "(0, 504]", "Hours from the last step read to the predicted one."},
    {"net.latent_levels", "", ">= 2",
     "Latent levels; one is the surface's. A multiple of the window's levels."},
    {"net.encoder_depths", "", "", "Blocks by resolution, finest first; 2 to 8 resolutions."},
    {"net.encoder_num_heads", "", "", "Heads by resolution, finest first; the decoder reverses them."},
    {"net.decoder_depths", "", "", "Blocks by resolution, coarsest first."},
    {"net.window", "", "", "Attention window: latent levels, patch rows, patch columns."},
    {"net.dec_mlp_ratio", "", kNetSize, "Hidden width over width in the decoder's MLPs."},
    {"net.drop_path", "", "[0, 1)",
     "Stochastic depth: probability in the last block, growing from 0 in the first; drawn independently of "
     "the layout."},
    {"net.fp32_ends", "", "",
     "Encoder and decoder stay in fp32 when policy.amp is bf16, as in microsoft-aurora."},
    {"net.placement", "", "balanced | halves",
     "Pipeline cut: by counted work, or encoder, two backbone halves and decoder on four stages."},
    // graph networks
    {"net.downstream", "", "", "Predicted region: south, north, west, east in degrees."},
    {"net.upstream", "", "",
     "Region that sends to it, in the same order; only nodes with edges are computed."},
    {"net.neighbors", "", kNetSize, "Edges into each downstream node from its nearest downstream nodes."},
    {"net.boundary_longitude", "", "",
     "Downstream nodes up to this longitude receive edges from upstream nodes."},
    {"net.boundary_neighbors", "", kNetSize,
     "Edges into each boundary node from its nearest upstream nodes."},
    {"net.mesh_level", "", "[0, 9]", "Splits of the icosahedron: 10 * 4^level + 2 mesh nodes."},
    {"net.radius", "", "(0, 2]", "Reach of a mesh node on the grid, in longest edges of the finest level."},
    {"net.latent_size", "", kNetSize, "Width of nodes and edges."},
    {"net.num_gnn_layers", "", kNetSize, "Message passing steps, each with its own weights."},
    {"net.mlp_hidden_size", "", kNetSize, "Width of each MLP's hidden layers."},
    {"net.mlp_num_hidden_layers", "", kNetSize, "Hidden layers of each MLP."},
    {"net.partition", "", "bands | metis",
     "Nodes of each layout.cp rank: bands of latitude, or METIS' cut of the graph."},
    // mlp
    {"net.in_features", "", kNetSize, "Numbers read."},
    {"net.out_features", "", kNetSize, "Numbers predicted, or classes with train.loss cross_entropy."},
    {"net.hidden", "", "", "Widths of the hidden layers, 1 to 1024 of them."},
    {"net.activation", "", "gelu | gelu_tanh | relu | silu | tanh", "Activation after each hidden layer."},
};

}  // namespace

std::span<const KeyRow> net_key_rows() {
  return kNetKeys;
}

}  // namespace isobar
