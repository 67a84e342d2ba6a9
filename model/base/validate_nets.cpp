// Checks of a net's keys: each for itself, and their combinations.
#include <cmath>
#include <numeric>
#include <tuple>

#include "model/base/activation.h"
#include "model/base/validate_parts.h"

namespace isobar {
namespace {

// ---- a net's own keys, each for itself ----

void validate_images(const Images& n, const SpecCheck& check) {
  at_least_one({{n.img_height, "net.img_height"},
                {n.img_width, "net.img_width"},
                {n.in_channels, "net.in_channels"},
                {n.out_channels, "net.out_channels"}},
               check);
}

template <class Net>  // with the keys that all blocks have
void validate_blocks(const Net& n, const SpecCheck& check) {
  at_least_one(
      {{n.embed_dim, "net.embed_dim"}, {n.num_heads, "net.num_heads"}, {n.mlp_ratio, "net.mlp_ratio"}},
      check);
  check.in_floats(n.norm_eps, "net.norm_eps", "use 1e-6");
  if constexpr (requires { n.gelu; }) check.one_of(n.gelu, {"erf", "tanh"}, "net.gelu");
}

void validate_net(const VitSpec& n, const SpecCheck& check) {
  validate_blocks(n, check);
  at_least_one({{n.depth, "net.depth"}, {n.patch_size, "net.patch_size"}}, check);
  validate_images(n, check);
}

void validate_net(const UnetSpec& n, const SpecCheck& check) {
  validate_blocks(n, check);
  at_least_one({{n.encoder_depth, "net.encoder_depth"},
                {n.bottleneck_depth, "net.bottleneck_depth"},
                {n.decoder_depth, "net.decoder_depth"},
                {n.patch_size, "net.patch_size"}},
               check);
  validate_images(n, check);
}

template <class Net>
requires std::is_base_of_v<WordsSpec, Net>
void validate_net(const Net& n, const SpecCheck& check) {
  validate_blocks(n, check);
  at_least_one({{n.depth, "net.depth"}}, check);
  for (auto [value, low, key] : {std::tuple{n.seq_length, int64_t{1}, "net.seq_length"},
                                 {n.vocab_size, int64_t{1}, "net.vocab_size"},
                                 {n.num_kv_heads, int64_t{0}, "net.num_kv_heads"},
                                 {n.ffn_dim, int64_t{0}, "net.ffn_dim"}}) {
    check.at_least(value, low, key);
    check.at_most(value, 1 << 24, key);
  }
  check.that(n.dropout >= 0 && n.dropout < 1, "net.dropout", "is not in [0, 1)", "e.g. 0.1");
  if constexpr (requires { n.rope_theta; }) {
    check.that(n.rope_theta > 0 && std::isfinite(n.rope_theta), "net.rope_theta", "is not above 0",
               "e.g. 10000");
    check.that(n.rope_scaling_factor >= 1 && n.rope_scaling_factor <= 1024, "net.rope_scaling_factor",
               "is not in [1, 1024]", "1 scales nothing; Llama 3.1 has 8");
    check.at_least(n.rope_original_length, 1, "net.rope_original_length");
    check.that(n.embed_dim / n.num_heads % 2 == 0, "net.num_heads",
               "gives heads of an odd width, and rotary positions turn pairs",
               "make net.embed_dim / net.num_heads even");
  }
}

void validate_net(const MlpSpec& n, const SpecCheck& check) {
  at_least_one({{n.in_features, "net.in_features"}, {n.out_features, "net.out_features"}}, check);
  check.that(!n.hidden.empty(), "net.hidden", "names no hidden layer", "give a width or more, e.g. [64, 64]");
  check.that(n.blocks() <= 1024, "net.hidden", "has " + std::to_string(n.blocks()) + " widths, above 1024",
             "give fewer");
  for (const int64_t width : n.hidden) at_least_one({{width, "net.hidden"}}, check);
  check.one_of(n.activation, activation_names(), "net.activation");
  check.that(n.dropout >= 0 && n.dropout < 1, "net.dropout", "is not in [0, 1)", "e.g. 0.2");
}

void validate_net(const RegionalGnnSpec& n, const SpecCheck& check) {
  validate_images(n, check);
  at_least_one({{n.neighbors, "net.neighbors"},
                {n.boundary_neighbors, "net.boundary_neighbors"},
                {n.latent_size, "net.latent_size"},
                {n.num_gnn_layers, "net.num_gnn_layers"},
                {n.mlp_hidden_size, "net.mlp_hidden_size"},
                {n.mlp_num_hidden_layers, "net.mlp_num_hidden_layers"}},
               check);
  check.in_floats(n.norm_eps, "net.norm_eps", "use 1e-5");
  check.one_of(n.partition, {"bands", "metis"}, "net.partition");
  check.that(n.spacing >= 1e-4 && n.spacing <= 90, "net.spacing", "is not in [0.0001, 90]",
             "give the grid's step in degrees, e.g. 0.25");
  check.that(std::abs(n.north) <= 90, "net.north", "is not in [-90, 90]",
             "give the latitude of the grid's first row in degrees");
  check.that(std::abs(n.west) <= 360, "net.west", "is not in [-360, 360]",
             "give the longitude of the grid's first column in degrees");
}

void validate_net(const AuroraSpec& n, const SpecCheck& check) {
  validate_images(n, check);
  at_least_one({{n.history, "net.history"},
                {n.patch_size, "net.patch_size"},
                {n.embed_dim, "net.embed_dim"},
                {n.num_heads, "net.num_heads"},
                {n.mlp_ratio, "net.mlp_ratio"},
                {n.dec_mlp_ratio, "net.dec_mlp_ratio"}},
               check);
  for (const auto& [list, key] :
       {std::pair<const std::vector<int64_t>*, const char*>{&n.levels, "net.levels"},
        {&n.encoder_depths, "net.encoder_depths"},
        {&n.encoder_num_heads, "net.encoder_num_heads"},
        {&n.decoder_depths, "net.decoder_depths"},
        {&n.window, "net.window"}})
    for (const int64_t value : *list) at_least_one({{value, key}}, check);
  for (const auto& [names, key] :
       {std::pair<const std::vector<std::string>*, const char*>{&n.surf_vars, "net.surf_vars"},
        {&n.atmos_vars, "net.atmos_vars"}})
    check.that(!names->empty(), key, "names no variable", "name one or more");
  check.that(!n.levels.empty(), "net.levels", "has no pressure level", "give them in hPa");
  check.that(n.latent_levels >= 2, "net.latent_levels", "is below 2",
             "one is the surface's: give at least 2");
  check.at_most(n.latent_levels, 1024, "net.latent_levels");
  check.that(n.window.size() == 3, "net.window", "has " + std::to_string(n.window.size()) + " sizes",
             "give latent levels, patches down and across, e.g. [2, 6, 12]");
  check.that(n.encoder_depths.size() >= 2 && n.encoder_depths.size() <= 8, "net.encoder_depths",
             "has " + std::to_string(n.encoder_depths.size()) + " resolutions", "give 2 to 8");
  check.in_floats(n.norm_eps, "net.norm_eps", "use 1e-5");
  check.one_of(n.placement, {"balanced", "halves"}, "net.placement");
  check.that(n.drop_path >= 0 && n.drop_path < 1, "net.drop_path", "is not in [0, 1)", "e.g. 0.2");
  check.that(n.lead_time > 0 && n.lead_time <= 504, "net.lead_time", "is not in (0, 504] hours", "e.g. 6");
  check.that(n.spacing >= 1e-4 && n.spacing <= 90, "net.spacing", "is not in [0.0001, 90]",
             "give the grid's step in degrees, e.g. 0.25");
  check.that(std::abs(n.north) <= 90, "net.north", "is not in [-90, 90]",
             "give the latitude of the grid's first row in degrees");
  check.that(n.west >= 0 && n.west < 360, "net.west", "is not in [0, 360)",
             "give the longitude of the grid's first column in degrees");
}

void validate_net(const GraphcastSpec& n, const SpecCheck& check) {
  validate_images(n, check);
  at_least_one({{n.latent_size, "net.latent_size"},
                {n.num_gnn_layers, "net.num_gnn_layers"},
                {n.mlp_hidden_size, "net.mlp_hidden_size"},
                {n.mlp_num_hidden_layers, "net.mlp_num_hidden_layers"}},
               check);
  check.that(n.img_height >= 2, "net.img_height", "has fewer rows than there are poles",
             "give the rows from pole to pole, both included, e.g. 721");
  check.that(n.mesh_level >= 0 && n.mesh_level <= 9, "net.mesh_level", "is not in [0, 9]",
             "give how often the icosahedron is split, e.g. 6");
  check.that(n.radius > 0 && n.radius <= 2, "net.radius", "is not in (0, 2]",
             "give a part of the mesh's longest edge, e.g. 0.6");
  check.in_floats(n.norm_eps, "net.norm_eps", "use 1e-5");
  check.one_of(n.partition, {"bands", "metis"}, "net.partition");
}

// ---- … and together ----

void validate_together(const AuroraSpec& n, const SpecCheck& check) {
  const auto same = [&](const std::vector<int64_t>& list, const char* key) {
    check.that(list.size() == n.encoder_depths.size(), key,
               "has " + std::to_string(list.size()) + " numbers, and net.encoder_depths " +
                   std::to_string(n.encoder_depths.size()),
               "give one a resolution");
  };
  same(n.encoder_num_heads, "net.encoder_num_heads");
  same(n.decoder_depths, "net.decoder_depths");
  check.that(
      n.drop_path == 0 || std::accumulate(n.encoder_depths.begin(), n.encoder_depths.end(), int64_t{0}) ==
                              std::accumulate(n.decoder_depths.begin(), n.decoder_depths.end(), int64_t{0}),
      "net.drop_path", "grows from block to block alike in encoder and decoder, which have not as many",
      "give as many blocks in net.decoder_depths, or leave it out");
  check.that(!n.fp32_ends || check.s.policy.amp != "fp16", "net.fp32_ends",
             "is for policy.amp bf16: fp16's loss is scaled where the decoder's type says so",
             "set policy.amp: bf16, or leave it out");
  check.that(
      n.img_height % n.patch_size == 0 && n.img_width % n.patch_size == 0, "net.patch_size",
      "does not divide the grid of " + std::to_string(n.img_height) + " x " + std::to_string(n.img_width),
      "crop the grid (net.img_height; the published model drops the southern row)");
  check.that(n.latent_levels % n.window[0] == 0, "net.latent_levels",
             "is no multiple of " + std::to_string(n.window[0]) + ", a window's levels (net.window)",
             "give a multiple");
  check.that(n.embed_dim % 4 == 0 && n.embed_dim % n.num_heads == 0, "net.embed_dim",
             "is not divided by 4 and by net.num_heads", "e.g. 256 with 8 heads");
  for (size_t i = 0; i < n.encoder_num_heads.size(); ++i)
    check.that((n.embed_dim << i) % n.encoder_num_heads[i] == 0, "net.encoder_num_heads",
               "does not divide the width " + std::to_string(n.embed_dim << i) + " of its resolution",
               "double the heads with the width, e.g. [4, 8, 16]");
  check.that(n.north - n.spacing * static_cast<double>(n.img_height - 1) >= -90 - 1e-6 * n.spacing,
             "net.img_height", "has rows beyond the pole", "give fewer, or a smaller net.spacing");
  check.that(n.spacing * static_cast<double>(n.img_width - 1) < 360, "net.img_width",
             "goes round the earth more than once", "give fewer columns");
  const int64_t in = n.history * n.fields() + n.static_fields();
  check.that(
      n.in_channels == in, "net.in_channels",
      "is " + std::to_string(n.in_channels) + ", and the variables come to " + std::to_string(in) +
          " (net.history steps of surface fields and of each upper-air one's levels, then static ones)",
      "give that");
  check.that(
      n.out_channels == n.fields(), "net.out_channels",
      "is " + std::to_string(n.out_channels) + ", and a step has " + std::to_string(n.fields()) + " fields",
      "give that");
  check.that(n.history * n.tokens() * n.embed_dim < (int64_t{1} << 40), "net.img_height",
             "and the other sizes come to more than can be counted", "make the grid smaller");
}

// Both regions must lie on the grid, with enough nodes for the neighbours that are asked for.
void validate_together(const RegionalGnnSpec& n, const SpecCheck& check) {
  const double south = n.north - n.spacing * static_cast<double>(n.img_height - 1),
               east = n.west + n.spacing * static_cast<double>(n.img_width - 1), slack = 1e-6 * n.spacing;
  check.that(south >= -90 - slack, "net.img_height",
             "has rows beyond the pole: from net.north they go down to " + std::to_string(south),
             "give fewer, or a smaller net.spacing");
  check.that(east - n.west < 360, "net.img_width", "goes round the earth more than once",
             "give fewer columns, or a smaller net.spacing");
  char grid[128];
  std::snprintf(grid, sizeof grid, "the grid, which has latitudes %g to %g and longitudes %g to %g", south,
                n.north, n.west, east);
  for (const auto& [region, key] :
       {std::pair<const std::vector<double>&, const char*>{n.downstream, "net.downstream"},
        {n.upstream, "net.upstream"}}) {
    check.that(region.size() == 4, key, "has " + std::to_string(region.size()) + " numbers",
               "give south, north, west and east in degrees");
    check.that(region[0] <= region[1] && region[2] <= region[3], key, "ends before it begins",
               "give south, north, west and east in degrees, in this order");
    check.that(region[0] >= south - slack && region[1] <= n.north + slack && region[2] >= n.west - slack &&
                   region[3] <= east + slack,
               key, std::string("reaches beyond ") + grid, "make it smaller, or the grid larger");
    const GridBox box = n.box(region);
    check.that(box.rows >= 1 && box.columns >= 1, key, "lies between the grid's points", "make it larger");
    check.that(box.points() < (int64_t{1} << 31), key, "has more points than 32 bits count",
               "make it smaller");
  }
  check.that(n.boundary_longitude >= n.downstream[2] && n.boundary_longitude <= n.downstream[3] &&
                 n.boundary_columns() >= 1,
             "net.boundary_longitude", "leaves no downstream node at the boundary, or lies beyond the region",
             "give a longitude between net.downstream's west and east");
  const int64_t nodes = n.downstream_box().points(), sources = n.upstream_box().points();
  check.that(n.neighbors < nodes, "net.neighbors",
             "is " + std::to_string(n.neighbors) + ", and a downstream node has " +
                 std::to_string(nodes - 1) + " others",
             "give fewer");
  check.that(n.boundary_neighbors <= sources, "net.boundary_neighbors",
             "is " + std::to_string(n.boundary_neighbors) + ", and there are " + std::to_string(sources) +
                 " upstream nodes",
             "give fewer");
  check.that(n.intra_edges() < (int64_t{1} << 31) && n.boundary_edges() < (int64_t{1} << 31), "net.neighbors",
             "makes more edges than 32 bits count", "give fewer, or a smaller net.downstream");
}

void validate_together(const MlpSpec&, const SpecCheck&) {}

void validate_together(const GraphcastSpec& n, const SpecCheck& check) {
  check.that(n.pixels() < (int64_t{1} << 31) / 20, "net.img_width",
             "makes a grid of more points than 32 bits count the edges of", "give fewer");
}

template <class Net>
void validate_together(const Net& n, const SpecCheck& check) {
  check.divides(n.num_heads, n.embed_dim, "net.num_heads", "net.embed_dim");
  if constexpr (std::is_base_of_v<Images, Net>) {
    check.divides(n.patch_size, n.img_height, "net.patch_size", "net.img_height");
    check.divides(n.patch_size, n.img_width, "net.patch_size", "net.img_width");
  } else {
    check.divides(n.kv_heads(), n.num_heads, "net.num_kv_heads", "net.num_heads");
  }
  if constexpr (std::is_same_v<Net, UnetSpec>)
    for (auto [size, key] : {std::pair{n.img_height, "net.img_height"}, {n.img_width, "net.img_width"}})
      check.that(size / n.patch_size % 2 == 0, key,
                 std::to_string(size) + " is an odd number of patches, and a unet merges two by two",
                 "use a multiple of 2 * net.patch_size = " + std::to_string(2 * n.patch_size));
}

}  // namespace

void validate_net(const NetSpec& net, const SpecCheck& check) {
  net.visit([&](const auto& n) { validate_net(n, check); });
}

void validate_net_together(const NetSpec& net, const SpecCheck& check) {
  net.visit([&](const auto& n) { validate_together(n, check); });
}

}  // namespace isobar
