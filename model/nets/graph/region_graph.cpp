#include "model/nets/graph/region_graph.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>
#include <vector>

#include "model/nets/layout/memo.h"
#include "model/plan/layout.h"

namespace isobar::nets {
namespace {

constexpr double kRadians = std::numbers::pi / 180;

struct Neighbor {
  double hav;  // haversine of the angle between: monotonic in the distance
  int32_t node;
  bool operator<(const Neighbor& o) const { return std::tie(hav, node) < std::tie(o.hav, o.node); }
};

class RegionGrid {
 public:
  explicit RegionGrid(const RegionalGnnSpec& n) : n_(n) {
    for (int64_t i = 0; i < n.img_height; ++i) cosines_.push_back(std::cos(kRadians * latitude(i)));
    for (int64_t i = 0; i < std::max(n.img_height, n.img_width); ++i)
      sines_.push_back(std::sin(kRadians * n.spacing * static_cast<double>(i) / 2));
  }
  double latitude(int64_t row) const { return n_.north - n_.spacing * static_cast<double>(row); }
  // Haversine of the angle between two points `columns` apart: exactly symmetric east and west.
  double hav(int64_t row_a, int64_t row_b, int64_t columns) const {
    const double up = sine(std::abs(row_a - row_b)), across = sine(std::abs(columns));
    return up * up +
           cosines_[static_cast<size_t>(row_a)] * cosines_[static_cast<size_t>(row_b)] * across * across;
  }
  double degrees(double hav) const { return 2 * std::asin(std::min(1.0, std::sqrt(hav))) / kRadians; }
  double spacing() const { return n_.spacing; }
  // No point at this distance in rows is nearer.
  double least_hav(int64_t rows) const { return sine(rows) * sine(rows); }
  // True if distance grows with the column difference, up to `columns`.
  bool grows(int64_t columns) const { return n_.spacing * static_cast<double>(columns) <= 180; }

