#include "model/nets/graph/globe_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <numbers>
#include <string>
#include <tuple>

#include "model/nets/graph/globe_mesh.h"
#include "model/nets/layout/memo.h"
#include "model/plan/layout.h"

namespace isobar::nets {
namespace {

constexpr double kPi = std::numbers::pi;

struct Place {  // on the sphere: radians, and as a point
  double latitude, longitude;
  Point3 at;
};

Place place_of(double latitude, double longitude) {
  return {latitude,
          longitude,
          {std::cos(latitude) * std::cos(longitude), std::cos(latitude) * std::sin(longitude),
           std::sin(latitude)}};
}

Place place_of(const Point3& p) {
  return {std::asin(std::clamp(p.z, -1.0, 1.0)), std::atan2(p.y, p.x), p};
}

class GlobeGrid {
 public:
  explicit GlobeGrid(const GraphcastSpec& n) : rows_(n.img_height), columns_(n.img_width) {
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t column = 0; column < columns_; ++column)
        places_.push_back(
            place_of(latitude(row), 2 * kPi * static_cast<double>(column) / static_cast<double>(columns_)));
  }
  int64_t points() const { return rows_ * columns_; }
  const Place& place(int64_t point) const { return places_[static_cast<size_t>(point)]; }

  /// Its points whose chord to `p` is at most `chord`, in order
  std::vector<int32_t> within(const Place& p, double chord) const {
    std::vector<int32_t> found;
    const double angle = 2 * std::asin(std::min(1.0, chord / 2)), step = kPi / static_cast<double>(rows_ - 1);
    const auto row_at = [&](double latitude) { return (kPi / 2 - latitude) / step; };
    const auto first = std::max<int64_t>(0, std::lround(std::floor(row_at(p.latitude + angle))) - 1);
    const auto last = std::min<int64_t>(rows_ - 1, std::lround(std::ceil(row_at(p.latitude - angle))) + 1);
    for (int64_t row = first; row <= last; ++row) {
      const auto begin = found.size();
      const int64_t side = columns_within(p, row, angle);
      const int64_t middle = std::lround(p.longitude / (2 * kPi) * static_cast<double>(columns_));
      const int64_t count = std::min(columns_, 2 * side + 1);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t column = ((middle - side + i) % columns_ + columns_) % columns_;
        if (length(place(row * columns_ + column).at - p.at) <= chord)
          found.push_back(static_cast<int32_t>(row * columns_ + column));
      }
      std::sort(found.begin() + static_cast<ptrdiff_t>(begin), found.end());
    }
    return found;
  }

 private:
  double latitude(int64_t row) const {
    return kPi / 2 - kPi * static_cast<double>(row) / static_cast<double>(rows_ - 1);
  }
  // No point of the row outside these columns is within the angle.
  int64_t columns_within(const Place& p, int64_t row, double angle) const {
    const double across = std::cos(p.latitude) * std::cos(latitude(row));
    const double least = std::cos(angle) - std::sin(p.latitude) * std::sin(latitude(row));
    if (least <= -across || across < 1e-12) return columns_ / 2;
    const double side = std::acos(std::min(1.0, least / across));
    const double columns = side / (2 * kPi) * static_cast<double>(columns_);
    return std::min(columns_ / 2, static_cast<int64_t>(std::ceil(columns)) + 1);
  }
  const int64_t rows_, columns_;
  std::vector<Place> places_;
};

double radius_of(const GraphcastSpec& n, const GlobeMesh& mesh) {
  return n.radius * mesh.longest_finest_edge();
}

// ---- features ----

// Length and direction in the receiver's frame: [4]
std::array<double, 4> seen_from(const Place& receiver, const Place& sender) {
  const double cos_lon = std::cos(receiver.longitude), sin_lon = std::sin(receiver.longitude);
  const double cos_lat = std::cos(receiver.latitude), sin_lat = std::sin(receiver.latitude);
  const Point3& s = sender.at;
  const double x = cos_lon * s.x + sin_lon * s.y, y = -sin_lon * s.x + cos_lon * s.y;
  const Point3 seen{cos_lat * x + sin_lat * s.z - 1, y, -sin_lat * x + cos_lat * s.z};
  return {length(seen), seen.x, seen.y, seen.z};
}

