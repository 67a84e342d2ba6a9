// The regional net as a plan: the source's counts exactly, its graph against brute force, constants in
// memory, dumps and hashes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <map>
#include <numbers>
#include <random>
#include <set>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/nets/graph/region_graph.h"
#include "model/nets/parts.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

RunSpec source_net() {
  return load_run_spec(source_dir() + "/configs/models/regional-gnn.yaml", {});
}
RunSpec tiny_net(const std::vector<std::string>& set = {}) {
  return load_run_spec(source_dir() + "/configs/models/regional-gnn-tiny.yaml", set);
}

// reference/systems.md 4.4
TEST(RegionalGnn, HasTheSourcesCounts) {
  const RunSpec s = source_net();
  const RegionalGnnSpec& n = s.net.regional_gnn();
  EXPECT_EQ(n.downstream_box().points(), 3721);
  EXPECT_EQ(n.upstream_box().points(), 16261);
  EXPECT_EQ(n.intra_edges(), 29768);
  EXPECT_EQ(n.boundary_nodes(), 305);
  EXPECT_EQ(n.boundary_edges(), 9760);
  EXPECT_EQ(nets::sending_box(n).points(), 66 * 6) << "what edges read of the upstream region";
  EXPECT_EQ(nets::build_plan(s, 0, {}).parameter_count(), 15052033);
}

int64_t total(const RegionalGnnSpec& n) {
  const int64_t D = n.latent_size, H = n.mlp_hidden_size;
  const auto mlp = [&](int64_t in, int64_t out, bool norm) {
    return (in + 1) * H + (n.mlp_num_hidden_layers - 1) * (H + 1) * H + (H + 1) * out + (norm ? 2 * out : 0);
  };
  return 2 * mlp(n.in_channels, D, true) + 2 * mlp(3, D, true) +
         n.num_gnn_layers * (3 * mlp(3 * D, D, true) + mlp(D, D, true)) + mlp(D, n.out_channels, false);
}

TEST(RegionalGnn, CountsItsParametersAtAnySize) {
  std::mt19937_64 random(std::random_device{}());
  const auto draw = [&](int64_t from, int64_t to) {
    return std::to_string(from + static_cast<int64_t>(random() % (to - from + 1)));
  };
  for (int i = 0; i < 20; ++i) {
    const RunSpec s = tiny_net({"net.latent_size=" + draw(1, 40), "net.mlp_hidden_size=" + draw(1, 40),
                                "net.mlp_num_hidden_layers=" + draw(1, 4), "net.num_gnn_layers=" + draw(1, 5),
                                "net.in_channels=" + draw(1, 9), "net.out_channels=" + draw(1, 3)});
    EXPECT_EQ(nets::build_plan(s, 0, {}).parameter_count(), total(s.net.regional_gnn()));
  }
}

// ---- the graph ----

struct Point {
  double lat, lon;
};

std::vector<Point> points_of(const RegionalGnnSpec& n, const GridBox& box) {
  std::vector<Point> out;
  for (int64_t r = 0; r < box.rows; ++r)
    for (int64_t c = 0; c < box.columns; ++c)
      out.push_back({n.north - n.spacing * static_cast<double>(box.row + r),
                     n.west + n.spacing * static_cast<double>(box.column + c)});
  return out;
}

double degrees_between(const Point& a, const Point& b) {
  constexpr double k = std::numbers::pi / 180;
  const double up = std::sin(k * (a.lat - b.lat) / 2), across = std::sin(k * (a.lon - b.lon) / 2);
  return 2 * std::asin(std::sqrt(up * up + std::cos(k * a.lat) * std::cos(k * b.lat) * across * across)) / k;
}

