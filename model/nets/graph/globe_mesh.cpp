#include "model/nets/graph/globe_mesh.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <tuple>

namespace isobar::nets {
namespace {

Point3 cross(const Point3& a, const Point3& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

Point3 on_sphere(const Point3& p) {
  const double r = length(p);
  return {p.x / r, p.y / r, p.z / r};
}

// The twelve corners of an icosahedron: three golden rectangles, rotated about y by half of the supplement of
// the angle between two faces, so that a face points up.
std::vector<Point3> corners() {
  const double phi = std::numbers::phi;
  const double turn = (std::numbers::pi - 2 * std::asin(phi / std::sqrt(3.0))) / 2;
  std::vector<Point3> all;
  for (const double a : {1.0, -1.0})
    for (const double b : {phi, -phi})
      for (const Point3& p : {Point3{a, b, 0}, Point3{0, a, b}, Point3{b, 0, a}})
        all.push_back(on_sphere({std::cos(turn) * p.x + std::sin(turn) * p.z, p.y,
                                 -std::sin(turn) * p.x + std::cos(turn) * p.z}));
  return all;
}

}  // namespace

double length(const Point3& a) {
  return std::sqrt(dot(a, a));
}

GlobeMesh::GlobeMesh(int64_t level) : nodes_(corners()) {
  // Faces are the triples of mutually adjacent corners, counterclockwise from outside.
  const double side = 2 / std::sqrt(std::numbers::phi * std::sqrt(5.0));
  const auto near = [&](size_t i, size_t j) { return length(nodes_[i] - nodes_[j]) < 1.01 * side; };
  std::vector<Triangle> faces;
  for (size_t i = 0; i < 12; ++i)
    for (size_t j = i + 1; j < 12; ++j)
      for (size_t k = j + 1; k < 12; ++k)
        if (near(i, j) && near(j, k) && near(i, k)) {
          const bool outward = dot(cross(nodes_[j] - nodes_[i], nodes_[k] - nodes_[i]), nodes_[i]) > 0;
          const auto a = static_cast<int32_t>(i), b = static_cast<int32_t>(j), c = static_cast<int32_t>(k);
          faces.push_back(outward ? Triangle{a, b, c} : Triangle{a, c, b});
        }
  triangles_.push_back(std::move(faces));
  add_edges();
  for (int64_t i = 0; i < level; ++i) {
    split();
    add_edges();
  }
  number();
  for (const std::vector<Triangle>& of_level : triangles_) {
    sides_.emplace_back();
    for (const Triangle& t : of_level) {
      const auto normal = [&](size_t i) {
        return on_sphere(
            cross(nodes_[static_cast<size_t>(t[i])], nodes_[static_cast<size_t>(t[(i + 1) % 3])]));
      };
      sides_.back().push_back({normal(0), normal(1), normal(2)});
    }
  }
}

void GlobeMesh::split() {
  std::map<std::pair<int32_t, int32_t>, int32_t> middles;
  const auto middle = [&](int32_t a, int32_t b) {
    const auto [at, fresh] =
        middles.try_emplace({std::min(a, b), std::max(a, b)}, static_cast<int32_t>(nodes_.size()));
    if (fresh) {
      const Point3 &p = nodes_[static_cast<size_t>(a)], &q = nodes_[static_cast<size_t>(b)];
      nodes_.push_back(on_sphere({p.x + q.x, p.y + q.y, p.z + q.z}));
    }
    return at->second;
  };
  std::vector<Triangle> finer;
  for (const Triangle& t : triangles_.back()) {
    const int32_t a = middle(t[0], t[1]), b = middle(t[1], t[2]), c = middle(t[2], t[0]);
    for (const Triangle& part : {Triangle{t[0], a, c}, {a, t[1], b}, {c, b, t[2]}, {a, b, c}})
      finer.push_back(part);
  }
  triangles_.push_back(std::move(finer));
}

// Every side belongs to two triangles, once in each direction.
void GlobeMesh::add_edges() {
  longest_ = 0;
  for (const Triangle& t : triangles_.back())
    for (size_t i = 0; i < 3; ++i) {
      const int32_t a = t[i], b = t[(i + 1) % 3];
      edges_.emplace_back(a, b);
      longest_ = std::max(longest_, length(nodes_[static_cast<size_t>(a)] - nodes_[static_cast<size_t>(b)]));
    }
}

// Latitudes and longitudes that differ only by rounding count as equal.
void GlobeMesh::number() {
  const auto place = [&](int32_t i) {
    const Point3& p = nodes_[static_cast<size_t>(i)];
    const auto steps = [](double x) { return std::llround(1e9 * x); };
    const long long around = steps(std::atan2(p.y, p.x)), whole = steps(2 * std::numbers::pi);
    return std::tuple(-steps(p.z), (around + whole) % whole, i);
  };
  std::vector<int32_t> order(nodes_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return place(a) < place(b); });
  std::vector<int32_t> now(nodes_.size());
  std::vector<Point3> nodes;
  for (size_t i = 0; i < order.size(); ++i) {
    now[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
    nodes.push_back(nodes_[static_cast<size_t>(order[i])]);
  }
  nodes_ = std::move(nodes);
  for (std::vector<Triangle>& of_level : triangles_)
    for (Triangle& t : of_level)
      for (int32_t& i : t) i = now[static_cast<size_t>(i)];
  for (auto& [a, b] : edges_) a = now[static_cast<size_t>(a)], b = now[static_cast<size_t>(b)];
  std::sort(edges_.begin(), edges_.end(), [](const auto& x, const auto& y) {
    return std::tie(x.second, x.first) < std::tie(y.second, y.first);
  });
}

// Descends the levels into the triangle that the point is furthest inside of. The point is nudged so that a
// point on a side belongs to one triangle despite rounding.
std::array<int32_t, 3> GlobeMesh::triangle_at(const Point3& at) const {
  const Point3 p{at.x + 0.3e-9, at.y + 0.5e-9, at.z + 0.8e-9};
  size_t best = 0, first = 0, end = triangles_[0].size();
  for (size_t level = 0; level < triangles_.size(); ++level) {
    double inside = -2;
    for (size_t t = first; t < end; ++t) {
      const auto& s = sides_[level][t];
      const double least = std::min({dot(s[0], p), dot(s[1], p), dot(s[2], p)});
      if (least > inside) inside = least, best = t;
    }
    first = 4 * best, end = first + 4;
  }
  return triangles_.back()[best];
}

}  // namespace isobar::nets
