// A graph network under every supported layout axis trains like one rank. Four streams cross each pipeline
// boundary; the last step's upstream nodes have no reader.
#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/nets/graph/partition.h"
#include "tests/engine/worlds/layouts.h"

namespace isobar::engine {
namespace {

void graph_like_one_rank(const Words& layout) {
  expect_like_one_rank(layout, kGraph);
}

TEST(RegionalGnnTraining, LearnsAndRepeatsToTheLastBit) {
  expect_learns(kGraph, 0.97);
  expect_same_bits({}, {}, kGraph);
}

TEST(RegionalGnnTraining, IsTheSameOverReplicasAndMicroBatches) {
  graph_like_one_rank({"policy.micro_batch=12"});
  graph_like_one_rank({"policy.micro_batch=1"});
  graph_like_one_rank({"layout.dp=2", "policy.micro_batch=3"});
}

TEST(RegionalGnnTraining, IsTheSameOverStages) {
  graph_like_one_rank({"layout.pp=2", "policy.micro_batch=3"});
  graph_like_one_rank({"layout.pp=3", "policy.micro_batch=2", "policy.schedule=gpipe"});
  graph_like_one_rank({"layout.pp=2", "layout.dp=2", "policy.micro_batch=2"});
}

// Five message-passing steps over four chunks: some chunks have two steps, the last has fewer outputs, and
// the net's ends differ from all.
TEST(RegionalGnnTraining, RunsInChunksOfUnequalParts) {
  static const TestNet deeper = [] {
    TestNet net = kGraph;
    net.set.push_back("net.num_gnn_layers=5");
    return net;
  }();
  for (const char* recompute : {"none", "full"})
    expect_like_one_rank({"layout.pp=2", "layout.vpp=2", "policy.schedule=interleaved",
                          "policy.micro_batch=2", std::string("policy.recompute=") + recompute},
                         deeper);
}

TEST(RegionalGnnTraining, SplitsItsBackwardPass) {
  graph_like_one_rank({"layout.pp=3", "policy.schedule=zb-h1", "policy.micro_batch=2"});
}

TEST(RegionalGnnTraining, RecomputesItsParts) {
  graph_like_one_rank({"policy.recompute=full", "policy.micro_batch=6"});
  graph_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=3", "policy.micro_batch=6"});
  graph_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=2",
                       "policy.recompute_method=block", "layout.pp=2", "policy.micro_batch=2"});
  graph_like_one_rank({"policy.recompute=selective", "layout.pp=3", "policy.micro_batch=2"});
}

TEST(RegionalGnnTraining, KeepsItsUnitsInShards) {
  for (const char* zero : {"1", "2", "3"})
    graph_like_one_rank({"layout.dp=2", "layout.pp=2", std::string("policy.zero=") + zero,
                         "policy.micro_batch=2", "policy.bucket_mb=0.02"});
}

TEST(RegionalGnnTraining, IsTheSameWhereTheGraphIsCut) {
  graph_like_one_rank({"layout.cp=2", "policy.micro_batch=1"});
  graph_like_one_rank({"layout.cp=3", "policy.micro_batch=4"});
  graph_like_one_rank({"layout.cp=4", "policy.micro_batch=12"});
  graph_like_one_rank(
      {"layout.cp=2", "layout.dp=2", "policy.micro_batch=3", "policy.zero=3", "policy.bucket_mb=0.02"});
  graph_like_one_rank({"layout.cp=2", "layout.pp=3", "policy.micro_batch=2", "policy.schedule=zb-h1"});
  graph_like_one_rank(
      {"layout.cp=2", "layout.dp=2", "layout.pp=2", "policy.micro_batch=2", "policy.recompute=full"});
}

// With METIS a rank's nodes are scattered over the fields, and ranks have unequal parts of both regions.
TEST(RegionalGnnTraining, IsTheSameWhereMetisCutsTheGraph) {
  if (!nets::has_metis()) GTEST_SKIP() << "built without METIS";
  graph_like_one_rank({"layout.cp=2", "net.partition=metis", "policy.micro_batch=6"});
  graph_like_one_rank({"layout.cp=3", "net.partition=metis", "policy.micro_batch=4", "policy.edge_chunks=2"});
  graph_like_one_rank({"layout.cp=2", "layout.dp=2", "layout.tp=2", "net.partition=metis",
                       "policy.micro_batch=3", "policy.zero=3", "policy.bucket_mb=0.02"});
  graph_like_one_rank(
      {"layout.cp=2", "layout.pp=2", "net.partition=metis", "policy.micro_batch=2", "policy.recompute=full"});
}

// Points keep the weight of their latitude under any partition.
TEST(RegionalGnnTraining, CountsItsPointsByTheirLatitudes) {
  static const TestNet weighted = [] {
    TestNet net = kGraph;
    net.set.push_back("train.latitude_weights=true");
    return net;
  }();
  EXPECT_NE(one_rank(weighted).losses[0], one_rank(kGraph).losses[0]);
  expect_like_one_rank({"layout.cp=2", "policy.micro_batch=3"}, weighted);
  if (nets::has_metis())
    expect_like_one_rank({"layout.cp=3", "net.partition=metis", "policy.micro_batch=4"}, weighted);
}