// Edges by receiver, then by sender -> the set, with features if asked; `sender`, `receiver`: node -> Place
template <class Sender, class Receiver>
EdgeSet edge_set(const std::vector<std::pair<int32_t, int32_t>>& edges, int64_t senders, int64_t receivers,
                 const Sender& sender, const Receiver& receiver, bool features) {
  EdgeSet e;
  e.receiver_offsets.assign(static_cast<size_t>(receivers) + 1, 0);
  std::vector<std::array<double, 4>> seen;
  double longest = 0;
  for (const auto& [s, r] : edges) {
    e.senders.push_back(s);
    e.receivers.push_back(r);
    ++e.receiver_offsets[static_cast<size_t>(r) + 1];
    if (!features) continue;
    seen.push_back(seen_from(receiver(r), sender(s)));
    longest = std::max(longest, seen.back()[0]);
  }
  for (size_t r = 1; r < e.receiver_offsets.size(); ++r) e.receiver_offsets[r] += e.receiver_offsets[r - 1];
  for (const std::array<double, 4>& f : seen)
    for (const double x : f) e.features.push_back(static_cast<float>(x / longest));
  if (features) e.list_by_sender(senders);
  return e;
}

std::array<float, 3> node_features(const Place& p) {
  return {static_cast<float>(std::sin(p.latitude)), static_cast<float>(std::sin(p.longitude)),
          static_cast<float>(std::cos(p.longitude))};
}

GlobeGraph make(const GraphcastSpec& n, bool features) {
  const GlobeMesh mesh(n.mesh_level);
  const GlobeGrid grid(n);
  std::vector<Place> nodes;
  for (const Point3& p : mesh.nodes()) nodes.push_back(place_of(p));
  const auto node = [&](int32_t i) -> const Place& { return nodes[static_cast<size_t>(i)]; };
  const auto point = [&](int32_t i) -> const Place& { return grid.place(i); };
  const auto n_nodes = static_cast<int64_t>(nodes.size());

  GlobeGraph g;
  std::vector<std::pair<int32_t, int32_t>> up, down;
  const double radius = radius_of(n, mesh);
  for (int64_t r = 0; r < n_nodes; ++r)
    for (const int32_t s : grid.within(nodes[static_cast<size_t>(r)], radius))
      up.emplace_back(s, static_cast<int32_t>(r));
  g.grid_to_mesh = edge_set(up, grid.points(), n_nodes, point, node, features);
  g.mesh = edge_set(mesh.edges(), n_nodes, n_nodes, node, node, features);
  for (int64_t r = 0; r < grid.points(); ++r) {
    std::array<int32_t, 3> of = mesh.triangle_at(grid.place(r).at);
    std::sort(of.begin(), of.end());
    for (const int32_t s : of) down.emplace_back(s, static_cast<int32_t>(r));
  }
  g.mesh_to_grid = edge_set(down, n_nodes, grid.points(), node, point, features);
  if (!features) return g;

  g.grid_planes.resize(static_cast<size_t>(GlobeGraph::kNodeFeatures * grid.points()));
  for (int64_t i = 0; i < grid.points(); ++i) {
    const std::array<float, 3> f = node_features(grid.place(i));
    for (int64_t c = 0; c < 3; ++c)
      g.grid_planes[static_cast<size_t>(c * grid.points() + i)] = f[static_cast<size_t>(c)];
  }
  for (const Place& p : nodes)
    for (const float f : node_features(p)) g.mesh_features.push_back(f);
  return g;
}

// ---- caches ----

// All inputs of the graph
using Key = std::tuple<int64_t, int64_t, int64_t, double>;
Key key_of(const GraphcastSpec& n) {
  return {n.img_height, n.img_width, n.mesh_level, n.radius};
}

