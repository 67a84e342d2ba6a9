#include "model/base/net_specs/graphcast.h"

#include "model/base/spec/spec_check.h"

namespace isobar {

void GraphcastSpec::add_rows(KeyRows& to) {
  add_image_rows(
      to, {.height = "Rows of the grid from pole to pole, both included.",
           .heights = from_to(2, kMostSize, "give the rows from pole to pole, both included, e.g. 721")});
  to.insert(to.end(),
            {{"net.mesh_level", mesh_level, from_to(0, 9, "give how often the icosahedron is split, e.g. 6"),
              "Splits of the icosahedron: 10 * 4^level + 2 mesh nodes."},
             {"net.radius", radius, within("(]", 0, 2, "give a part of the mesh's longest edge, e.g. 0.6"),
              "Reach of a mesh node on the grid, in longest edges of the finest level."}});
  add_graph_rows(to);
}

void GraphcastSpec::check(const SpecCheck& check) const {
  check.that(pixels() < (int64_t{1} << 31) / 20, "net.img_width",
             "makes a grid of more points than 32 bits count the edges of", "give fewer");
}

RoughSize GraphcastSpec::rough_size(bool) const {
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  const double D = real(latent_size), H = real(mlp_hidden_size), layers = real(mlp_num_hidden_layers);
  const double steps = real(num_gnn_layers), mlp = H * (D + (layers - 1) * H);
  const double grid = real(pixels()), mesh = real(mesh_nodes()), row = 3 * D + 2 * layers * H;
  return {(steps + 2) * (5 * D * H + 2 * mlp) + 2 * (real(in_channels) + 9) * H +
              (real(out_channels) + 8 * D) * H,
          (steps * (real(mesh_edges()) + mesh) + 2 * (3 * grid + mesh) + 5 * grid) * row +
              2 * real(in_channels) * grid};
}

}  // namespace isobar