// Edges in uneven chunks, with several samples, and nested in recomputation.
TEST(RegionalGnnTraining, IsTheSameInChunksOfEdges) {
  graph_like_one_rank({"policy.edge_chunks=2", "policy.micro_batch=12"});
  graph_like_one_rank({"policy.edge_chunks=7", "layout.cp=3", "policy.micro_batch=4"});
  graph_like_one_rank({"policy.edge_chunks=3", "layout.cp=2", "layout.tp=2", "layout.dp=2",
                       "policy.micro_batch=3", "policy.zero=3", "policy.bucket_mb=0.02"});
  graph_like_one_rank(
      {"policy.edge_chunks=3", "layout.pp=3", "policy.micro_batch=2", "policy.recompute=full"});
  graph_like_one_rank({"policy.edge_chunks=1000", "policy.micro_batch=6", "policy.recompute=selective"});
}

// MLPs of three linears: two form a column/row-parallel pair, the third is replicated.
TEST(RegionalGnnTraining, IsTheSameWhereItsMlpsAreCut) {
  graph_like_one_rank({"layout.tp=2", "policy.micro_batch=6"});
  graph_like_one_rank({"layout.tp=3", "policy.micro_batch=12", "policy.recompute=selective"});
  graph_like_one_rank({"layout.tp=8", "policy.micro_batch=4", "policy.recompute=full"});
  graph_like_one_rank({"layout.tp=2", "layout.pp=3", "policy.micro_batch=2", "policy.schedule=zb-h1"});
  graph_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.dp=2", "policy.micro_batch=3", "policy.zero=3",
                       "policy.bucket_mb=0.02"});
  graph_like_one_rank({"layout.tp=4", "layout.dp=2", "policy.micro_batch=2", "policy.zero=1",
                       "policy.bucket_mb=0.02", "layout.order=dp-tp-cp-pp"});
}

// MLPs of two linears are fully partitioned; of four, two pairs have a reduction between them in backward.
TEST(RegionalGnnTraining, CutsMlpsOfAnyDepth) {
  for (const char* layers : {"1", "3"}) {
    TestNet net = kGraph;
    net.set.push_back(std::string("net.mlp_num_hidden_layers=") + layers);
    expect_like_one_rank({"layout.tp=2", "layout.cp=2", "policy.micro_batch=6"}, net);
    expect_like_one_rank({"layout.tp=2", "layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1"},
                         net);
  }
}

// Only the edges' streams and the sums are saved; half the chunk size takes half the scratch.
TEST(RegionalGnnTraining, KeepsNoActivationsOfEdgesInChunks) {
  const auto memory = [](int64_t chunks, plan::BufferKind kind) {
    const RunSpec s = load_run_spec(source_dir() + "/configs/models/regional-gnn.yaml",
                                    {"train.global_batch=1", "policy.edge_chunks=" + std::to_string(chunks)});
    const plan::Plan plan = nets::build_plan(s, 0, {});
    int64_t edges = 0;  // in MLPs of edges
    for (const plan::Buffer& b : plan.buffers)
      if (b.kind == kind && (b.name.find("/intra.") != std::string::npos) && b.name.starts_with("step05"))
        edges += b.bytes();
    return edges;
  };
  const int64_t R = 3721, E = 29768, D = 256, f32 = 4;
  // whole: input and output of two SiLU, input of the norm, its statistics, the sums; in chunks: nodes'
  // products, the sums
  EXPECT_EQ(memory(1, plan::BufferKind::saved), f32 * (5 * E * D + 2 * E + R * D));
  EXPECT_EQ(memory(4, plan::BufferKind::saved), f32 * 3 * R * D);
  const RunSpec split = load_run_spec(kGraph.config, {});
  RunSpec zb = split;
  zb.policy.edge_chunks = 2, zb.policy.schedule = PipelineSchedule::zb_h1, zb.layout.pp = 2,
  zb.policy.micro_batch = 2;
  EXPECT_THROW(nets::build_plan(zb, 0, {}), ConfigError);
}

TEST(RegionalGnnTraining, KeepsNoActivationsOfSiLUWhenItRecomputesThem) {
  const auto saved = [](const char* recompute) {
    const RunSpec s = load_run_spec(kGraph.config, {std::string("policy.recompute=") + recompute});
    return nets::build_plan(s, 0, {}).memory.by_kind[static_cast<int>(plan::BufferKind::saved)];
  };
  EXPECT_LT(saved("selective"), 0.8 * static_cast<double>(saved("none")));
  EXPECT_LT(saved("full"), saved("selective"));
}

}  // namespace
}  // namespace isobar::engine
