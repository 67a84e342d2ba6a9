// The icosahedral multi-mesh of GraphCast (Lam 2023, section 3.1 of its supplement): an icosahedron whose
// triangles are split into four repeatedly, with all levels' edges together.
//
//   const GlobeMesh mesh(6);                 // 40,962 nodes, 81,920 triangles
//   mesh.nodes()[i]                          // on the unit sphere; z to the north, x to 0 E
//   mesh.triangle_at(point)                  // the triangle of the finest level that contains the point
//
// Nodes are numbered from north to south, and by longitude within a latitude: neighbours on the earth are
// near in memory, and a run of nodes is a band. Two triangles are parallel to the equator, one at each pole.
#pragma once
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace isobar::nets {

struct Point3 {
  double x = 0, y = 0, z = 0;
};
inline Point3 operator-(const Point3& a, const Point3& b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
inline double dot(const Point3& a, const Point3& b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}
double length(const Point3& a);

class GlobeMesh {
 public:
  explicit GlobeMesh(int64_t level);

  static int64_t nodes_at(int64_t level) { return 10 * (int64_t{1} << (2 * level)) + 2; }
  /// Directed edges of all levels up to this one: 60 of the icosahedron, four times as many on each further
  /// level
  static int64_t edges_up_to(int64_t level) { return 20 * ((int64_t{1} << (2 * level + 2)) - 1); }

  const std::vector<Point3>& nodes() const { return nodes_; }
  /// (sender, receiver) of all levels, by receiver, then by sender; levels have no edge in common
  const std::vector<std::pair<int32_t, int32_t>>& edges() const { return edges_; }
  double longest_finest_edge() const { return longest_; }  // chord, in radii
  std::array<int32_t, 3> triangle_at(const Point3& p) const;

 private:
  using Triangle = std::array<int32_t, 3>;
  void split();
  void add_edges();
  void number();
  std::vector<Point3> nodes_;
  std::vector<std::vector<Triangle>> triangles_;           // by level; triangle t splits into 4 t … 4 t + 3
  std::vector<std::vector<std::array<Point3, 3>>> sides_;  // inward normals of their sides
  std::vector<std::pair<int32_t, int32_t>> edges_;
  double longest_ = 0;
};

}  // namespace isobar::nets
