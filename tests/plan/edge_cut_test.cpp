// Graphs cut over ranks: every edge is on one rank, halos are what its edges read, sends match receives, and
// wire bytes are the cut's.
#include "model/nets/graph/edge_cut.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "model/nets/build.h"
#include "model/nets/graph/globe_graph.h"
#include "model/plan/layout.h"
#include "model/plan/ops/work.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

nets::EdgeSet random_edges(std::mt19937_64& random, int64_t senders, int64_t receivers) {
  nets::EdgeSet e;
  for (int64_t r = 0; r < receivers; ++r) {
    e.receiver_offsets.push_back(static_cast<int32_t>(e.senders.size()));
    for (int64_t s = 0; s < senders; ++s)
      if (random() % 4 == 0) {
        e.senders.push_back(static_cast<int32_t>(s));
        e.receivers.push_back(static_cast<int32_t>(r));
        e.features.push_back(static_cast<float>(random() % 1000));
        e.features.push_back(static_cast<float>(random() % 1000));
      }
  }
  e.receiver_offsets.push_back(static_cast<int32_t>(e.senders.size()));
  e.list_by_sender(senders);
  return e;
}

TEST(EdgeCut, GivesEveryEdgeToTheRankOfItsReceiver) {
  std::mt19937_64 random(std::random_device{}());
  for (int draw = 0; draw < 40; ++draw) {
    const int64_t senders = 1 + random() % 40, receivers = 8 + random() % 30, ranks = 1 + random() % 8;
    const nets::EdgeSet all = random_edges(random, senders, receivers);
    const auto cuts = nets::cut_edges(all, split_evenly(senders, ranks), split_evenly(receivers, ranks));
    ASSERT_EQ(static_cast<int64_t>(cuts.size()), ranks);
    size_t edge = 0;
    for (int64_t r = 0; r < ranks; ++r) {
      const nets::EdgeCut& c = cuts[static_cast<size_t>(r)];
      if (c.edges == 0) continue;
      const nets::EdgeSet mine = nets::local_edges(all, c);
      int64_t elsewhere = 0;
      std::set<int32_t> read;
      for (size_t i = 0; i < mine.senders.size(); ++i, ++edge) {
        const int32_t s = mine.senders[i];
        const int64_t whole =
            s < c.senders ? c.first_sender + s : c.halo.at(static_cast<size_t>(s - c.senders));
        EXPECT_EQ(whole, all.senders[edge]);
        EXPECT_EQ(c.first_receiver + mine.receivers[i], all.receivers[edge]);
        EXPECT_EQ(mine.features[2 * i], all.features[2 * edge]);
        EXPECT_EQ(mine.features[2 * i + 1], all.features[2 * edge + 1]);
        if (s >= c.senders) ++elsewhere, read.insert(all.senders[edge]);
      }
      EXPECT_EQ(elsewhere, c.cut_edges);
      EXPECT_EQ(std::vector<int32_t>(read.begin(), read.end()), c.halo) << "each once, in order";
      EXPECT_EQ(static_cast<int64_t>(mine.sender_offsets.size()), c.table() + 1);
    }
    EXPECT_EQ(edge, all.senders.size());
  }
}

// Rows with the sender's index as value, sent and summed again as the plan's ops do
TEST(EdgeCut, SendsWhatTheOthersReadAndAddsUpWhatComesBack) {
  std::mt19937_64 random(std::random_device{}());
  for (int draw = 0; draw < 40; ++draw) {
    const int64_t senders = 8 + random() % 40, receivers = 8 + random() % 30, ranks = 2 + random() % 7;
    const nets::EdgeSet all = random_edges(random, senders, receivers);
    const auto cuts = nets::cut_edges(all, split_evenly(senders, ranks), split_evenly(receivers, ranks));
    for (size_t to = 0; to < cuts.size(); ++to) {
      std::vector<int64_t> arrived;
      for (size_t from = 0; from < cuts.size(); ++from) {
        const nets::EdgeCut& c = cuts[from];
        EXPECT_EQ(c.send[to], cuts[to].receive[from]);
        const int64_t begin =
            std::accumulate(c.send.begin(), c.send.begin() + static_cast<ptrdiff_t>(to), int64_t{0});
        for (int64_t i = 0; i < c.send[to]; ++i)
          arrived.push_back(c.first_sender + c.sent[static_cast<size_t>(begin + i)]);
      }
      EXPECT_EQ(arrived, std::vector<int64_t>(cuts[to].halo.begin(), cuts[to].halo.end()));
      // Backward: the k-th sent row's sum is added to its origin.
      const nets::EdgeCut& c = cuts[to];
      ASSERT_EQ(static_cast<int64_t>(c.returned_offsets.size()), c.senders + 1);
      size_t once = 0;
      for (int64_t s = 0; s < c.senders; ++s) {
        const auto begin = static_cast<size_t>(c.returned_offsets[static_cast<size_t>(s)]),
                   end = static_cast<size_t>(c.returned_offsets[static_cast<size_t>(s) + 1]);
        EXPECT_EQ(c.returned_rows[begin], s) << "its own sum first";
        for (size_t i = begin + 1; i < end; ++i, ++once)
          EXPECT_EQ(c.sent.at(static_cast<size_t>(c.returned_rows[i] - c.table())), s);
      }
      EXPECT_EQ(once, c.sent.size());
    }
  }
}

TEST(EdgeCut, SplitsByWeight) {
  EXPECT_EQ(nets::split_by_weight({1, 1, 1, 1, 1, 1}, 3), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(nets::split_by_weight({9, 1, 1, 1}, 2), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(nets::split_by_weight({1, 1, 1, 9}, 3), (std::vector<int64_t>{2, 1, 1}));
  EXPECT_EQ(nets::split_by_weight({0, 0, 0}, 3), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(nets::split_by_weight({5, 5}, 1), (std::vector<int64_t>{2}));
}

// In a step of one micro-batch: twice each halo row (there and back) for each update of edges that reads it
TEST(EdgeCut, PutsTheHaloOnTheWireAndNothingElse) {
  for (const char* partition : {"bands", "metis"}) {
    if (partition == std::string("metis") && !nets::has_metis()) continue;
    const RunSpec s = load_run_spec(source_dir() + "/configs/models/graphcast-tiny.yaml",
                                    {"layout.cp=4", "train.global_batch=2", "policy.micro_batch=2",
                                     std::string("net.partition=") + partition});
    const GraphcastSpec& n = s.net.graphcast();
    const auto cut = nets::globe_cut(n, 4);
    double halo = 0, wire = 0;
    for (size_t r = 0; r < 4; ++r)
      halo += static_cast<double>(cut->grid_to_mesh[r].halo.size() + cut->mesh_to_grid[r].halo.size()) +
              static_cast<double>(n.num_gnn_layers) * static_cast<double>(cut->level[r].halo.size());
    for (int rank = 0; rank < 4; ++rank) {
      const Plan p = nets::build_plan(s, rank, {});
      for (const Op& op : p.ops)
        if (op.kind == OpKind::all_to_all) wire += work(op, p).wire_bytes;
    }
    EXPECT_EQ(wire, 2 * 2 * 4 * static_cast<double>(n.mlp_hidden_size) * halo);
    EXPECT_GT(halo, 0);
  }
}

}  // namespace
}  // namespace isobar::plan