// `region`: candidate senders; `from`: their numbering
void expect_nearest(const nets::EdgeSet& e, const std::vector<Point>& region, const std::vector<Point>& from,
                    const std::vector<Point>& to, int64_t k, bool itself,
                    const std::function<bool(const Point&)>& receives) {
  ASSERT_EQ(e.receiver_offsets.size(), to.size() + 1);
  for (size_t r = 0; r < to.size(); ++r) {
    const auto first = static_cast<size_t>(e.receiver_offsets[r]),
               end = static_cast<size_t>(e.receiver_offsets[r + 1]);
    ASSERT_EQ(end - first, receives(to[r]) ? static_cast<size_t>(k) : 0u) << "receiver " << r;
    if (first == end) continue;
    std::vector<double> all;
    for (const Point& p : region)
      if (itself || degrees_between(p, to[r]) > 1e-9) all.push_back(degrees_between(p, to[r]));
    std::sort(all.begin(), all.end());
    std::vector<double> chosen;
    std::set<int32_t> senders;
    for (size_t i = first; i < end; ++i) {
      const Point& s = from.at(static_cast<size_t>(e.senders[i]));
      EXPECT_EQ(e.receivers[i], static_cast<int32_t>(r));
      EXPECT_TRUE(senders.insert(e.senders[i]).second && (i == first || e.senders[i] > e.senders[i - 1]));
      chosen.push_back(degrees_between(s, to[r]));
      EXPECT_NEAR(e.features[3 * i], to[r].lat - s.lat, 1e-5);
      EXPECT_NEAR(e.features[3 * i + 1], to[r].lon - s.lon, 1e-5);
      EXPECT_NEAR(e.features[3 * i + 2], chosen.back(), 1e-5);
    }
    std::sort(chosen.begin(), chosen.end());
    for (size_t i = 0; i < chosen.size(); ++i) ASSERT_NEAR(chosen[i], all[i], 1e-9) << "receiver " << r;
  }
  // The transposed lists hold each edge once, by its sender.
  std::set<int32_t> seen;
  for (size_t s = 0; s < from.size(); ++s)
    for (int32_t i = e.sender_offsets[s]; i < e.sender_offsets[s + 1]; ++i) {
      EXPECT_EQ(e.senders.at(static_cast<size_t>(e.by_sender[static_cast<size_t>(i)])),
                static_cast<int32_t>(s));
      EXPECT_TRUE(seen.insert(e.by_sender[static_cast<size_t>(i)]).second);
    }
  EXPECT_EQ(seen.size(), e.senders.size());
}

// Each outer row and column has a sender.
void expect_tight(const nets::EdgeSet& e, const GridBox& box) {
  std::set<int64_t> rows, columns;
  for (const int32_t s : e.senders) rows.insert(s / box.columns), columns.insert(s % box.columns);
  EXPECT_EQ(*rows.begin(), 0);
  EXPECT_EQ(*rows.rbegin(), box.rows - 1);
  EXPECT_EQ(*columns.begin(), 0);
  EXPECT_EQ(*columns.rbegin(), box.columns - 1);
}

void expect_graph(const RegionalGnnSpec& n) {
  const nets::RegionGraph g = nets::region_graph(n);
  const std::vector<Point> down = points_of(n, n.downstream_box()), up = points_of(n, n.upstream_box()),
                           sending = points_of(n, nets::sending_box(n));
  ASSERT_EQ(static_cast<int64_t>(g.intra.senders.size()), n.intra_edges());
  ASSERT_EQ(static_cast<int64_t>(g.boundary.senders.size()), n.boundary_edges());
  expect_nearest(g.intra, down, down, down, n.neighbors, false, [](const Point&) { return true; });
  expect_nearest(g.boundary, up, sending, down, n.boundary_neighbors, true,
                 [&](const Point& p) { return p.lon <= n.boundary_longitude + 1e-6; });
  expect_tight(g.boundary, nets::sending_box(n));
}

TEST(RegionGraph, HasTheNearestOfAllPairs) {
  expect_graph(tiny_net().net.regional_gnn());
  // Near the pole, where degrees of longitude are short
  const RunSpec north =
      tiny_net({"net.north=89.5", "net.downstream=[83.5, 87.5, 5, 9]", "net.upstream=[81.5, 89.5, 1, 5]"});
  expect_graph(north.net.regional_gnn());
  // Regions to the east, around and within one another
  for (const char* upstream : {"[44, 52, 9, 11]", "[44, 52, 0, 11]", "[47, 48, 6, 8]"})
    expect_graph(
        tiny_net({std::string("net.upstream=") + upstream, "net.boundary_longitude=8"}).net.regional_gnn());
}

TEST(RegionGraph, IsTheSourcesAtItsSize) {
  expect_graph(source_net().net.regional_gnn());
}

// ---- constants ----