// Edges that each mesh node receives, for balancing. Mesh edges count as often as the published nets have
// steps, whatever this net has, so that the cut depends on the graph alone
std::vector<int64_t> received(const GlobeGraph& g, int64_t nodes) {
  constexpr int64_t kSteps = 16;
  std::vector<int64_t> all(static_cast<size_t>(nodes), 0);
  for (const int32_t r : g.mesh.receivers) all[static_cast<size_t>(r)] += kSteps;
  for (const int32_t r : g.grid_to_mesh.receivers) ++all[static_cast<size_t>(r)];
  return all;
}

}  // namespace

// Keeps the last graph with and without features: plans of other ranks and layouts need it again.
std::shared_ptr<const GlobeGraph> globe_graph(const GraphcastSpec& n, bool features) {
  static std::mutex mutex;
  static std::array<std::pair<Key, std::shared_ptr<const GlobeGraph>>, 2> both;
  const std::lock_guard lock(mutex);
  auto& last = both[features ? 1 : 0];
  if (!last.second || last.first != key_of(n))
    last = {key_of(n), std::make_shared<const GlobeGraph>(make(n, features))};
  return last.second;
}

int64_t grid_to_mesh_edges(const GraphcastSpec& n) {
  static Memo<Key, int64_t> known;
  return known(key_of(n), [&] {
    const GlobeMesh mesh(n.mesh_level);
    const GlobeGrid grid(n);
    int64_t edges = 0;
    for (const Point3& p : mesh.nodes())
      edges += static_cast<int64_t>(grid.within(place_of(p), radius_of(n, mesh)).size());
    return edges;
  });
}

std::shared_ptr<const GlobeCut> globe_cut(const GraphcastSpec& n, int64_t ranks) {
  static Memo<std::tuple<Key, int64_t, GraphPartition>, std::shared_ptr<const GlobeCut>> known;
  require_metis(n.partition);
  return known({key_of(n), ranks, n.partition}, [&] {
    const auto g = globe_graph(n, n.partition == GraphPartition::metis);
    GlobeCut cut{.grid = {.parts = plan::split_evenly(n.tokens(), ranks)},
                 .mesh = {.parts = split_by_weight(received(*g, n.mesh_nodes()), ranks)}};
    const auto cut_all = [&](const GlobeGraph& of) {
      cut.grid_to_mesh = cut_edges(of.grid_to_mesh, cut.grid.parts, cut.mesh.parts);
      cut.level = cut_edges(of.mesh, cut.mesh.parts, cut.mesh.parts);
      cut.mesh_to_grid = cut_edges(of.mesh_to_grid, cut.mesh.parts, cut.grid.parts);
    };
    if (n.partition == GraphPartition::metis) {
      std::vector<Partition> kinds = metis_partition(
          {n.tokens(), n.mesh_nodes()},
          {{0, std::vector<int64_t>(static_cast<size_t>(n.tokens()), 1)}, {1, received(*g, n.mesh_nodes())}},
          {{&g->grid_to_mesh, 0, 1}, {&g->mesh, 1, 1}, {&g->mesh_to_grid, 1, 0}}, ranks);
      cut.grid = std::move(kinds[0]), cut.mesh = std::move(kinds[1]);
      cut_all(numbered(*g, cut));
    } else {
      cut_all(*g);
    }
    return std::make_shared<const GlobeCut>(std::move(cut));
  });
}

GlobeGraph numbered(const GlobeGraph& g, const GlobeCut& cut) {
  GlobeGraph out{.grid_to_mesh = renumbered(g.grid_to_mesh, cut.grid, cut.mesh),
                 .mesh = renumbered(g.mesh, cut.mesh, cut.mesh),
                 .mesh_to_grid = renumbered(g.mesh_to_grid, cut.mesh, cut.grid),
                 .grid_planes = g.grid_planes};
  if (cut.mesh.order.empty()) out.mesh_features = g.mesh_features;
  for (const int32_t node : cut.mesh.order)
    for (int64_t f = 0; f < GlobeGraph::kNodeFeatures; ++f)
      out.mesh_features.push_back(g.mesh_features[static_cast<size_t>(node * GlobeGraph::kNodeFeatures + f)]);
  return out;
}

}  // namespace isobar::nets
