// A graph network over two regions.
#pragma once
#include <cmath>
#include <vector>

#include "model/base/net_specs/parts/graph.h"

namespace isobar {

/// A latitude-longitude region as a range of rows and columns of the grid that contains it.
struct GridBox {
  int64_t row = 0, column = 0, rows = 0, columns = 0;
  int64_t points() const { return rows * columns; }
};

// A graph network over two regions of a latitude-longitude grid. Nodes are grid points; each downstream node
// gets messages from its nearest neighbours, nodes at the western boundary also from the nearest upstream
// ones. A sample is a field on the whole grid (img_*); the downstream region is predicted.
struct RegionalGnnSpec : GraphSpec {
  static constexpr const char* kKind = "regional-gnn";
  RegionalGnnSpec() : GraphSpec{Images{{}, 101, 221, 336, 1}, 256, 12, 256, 2} {}
  double north = 50, west = 70, spacing = 0.25;         // degrees: the grid's first row, first column, step
  std::vector<double> downstream = {25, 40, 110, 125};  // degrees: south, north, west, east
  std::vector<double> upstream = {25, 50, 70, 110};     // in the same order
  double boundary_longitude = 111;                      // downstream nodes up to here are at the boundary
  int64_t neighbors = 8;                                // of a downstream node, downstream
  int64_t boundary_neighbors = 32;                      // upstream neighbours of a boundary node

  GridBox box(const std::vector<double>& region) const {
    const auto first = [&](double x) { return static_cast<int64_t>(std::ceil(x / spacing - 1e-6)); };
    const auto last = [&](double x) { return static_cast<int64_t>(std::floor(x / spacing + 1e-6)); };
    const int64_t row = first(north - region[1]), column = first(region[2] - west);
    return {row, column, last(north - region[0]) - row + 1, last(region[3] - west) - column + 1};
  }
  GridBox downstream_box() const { return box(downstream); }
  GridBox upstream_box() const { return box(upstream); }
  /// Western columns of the downstream region that are its boundary.
  int64_t boundary_columns() const {
    return box({downstream[0], downstream[1], downstream[2], boundary_longitude}).columns;
  }
  int64_t boundary_nodes() const { return boundary_columns() * downstream_box().rows; }
  int64_t intra_edges() const { return neighbors * downstream_box().points(); }
  int64_t boundary_edges() const { return boundary_neighbors * boundary_nodes(); }
  std::optional<NetGrid> grid() const { return NetGrid{north, spacing, west, spacing}; }
  int64_t tokens() const { return downstream_box().points(); }
  void add_rows(KeyRows& to);
  void check(const SpecCheck& check) const;
  RoughSize rough_size(bool unfused) const;
};

}  // namespace isobar
