// SVG of a graph and its partition: every node once in its rank's colour, every edge between ranks as a line.
#include "reports/figures/graph_picture.h"

#include <gtest/gtest.h>

#include <string>

#include "model/base/spec/spec.h"
#include "tests/paths.h"

namespace isobar::report {
namespace {

int64_t times(const std::string& text, const std::string& word) {
  int64_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST(GraphPicture, DrawsEveryNodeAndWhatLiesBetweenRanks) {
  nets::GraphPicture g;
  g.nodes = {{50, 0, 0, true}, {50, 1, 0, true}, {49, 0, 1, true}, {49, 179, 1, false}, {49, -179, 1, true}};
  g.edges = {{0, 1}, {1, 0}, {0, 2}, {3, 4}, {1, 2}, {2, 1}};
  const std::string svg = graph_svg(g, "a < b & c");
  EXPECT_EQ(times(svg, "<circle "), 5);
  EXPECT_EQ(times(svg, "<line "), 3) << "pairs of nodes, whichever way their edges go";
  EXPECT_NE(svg.find("1 pairs with edges inside ranks, 2 between ranks; 1 edges over 180 E left out"),
            std::string::npos)
      << svg;
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  for (const char* rank : {"rank 0", "rank 1"}) EXPECT_EQ(times(svg, rank), 1);
  EXPECT_EQ(times(svg, "fill-opacity"), 1) << "the node that only sends";
}

TEST(GraphPicture, OfANetIsCutAsItsPlanIs) {
  const NetSpec net = load_run_spec(source_dir() + "/configs/models/regional-gnn-tiny.yaml", {})->net;
  const nets::GraphPicture whole = nets::graph_picture(net, 1), cut = nets::graph_picture(net, 3);
  EXPECT_EQ(whole.nodes.size(), 39u) << "all downstream, and upstream the box that edges read";
  int64_t between = 0;
  for (const auto& [from, to] : cut.edges)
    between += cut.nodes[static_cast<size_t>(from)].rank != cut.nodes[static_cast<size_t>(to)].rank;
  int64_t reported = 0;
  const std::vector<nets::GraphCut> cuts = nets::graph_cuts(net, 3);
  for (const nets::CutOfEdges& e : cuts.at(0).edges) reported += e.cut;
  EXPECT_EQ(between, reported);
  for (const auto& n : whole.nodes) EXPECT_EQ(n.rank, 0);
  EXPECT_TRUE(nets::graph_picture(load_run_spec(source_dir() + "/configs/models/vit-tiny.yaml", {})->net, 2)
                  .nodes.empty());
}

}  // namespace
}  // namespace isobar::report
