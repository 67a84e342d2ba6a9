// Nodes assigned to ranks by METIS: each once, evenly, reproducibly; the graph is unchanged.
#include "model/nets/graph/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "model/base/spec/spec.h"
#include "model/nets/graph/globe_graph.h"
#include "model/nets/graph/graph_cut.h"
#include "model/nets/graph/region_graph.h"
#include "model/nets/graph/regional_gnn.h"
#include "model/nets/points.h"
#include "tests/paths.h"

namespace isobar::plan {
namespace {

nets::Partition shuffled(std::mt19937_64& random, int64_t nodes) {
  nets::Partition p;
  p.order.resize(static_cast<size_t>(nodes));
  std::iota(p.order.begin(), p.order.end(), 0);
  std::shuffle(p.order.begin(), p.order.end(), random);
  p.parts = {nodes};
  return p;
}

RegionalGnnSpec source() {
  return load_run_spec(source_dir() + "/configs/models/regional-gnn.yaml", {})->net.regional_gnn();
}

// Each receiver has the same senders with the same features, in the same order
TEST(Partition, RenumbersNodesAndKeepsTheGraph) {
  std::mt19937_64 random(std::random_device{}());
  for (int draw = 0; draw < 20; ++draw) {
    const int64_t senders = 1 + static_cast<int64_t>(random() % 30),
                  receivers = 1 + static_cast<int64_t>(random() % 30);
    nets::EdgeSet e;
    for (int64_t r = 0; r < receivers; ++r) {
      e.receiver_offsets.push_back(static_cast<int32_t>(e.senders.size()));
      for (int64_t s = 0; s < senders; ++s)
        if (random() % 3 == 0) {
          e.senders.push_back(static_cast<int32_t>(s));
          e.receivers.push_back(static_cast<int32_t>(r));
          e.features.push_back(static_cast<float>(random() % 1000));
        }
    }
    e.receiver_offsets.push_back(static_cast<int32_t>(e.senders.size()));
    e.list_by_sender(senders);
    const nets::Partition from = shuffled(random, senders), to = shuffled(random, receivers);
    const nets::EdgeSet there = nets::renumbered(e, from, to);
    ASSERT_EQ(there.senders.size(), e.senders.size());
    for (int64_t place = 0; place < receivers; ++place) {
      const auto node = static_cast<size_t>(to.order[static_cast<size_t>(place)]);
      const auto begin = static_cast<size_t>(there.receiver_offsets[static_cast<size_t>(place)]),
                 before = static_cast<size_t>(e.receiver_offsets[node]);
      const size_t n = static_cast<size_t>(e.receiver_offsets[node + 1]) - before;
      ASSERT_EQ(static_cast<size_t>(there.receiver_offsets[static_cast<size_t>(place) + 1]) - begin, n);
      for (size_t i = 0; i < n; ++i) {
        EXPECT_EQ(from.order[static_cast<size_t>(there.senders[begin + i])], e.senders[before + i]);
        EXPECT_EQ(there.receivers[begin + i], place);
        EXPECT_EQ(there.features[begin + i], e.features[before + i]);
      }
    }
    EXPECT_EQ(there.sender_offsets.back(), static_cast<int32_t>(e.senders.size()));
  }
}

TEST(Partition, MetisDealsEveryNodeOutOnceAndEvenly) {
  if (!nets::has_metis()) GTEST_SKIP() << "built without METIS";
  RegionalGnnSpec n = source();
  n.partition = GraphPartition::metis;
  for (const int64_t ranks : {2, 4, 7}) {
    const auto cut = nets::region_cut(n, ranks);
    for (const nets::Partition* p : {&cut->down, &cut->up}) {
      std::vector<int32_t> nodes = p->order;
      std::sort(nodes.begin(), nodes.end());
      for (size_t i = 0; i < nodes.size(); ++i) ASSERT_EQ(nodes[i], static_cast<int32_t>(i));
    }
    EXPECT_EQ(cut->down.nodes(), n.tokens());
    EXPECT_EQ(cut->up.nodes(), nets::sending_box(n).points());
    for (const std::vector<nets::EdgeCut>* cuts : {&cut->intra, &cut->boundary}) {
      int64_t all = 0, most = 0;
      for (const nets::EdgeCut& c : *cuts) all += c.edges, most = std::max(most, c.edges);
      EXPECT_LT(static_cast<double>(most), 1.1 * static_cast<double>(all) / static_cast<double>(ranks))
          << ranks;
    }
  }
  GraphcastSpec globe;
  globe.img_height = 37, globe.img_width = 72, globe.mesh_level = 3, globe.partition = GraphPartition::metis;
  const auto cut = nets::globe_cut(globe, 4);
  for (const nets::Partition* p : {&cut->grid, &cut->mesh}) {
    std::vector<int32_t> nodes = p->order;
    std::sort(nodes.begin(), nodes.end());
    for (size_t i = 0; i < nodes.size(); ++i) ASSERT_EQ(nodes[i], static_cast<int32_t>(i));
  }
  EXPECT_EQ(cut->grid.nodes(), globe.tokens());
  EXPECT_EQ(cut->mesh.nodes(), globe.mesh_nodes());
  for (const int64_t points : cut->grid.parts)
    EXPECT_LT(static_cast<double>(points), 1.1 * static_cast<double>(globe.tokens()) / 4);
  // Reproducible: another cut in between changes nothing.
  const nets::EdgeSet ring = [] {
    nets::EdgeSet e;
    for (int32_t r = 0; r < 100; ++r) {
      e.receiver_offsets.push_back(r);
      e.senders.push_back((r + 1) % 100);
      e.receivers.push_back(r);
    }
    e.receiver_offsets.push_back(100);
    e.list_by_sender(100);
    return e;
  }();
  const std::vector<nets::Evenly> alike{{0, std::vector<int64_t>(100, 1)}};
  const auto once = nets::metis_partition({100}, alike, {{&ring, 0, 0}}, 3),
             again = nets::metis_partition({100}, alike, {{&ring, 0, 0}}, 3);
  EXPECT_EQ(once[0].order, again[0].order);
  EXPECT_EQ(once[0].parts, again[0].parts);
}

// METIS's purpose: over many ranks, compact parts have shorter borders than bands. Over few ranks bands of a
// square region are as short.
TEST(Partition, BothCutsAreToldAndMetisExchangesFewerRows) {
  if (!nets::has_metis()) GTEST_SKIP() << "built without METIS";
  const std::vector<nets::GraphCut> cuts = nets::graph_cuts(source(), 8);
  ASSERT_EQ(cuts.size(), 2u);
  EXPECT_EQ(cuts[0].partition, GraphPartition::bands);
  EXPECT_TRUE(cuts[0].used && !cuts[1].used);
  std::map<GraphPartition, int64_t> halo;
  for (const nets::GraphCut& c : cuts)
    for (const nets::CutOfEdges& e : c.edges) halo[c.partition] += e.halo;
  EXPECT_LT(halo.at(GraphPartition::metis), halo.at(GraphPartition::bands));
  GraphcastSpec globe;
  globe.img_height = 37, globe.img_width = 72, globe.mesh_level = 3, globe.partition = GraphPartition::metis;
  halo.clear();
  for (const nets::GraphCut& c : nets::graph_cuts(globe, 4)) {
    EXPECT_EQ(c.used, c.partition == GraphPartition::metis);
    for (const nets::CutOfEdges& e : c.edges) halo[c.partition] += e.halo;
  }
  EXPECT_LT(halo.at(GraphPartition::metis), halo.at(GraphPartition::bands));
  const nets::GraphPicture picture = nets::graph_picture(source(), 4);
  EXPECT_EQ(picture.nodes.size(), 3721u + 396u) << "those that take part";
  EXPECT_EQ(picture.edges.size(), 29768u + 9760u);
}

// A point's latitude under any numbering
TEST(Partition, LossesCountByTheLatitudesOfTheirPoints) {
  RunSpec s = load_run_spec(source_dir() + "/configs/models/regional-gnn-tiny.yaml", {});
  const std::vector<double> in_order = nets::loss_latitudes(s, {});
  ASSERT_EQ(in_order.size(), 25u);
  for (size_t i = 0; i < 25; ++i) EXPECT_EQ(in_order[i], 50 - static_cast<double>(i / 5));
  if (!nets::has_metis()) return;
  s.layout.cp = 2, s.net.regional_gnn().partition = GraphPartition::metis;
  const std::vector<double> dealt = nets::loss_latitudes(s, {});
  const std::vector<int32_t> order = nets::region_cut(s.net.regional_gnn(), 2)->down.order;
  for (size_t i = 0; i < 25; ++i) EXPECT_EQ(dealt.at(i), in_order.at(static_cast<size_t>(order.at(i))));
  RunSpec globe = load_run_spec(source_dir() + "/configs/models/graphcast-tiny.yaml",
                                {"layout.cp=3", "net.partition=metis"});
  const std::vector<double> rows{90, 60, 30, 0, -30, -60, -90};
  const std::vector<double> points = nets::loss_latitudes(globe, rows);
  const std::vector<int32_t> of = nets::globe_cut(globe.net.graphcast(), 3)->grid.order;
  ASSERT_EQ(points.size(), 84u);
  for (size_t i = 0; i < 84; ++i) EXPECT_EQ(points[i], rows[static_cast<size_t>(of.at(i) / 12)]);
  EXPECT_EQ(nets::loss_latitudes(globe, {}), points) << "from pole to pole where no file says";
  globe.net.graphcast().partition = GraphPartition::bands;
  EXPECT_EQ(nets::loss_latitudes(globe, rows), rows);
  const RunSpec vit = load_run_spec(source_dir() + "/configs/models/vit-tiny.yaml", {});
  EXPECT_EQ(nets::loss_latitudes(vit, {3, 2, 1}), (std::vector<double>{3, 2, 1}));
}

}  // namespace
}  // namespace isobar::plan
