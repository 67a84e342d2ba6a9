// GraphCast (Lam 2023).
#pragma once
#include "model/base/net_specs/parts/graph.h"

namespace isobar {

// GraphCast (Lam 2023): fields of a latitude-longitude grid with both poles are sent to an icosahedral
// multi-mesh, exchanged there, and sent back.
struct GraphcastSpec : GraphSpec {
  static constexpr const char* kKind = "graphcast";
  GraphcastSpec() : GraphSpec{Images{{}, 721, 1440, 471, 227}, 512, 16, 512, 1} {}
  int64_t mesh_level = 6;  // how often an icosahedron is split: 10 * 4^level + 2 nodes
  double radius = 0.6;     // reach of grid-to-mesh edges, as a share of the longest edge of the finest level

  int64_t mesh_nodes() const { return 10 * (int64_t{1} << (2 * mesh_level)) + 2; }
  int64_t mesh_edges() const { return 20 * ((int64_t{1} << (2 * mesh_level + 2)) - 1); }  // of all levels
  int64_t mesh_to_grid_edges() const { return 3 * pixels(); }
  std::optional<NetGrid> grid() const {
    return NetGrid{90, 180.0 / static_cast<double>(img_height - 1), 0, 360.0 / static_cast<double>(img_width),
                   true};
  }
  int64_t tokens() const { return pixels(); }
  void add_rows(KeyRows& to);
  void check(const SpecCheck& check) const;
  RoughSize rough_size(bool unfused) const;
};

}  // namespace isobar