 private:
  double sine(int64_t steps) const { return sines_[static_cast<size_t>(steps)]; }
  const RegionalGnnSpec& n_;
  std::vector<double> cosines_, sines_;  // of rows' latitudes; of half steps
};

// The k points of `from` nearest to a grid point, itself excluded unless `itself`. Searches rows and columns
// outwards until no further one can be nearer.
std::vector<Neighbor> nearest(const RegionGrid& grid, const GridBox& from, int64_t row, int64_t column,
                              size_t k, bool itself) {
  std::vector<Neighbor> best;
  double furthest_of_best = 0;
  const int64_t end = from.column + from.columns, begin = std::clamp(column, from.column, end - 1);
  const bool grows = grid.grows(std::max(std::abs(column - from.column), std::abs(end - 1 - column)));
  const auto look_at = [&](int64_t r) {
    if (r < from.row || r >= from.row + from.rows) return;
    const bool full = best.size() == k;
    const auto look_along = [&](int64_t first, int64_t step) {
      for (int64_t c = first; c >= from.column && c < end; c += step) {
        if (!itself && r == row && c == column) continue;
        const double hav = grid.hav(row, r, column - c);
        if (full && hav > furthest_of_best) {
          if (grows) return;
          continue;
        }
        best.push_back({hav, static_cast<int32_t>((r - from.row) * from.columns + c - from.column)});
      }
    };
    look_along(begin, 1);
    look_along(begin - 1, -1);
    if (best.size() > k) {
      std::nth_element(best.begin(), best.begin() + static_cast<ptrdiff_t>(k) - 1, best.end());
      best.resize(k);
    }
    if (!best.empty()) furthest_of_best = std::max_element(best.begin(), best.end())->hav;
  };
  const int64_t furthest = std::max(std::abs(row - from.row), std::abs(row - (from.row + from.rows - 1)));
  for (int64_t away = 0; away <= furthest; ++away) {
    if (best.size() == k && furthest_of_best < grid.least_hav(away)) break;
    look_at(row - away);
    if (away > 0) look_at(row + away);
  }
  std::sort(best.begin(), best.end(), [](const Neighbor& a, const Neighbor& b) { return a.node < b.node; });
  return best;
}

// Edges into the columns [0, columns) of the box `to`, from each point's nearest in `from`
EdgeSet edges(const RegionGrid& grid, const GridBox& from, const GridBox& to, int64_t columns, int64_t k,
              bool itself) {
  EdgeSet e;
  for (int64_t r = 0; r < to.rows; ++r)
    for (int64_t c = 0; c < to.columns; ++c) {
      e.receiver_offsets.push_back(static_cast<int32_t>(e.senders.size()));
      if (c >= columns) continue;
      const int64_t row = to.row + r, column = to.column + c;
      for (const Neighbor& n : nearest(grid, from, row, column, static_cast<size_t>(k), itself)) {
        const int64_t sender_row = from.row + n.node / from.columns,
                      sender_column = from.column + n.node % from.columns;
        e.senders.push_back(n.node);
        e.receivers.push_back(static_cast<int32_t>(r * to.columns + c));
        e.features.push_back(static_cast<float>(grid.spacing() * static_cast<double>(sender_row - row)));
        e.features.push_back(
            static_cast<float>(grid.spacing() * static_cast<double>(column - sender_column)));
        e.features.push_back(static_cast<float>(grid.degrees(n.hav)));
      }
    }
  e.receiver_offsets.push_back(static_cast<int32_t>(e.senders.size()));
  e.list_by_sender(from.points());
  return e;
}

// Number of edges, by receiver
std::vector<int64_t> received(const EdgeSet& e) {
  std::vector<int64_t> n(e.receiver_offsets.size() - 1, 0);
  for (const int32_t r : e.receivers) ++n[static_cast<size_t>(r)];
  return n;
}

// Edges into the boundary; `from`: a box that contains all nearest senders
EdgeSet boundary_edges(const RegionalGnnSpec& n, const GridBox& from) {
  return edges(RegionGrid(n), from, n.downstream_box(), n.boundary_columns(), n.boundary_neighbors, true);
}

// All inputs of the graph
using GraphKey = std::tuple<double, double, double, int64_t, int64_t, std::vector<double>,
                            std::vector<double>, double, int64_t, int64_t>;
GraphKey key_of(const RegionalGnnSpec& n) {
  return {n.north,     n.west,
          n.spacing,   n.img_height,
          n.img_width, n.downstream,
          n.upstream,  n.boundary_longitude,
          n.neighbors, n.boundary_neighbors};
}

}  // namespace

GridBox sending_box(const RegionalGnnSpec& n) {
  static Memo<GraphKey, GridBox> known;
  return known(key_of(n), [&] {
    const GridBox up = n.upstream_box();
    int64_t north = up.rows, south = 0, west = up.columns, east = 0;
    for (const int32_t s : boundary_edges(n, up).senders) {
      north = std::min(north, s / up.columns), south = std::max(south, s / up.columns);
      west = std::min(west, s % up.columns), east = std::max(east, s % up.columns);
    }
    return GridBox{up.row + north, up.column + west, south - north + 1, east - west + 1};
  });
}

RegionGraph region_graph(const RegionalGnnSpec& n) {
  const GridBox down = n.downstream_box();
  return {edges(RegionGrid(n), down, down, down.columns, n.neighbors, false),
          boundary_edges(n, sending_box(n))};
}

std::shared_ptr<const RegionCut> region_cut(const RegionalGnnSpec& n, int64_t ranks) {
  static Memo<std::tuple<GraphKey, int64_t, GraphPartition>, std::shared_ptr<const RegionCut>> known;
  require_metis(n.partition);
  return known({key_of(n), ranks, n.partition}, [&] {
    const int64_t up = sending_box(n).points();
    RegionGraph g = region_graph(n);
    RegionCut cut{{.parts = plan::split_evenly(n.tokens(), ranks)}, {.parts = plan::split_evenly(up, ranks)}};
    if (n.partition == GraphPartition::metis) {
      std::vector<Partition> kinds =
          metis_partition({n.tokens(), up},
                          {{0, received(g.intra)},
                           {0, received(g.boundary)},
                           {1, std::vector<int64_t>(static_cast<size_t>(up), 1), 1.5}},
                          {{&g.intra, 0, 0}, {&g.boundary, 1, 0}}, ranks);
      cut.down = std::move(kinds[0]), cut.up = std::move(kinds[1]);
      g = numbered(std::move(g), cut);
    }
    cut.intra = cut_edges(g.intra, cut.down.parts, cut.down.parts);
    cut.boundary = cut_edges(g.boundary, cut.up.parts, cut.down.parts);
    return std::make_shared<const RegionCut>(std::move(cut));
  });
}

RegionGraph numbered(RegionGraph g, const RegionCut& cut) {
  if (!cut.down.order.empty()) g.intra = renumbered(g.intra, cut.down, cut.down);
  if (!cut.down.order.empty() || !cut.up.order.empty()) g.boundary = renumbered(g.boundary, cut.up, cut.down);
  return g;
}

}  // namespace isobar::nets
