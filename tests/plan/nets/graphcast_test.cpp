// GraphCast as a plan: the published counts exactly, its graph against brute force.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <set>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/nets/graph/globe_graph.h"
#include "model/nets/graph/globe_mesh.h"
#include "tests/plan/plans.h"
#include "tests/worst.h"

namespace isobar::plan {
namespace {

RunSpec shipped_globe(const std::string& name, const std::vector<std::string>& set = {}) {
  return load_run_spec(source_dir() + "/configs/models/" + name + ".yaml", set);
}

// reference/systems.md 4.1; grid to mesh edges: the paper has 1,618,746, other implementations 1,618,820 and
// 1,618,824
TEST(Graphcast, HasThePublishedCounts) {
  const RunSpec s = shipped_globe("graphcast"), small = shipped_globe("graphcast-small");
  EXPECT_EQ(nets::build_plan(s, 0, {}).parameter_count(), 36348131);
  EXPECT_EQ(nets::build_plan(small, 0, {}).parameter_count(), 35979347);
  const GraphcastSpec &n = s.net.graphcast(), &m = small.net.graphcast();
  EXPECT_EQ(n.tokens(), 1038240);
  EXPECT_EQ(n.mesh_nodes(), 40962);
  EXPECT_EQ(n.mesh_edges(), 327660);
  EXPECT_EQ(n.mesh_to_grid_edges(), 3114720);
  EXPECT_NEAR(static_cast<double>(nets::grid_to_mesh_edges(n)), 1618824, 10);
  EXPECT_EQ(m.tokens(), 65160);
  EXPECT_EQ(m.mesh_nodes(), 10242);
  EXPECT_EQ(m.mesh_edges(), 81900);
  EXPECT_EQ(m.mesh_to_grid_edges(), 195480);
  EXPECT_EQ(nets::grid_to_mesh_edges(m), 101892);
}

TEST(GlobeMesh, HasTheNodesEdgesAndTrianglesOfEachLevel) {
  constexpr int64_t kNodes[] = {12, 42, 162, 642, 2562}, kEdges[] = {60, 300, 1260, 5100, 20460};
  for (int64_t level = 0; level < 5; ++level) {
    const nets::GlobeMesh mesh(level);
    ASSERT_EQ(static_cast<int64_t>(mesh.nodes().size()), kNodes[level]);
    EXPECT_EQ(nets::GlobeMesh::nodes_at(level), kNodes[level]);
    ASSERT_EQ(static_cast<int64_t>(mesh.edges().size()), kEdges[level]);
    EXPECT_EQ(nets::GlobeMesh::edges_up_to(level), kEdges[level]);
    const std::set<std::pair<int32_t, int32_t>> once(mesh.edges().begin(), mesh.edges().end());
    EXPECT_EQ(once.size(), mesh.edges().size());
    std::vector<int> heard(mesh.nodes().size());
    for (const auto& [a, b] : once) {
      EXPECT_TRUE(once.contains({b, a}));
      ++heard[static_cast<size_t>(b)];
    }
    EXPECT_EQ(*std::max_element(heard.begin(), heard.end()), level == 0 ? 5 : 5 + 5 * level)
        << "of the icosahedron's corners";
    for (size_t i = 0; i < mesh.nodes().size(); ++i) {
      EXPECT_NEAR(nets::length(mesh.nodes()[i]), 1, 1e-14);
      if (i > 0) EXPECT_LE(mesh.nodes()[i].z, mesh.nodes()[i - 1].z + 1e-8) << "north to south";
    }
  }
  EXPECT_NEAR(nets::GlobeMesh(5).longest_finest_edge(), 0.041337, 1e-6);
}

// A pole is the centre of a face: its three nearest corners are equally far.
TEST(GlobeMesh, HasAFaceAtEachPole) {
  const nets::GlobeMesh mesh(0);
  for (const size_t first : {size_t{0}, size_t{9}})
    for (size_t i = 1; i < 3; ++i) EXPECT_NEAR(mesh.nodes()[first].z, mesh.nodes()[first + i].z, 1e-12);
  EXPECT_GT(mesh.nodes()[2].z, mesh.nodes()[3].z + 0.1);
}

// ---- the graph ----

nets::Point3 point_of(const GraphcastSpec& n, int64_t i) {
  const double lat =
      std::numbers::pi * (0.5 - static_cast<double>(i / n.img_width) / static_cast<double>(n.img_height - 1));
  const double lon =
      2 * std::numbers::pi * static_cast<double>(i % n.img_width) / static_cast<double>(n.img_width);
  return {std::cos(lat) * std::cos(lon), std::cos(lat) * std::sin(lon), std::sin(lat)};
}

void expect_lists(const nets::EdgeSet& e, int64_t senders, int64_t receivers) {
  const auto edges = static_cast<int64_t>(e.senders.size());
  ASSERT_EQ(static_cast<int64_t>(e.receiver_offsets.size()), receivers + 1);
  ASSERT_EQ(static_cast<int64_t>(e.sender_offsets.size()), senders + 1);
  EXPECT_EQ(e.receiver_offsets.back(), edges);
  EXPECT_EQ(e.sender_offsets.back(), edges);
  for (int64_t r = 0; r < receivers; ++r)
    for (int32_t i = e.receiver_offsets[static_cast<size_t>(r)];
         i < e.receiver_offsets[static_cast<size_t>(r) + 1]; ++i) {
      EXPECT_EQ(e.receivers[static_cast<size_t>(i)], r);
      if (i > e.receiver_offsets[static_cast<size_t>(r)])
        EXPECT_LT(e.senders[static_cast<size_t>(i) - 1], e.senders[static_cast<size_t>(i)]);
    }
  for (int64_t s = 0; s < senders; ++s)
    for (int32_t i = e.sender_offsets[static_cast<size_t>(s)];
         i < e.sender_offsets[static_cast<size_t>(s) + 1]; ++i)
      EXPECT_EQ(e.senders[static_cast<size_t>(e.by_sender[static_cast<size_t>(i)])], s);
}

TEST(GlobeGraph, IsThatOfALookAtAllPairs) {
  GraphcastSpec n;
  for (const auto& [rows, columns, level, radius] :
       {std::tuple<int64_t, int64_t, int64_t, double>{7, 12, 1, 0.6}, {19, 36, 2, 0.6}, {10, 33, 3, 1.4}}) {
    SCOPED_TRACE(rows);
    n.img_height = rows, n.img_width = columns, n.mesh_level = level, n.radius = radius;
    const auto g = nets::globe_graph(n);
    const nets::GlobeMesh mesh(level);
    expect_lists(g->grid_to_mesh, n.tokens(), n.mesh_nodes());
    expect_lists(g->mesh, n.mesh_nodes(), n.mesh_nodes());
    expect_lists(g->mesh_to_grid, n.mesh_nodes(), n.tokens());
    std::set<std::pair<int32_t, int32_t>> pairs;
    for (int64_t m = 0; m < n.mesh_nodes(); ++m)
      for (int64_t p = 0; p < n.tokens(); ++p)
        if (nets::length(mesh.nodes()[static_cast<size_t>(m)] - point_of(n, p)) <=
            radius * mesh.longest_finest_edge())
          pairs.emplace(static_cast<int32_t>(p), static_cast<int32_t>(m));
    EXPECT_EQ(g->grid_to_mesh.senders.size(), pairs.size());
    EXPECT_EQ(nets::grid_to_mesh_edges(n), static_cast<int64_t>(pairs.size()));
    for (size_t i = 0; i < g->grid_to_mesh.senders.size(); ++i)
      EXPECT_TRUE(pairs.contains({g->grid_to_mesh.senders[i], g->grid_to_mesh.receivers[i]}));
    // The point is a combination of the three corners with non-negative weights (Cramer's rule).
    for (int64_t p = 0; p < n.tokens(); ++p) {
      const auto corner = [&](int64_t i) {
        return mesh.nodes()[static_cast<size_t>(g->mesh_to_grid.senders[static_cast<size_t>(3 * p + i)])];
      };
      const auto volume = [](const nets::Point3& a, const nets::Point3& b, const nets::Point3& c) {
        return a.x * (b.y * c.z - b.z * c.y) - a.y * (b.x * c.z - b.z * c.x) + a.z * (b.x * c.y - b.y * c.x);
      };
      const nets::Point3 at = point_of(n, p), a = corner(0), b = corner(1), c = corner(2);
      const double all = volume(a, b, c);
      EXPECT_GT(std::abs(all), 1e-6);
      for (const double weight : {volume(at, b, c) / all, volume(a, at, c) / all, volume(a, b, at) / all})
        EXPECT_GE(weight, -1e-7) << "point " << p;
    }
    // An edge's features have its length in any rotation; the longest is 1.
    double longest = 0, off = 0;
    const nets::EdgeSet& e = g->mesh;
    for (size_t i = 0; i < e.senders.size(); ++i)
      longest = std::max(longest, nets::length(mesh.nodes()[static_cast<size_t>(e.senders[i])] -
                                               mesh.nodes()[static_cast<size_t>(e.receivers[i])]));
    for (size_t i = 0; i < e.senders.size(); ++i) {
      const double chord = nets::length(mesh.nodes()[static_cast<size_t>(e.senders[i])] -
                                        mesh.nodes()[static_cast<size_t>(e.receivers[i])]) /
                           longest;
      const float* f = &e.features[4 * i];
      off = worst(off, std::abs(f[0] - chord));
      off = worst(off, std::abs(std::hypot(f[1], f[2], f[3]) - chord));
      off = worst(off, std::abs(f[1] + chord * chord * longest / 2));  // the sphere's curvature
    }
    EXPECT_LT(off, 1e-6);
  }
}

// A plan that is only priced needs the one count without a closed form, but no graph.
TEST(GlobeGraph, TakesSecondsAtAQuarterDegree) {
  const GraphcastSpec n = shipped_globe("graphcast").net.graphcast();
  const auto start = std::chrono::steady_clock::now();
  const auto g = nets::globe_graph(n);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_EQ(static_cast<int64_t>(g->grid_to_mesh.senders.size()), nets::grid_to_mesh_edges(n));
  EXPECT_EQ(g->mesh_to_grid.senders.size(), 3114720u);
  std::printf("0.25 degrees and M6: %.1f s, %ld edges from grid to mesh\n", took,
              nets::grid_to_mesh_edges(n));
  EXPECT_LT(took, 60.0);
}

TEST(GlobeGraph, IsMadeOnceForAllWhoUseIt) {
  const GraphcastSpec n = shipped_globe("graphcast-tiny").net.graphcast();
  const auto a = nets::globe_graph(n), b = nets::globe_graph(n);
  EXPECT_EQ(a, b);
}

TEST(Graphcast, RefusesWhatItCannotTakeAndSaysWhy) {
  const auto says = [&](const std::vector<std::string>& set, const std::string& what) {
    std::string message = "nothing";
    try {
      nets::build_plan(shipped_globe("graphcast-tiny", set), 0, {});
    } catch (const ConfigError& e) {
      message = e.what();
    }
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  says({"layout.tp=5"}, "5 does not divide net.mlp_hidden_size = 24");
  says({"layout.tp=2", "policy.sequence_parallel=true"}, "not cut by rows over layout.tp");
  says({"net.mesh_level=10"}, "net.mesh_level");
  says({"net.radius=0.00001", "net.img_height=8", "net.img_width=13"}, "no grid point reaches a mesh node");
  says({"net.img_height=1"}, "net.img_height");
  says({"net.img_height=20001", "net.img_width=20000"}, "32 bits");
}

}  // namespace
}  // namespace isobar::plan
