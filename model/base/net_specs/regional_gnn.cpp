#include "model/base/net_specs/regional_gnn.h"

#include <cstdio>
#include <utility>

#include "model/base/spec/spec_check.h"

namespace isobar {

void RegionalGnnSpec::add_rows(KeyRows& to) {
  add_image_rows(to);
  to.insert(
      to.end(),
      {{"net.north", north, within("[]", -90, 90, "give the latitude of the grid's first row in degrees"),
        "Latitude of the grid's first row, degrees."},
       {"net.west", west, within("[]", -360, 360, "give the longitude of the grid's first column in degrees"),
        "Longitude of the grid's first column, degrees."},
       {"net.spacing", spacing, kGridSpacing, "Step of the grid, degrees."},
       {"net.downstream", downstream, "Predicted region: south, north, west, east in degrees."},
       {"net.upstream", upstream,
        "Region that sends to it, in the same order; only nodes with edges are computed."},
       {"net.neighbors", neighbors, kNetSize,
        "Edges into each downstream node from its nearest downstream nodes."},
       {"net.boundary_longitude", boundary_longitude,
        "Downstream nodes up to this longitude receive edges from upstream nodes."},
       {"net.boundary_neighbors", boundary_neighbors, kNetSize,
        "Edges into each boundary node from its nearest upstream nodes."}});
  add_graph_rows(to);
}

// Both regions must lie on the grid, with enough nodes for the neighbours that are asked for.
void RegionalGnnSpec::check(const SpecCheck& check) const {
  const double south = north - spacing * static_cast<double>(img_height - 1),
               east = west + spacing * static_cast<double>(img_width - 1), slack = 1e-6 * spacing;
  check.that(south >= -90 - slack, "net.img_height",
             "has rows beyond the pole: from net.north they go down to " + std::to_string(south),
             "give fewer, or a smaller net.spacing");
  check.that(east - west < 360, "net.img_width", "goes round the earth more than once",
             "give fewer columns, or a smaller net.spacing");
  char grid[128];
  std::snprintf(grid, sizeof grid, "the grid, which has latitudes %g to %g and longitudes %g to %g", south,
                north, west, east);
  for (const auto& [region, key] :
       {std::pair<const std::vector<double>&, const char*>{downstream, "net.downstream"},
        {upstream, "net.upstream"}}) {
    check.that(region.size() == 4, key, "has " + std::to_string(region.size()) + " numbers",
               "give south, north, west and east in degrees");
    check.that(region[0] <= region[1] && region[2] <= region[3], key, "ends before it begins",
               "give south, north, west and east in degrees, in this order");
    check.that(region[0] >= south - slack && region[1] <= north + slack && region[2] >= west - slack &&
                   region[3] <= east + slack,
               key, std::string("reaches beyond ") + grid, "make it smaller, or the grid larger");
    const GridBox part = box(region);
    check.that(part.rows >= 1 && part.columns >= 1, key, "lies between the grid's points", "make it larger");
    check.that(part.points() < (int64_t{1} << 31), key, "has more points than 32 bits count",
               "make it smaller");
  }
  check.that(
      boundary_longitude >= downstream[2] && boundary_longitude <= downstream[3] && boundary_columns() >= 1,
      "net.boundary_longitude", "leaves no downstream node at the boundary, or lies beyond the region",
      "give a longitude between net.downstream's west and east");
  const int64_t nodes = downstream_box().points(), sources = upstream_box().points();
  check.that(neighbors < nodes, "net.neighbors",
             "is " + std::to_string(neighbors) + ", and a downstream node has " + std::to_string(nodes - 1) +
                 " others",
             "give fewer");
  check.that(boundary_neighbors <= sources, "net.boundary_neighbors",
             "is " + std::to_string(boundary_neighbors) + ", and there are " + std::to_string(sources) +
                 " upstream nodes",
             "give fewer");
  check.that(intra_edges() < (int64_t{1} << 31) && boundary_edges() < (int64_t{1} << 31), "net.neighbors",
             "makes more edges than 32 bits count", "give fewer, or a smaller net.downstream");
}

RoughSize RegionalGnnSpec::rough_size(bool) const {
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  const double D = real(latent_size), H = real(mlp_hidden_size), layers = real(mlp_num_hidden_layers);
  const double steps = real(num_gnn_layers), mlp = H * (D + (layers - 1) * H);
  const double down = real(downstream_box().points()), up = real(upstream_box().points());
  const double edges = real(intra_edges()) + real(boundary_edges());
  const double row = 3 * D + 2 * layers * H;  // of an MLP: its input, its layers, its output
  return {steps * (10 * D * H + 4 * mlp) + (2 * real(in_channels) + 6) * H + 5 * mlp,
          (steps + 1) * (edges + 2 * down + up) * row + real(in_channels) * (down + up)};
}

}  // namespace isobar