TEST(Constants, AreCountedAndPlacedOnceHoweverManyMicroBatches) {
  const auto bytes_of = [](const Plan& p, BufferKind k) { return p.memory.by_kind[static_cast<int>(k)]; };
  const RunSpec s = tiny_net({"policy.micro_batch=8"}), more = tiny_net({"policy.micro_batch=1"});
  const Plan one = nets::build_plan(s, 0, {}), many = nets::build_plan(more, 0, {});
  const RegionalGnnSpec& n = s.net.regional_gnn();
  const auto up_to_lines = [](int64_t elements) { return (4 * elements + 63) / 64 * 64; };
  int64_t bytes = 0;
  for (const auto& [edges, senders] :
       {std::pair{n.intra_edges(), n.tokens()}, {n.boundary_edges(), nets::sending_box(n).points()}})
    bytes += 3 * up_to_lines(edges) + up_to_lines(3 * edges) + up_to_lines(n.tokens() + 1) +
             up_to_lines(senders + 1);
  EXPECT_EQ(bytes_of(one, BufferKind::constants), bytes);
  EXPECT_EQ(bytes_of(many, BufferKind::constants), bytes);
  EXPECT_EQ(one.constants.size(), 12u);
  int64_t all = 0;
  for (const int64_t b : one.memory.by_kind) all += b;
  EXPECT_EQ(all, one.memory.arena + one.memory.host);
}

TEST(Constants, AreInDumpsByTheirContent) {
  const std::string a = to_text(nets::build_plan(tiny_net(), 0, {})),
                    b = to_text(nets::build_plan(tiny_net(), 0, {})),
                    shifted = to_text(
                        nets::build_plan(tiny_net({"net.north=52.5", "net.downstream=[46.5, 50.5, 5, 9]",
                                                   "net.upstream=[44.5, 52.5, 1, 5]"}),
                                         0, {}));
  EXPECT_EQ(a, b);
  EXPECT_NE(a.find("constant intra.sender i32 100 sha256 "), std::string::npos) << a.substr(0, 2000);
  EXPECT_NE(a, shifted) << "the same sizes, other distances";
}

TEST(Constants, AreOfARankWhosePartsReadThem) {
  const RunSpec s = tiny_net({"layout.pp=3", "policy.micro_batch=2"});
  const auto names = [&](int rank) {
    std::set<std::string> out;
    const Plan p = nets::build_plan(s, rank, {});
    for (const Constant& c : p.constants) out.insert(p.buffers[static_cast<size_t>(c.at.buffer)].name);
    return out;
  };
  EXPECT_TRUE(names(0).contains("intra.features"));
  EXPECT_FALSE(names(1).contains("intra.features")) << "the embedding reads them";
  EXPECT_TRUE(names(1).contains("boundary.by_sender"));
}

// Half a million nodes: building the graph would take seconds a rank.
TEST(Constants, AreNotMadeForAPlanThatIsOnlyPriced) {
  RunSpec s = source_net();
  RegionalGnnSpec& n = s.net.regional_gnn();
  n.spacing = 0.02, n.img_height = 1251, n.img_width = 2751;
  s.layout.dp = 64, s.train.global_batch = 64;
  const std::clock_t begin = std::clock();  // process time, independent of other load
  for (int rank = 0; rank < 20; ++rank) EXPECT_GT(nets::build_plan(s, rank, {}).memory.arena, 0);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 2.0);
  EXPECT_EQ(n.intra_edges(), 8 * 751 * 751);
}

// ---- refusals ----

TEST(RegionalGnn, RefusesWhatItCannotTakeAndSaysWhy) {
  const auto message = [](const std::vector<std::string>& set) -> std::string {
    try {
      nets::build_plan(tiny_net(set), 0, {});
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "nothing";
  };
  const auto says = [&](const std::vector<std::string>& set, const std::string& what) {
    EXPECT_NE(message(set).find(what), std::string::npos) << message(set);
  };
  says({"layout.tp=5"}, "5 does not divide net.mlp_hidden_size = 24");
  says({"layout.tp=2", "policy.sequence_parallel=true"}, "not cut by rows over layout.tp");
  says({"layout.cp=8"}, "without any of the 50 edges 'boundary'");
  says({"layout.cp=2", "policy.cp_kind=ring"}, "ring is a way of attention");
  says({"net.neighbors=25"}, "a downstream node has 24 others");
  says({"net.boundary_neighbors=46"}, "there are 45 upstream nodes");
  says({"net.downstream=[46, 50, 5, 19]"}, "reaches beyond the grid");
  says({"net.upstream=[46, 50, 5]"}, "has 3 numbers");
  says({"net.boundary_longitude=4"}, "no downstream node at the boundary");
  says({"net.spacing=0"}, "net.spacing");
  says({"layout.pp=4", "policy.micro_batch=1"}, "layout.pp");
}

}  // namespace
}  // namespace isobar::plan
