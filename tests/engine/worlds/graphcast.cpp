// GraphCast under every supported layout axis trains like one rank. The grid's stream bypasses the processor
// steps across every pipeline boundary.
#include "model/nets/build.h"
#include "model/nets/graph/partition.h"
#include "tests/engine/worlds/layouts.h"

namespace isobar::engine {
namespace {

void globe_like_one_rank(const Words& layout) {
  expect_like_one_rank(layout, kGlobe);
}

TEST(GraphcastTraining, LearnsAndRepeatsToTheLastBit) {
  expect_learns(kGlobe, 0.97);
  expect_same_bits({}, {}, kGlobe);
}

TEST(GraphcastTraining, IsTheSameOverReplicasAndMicroBatches) {
  globe_like_one_rank({"policy.micro_batch=1"});
  globe_like_one_rank({"layout.dp=2", "policy.micro_batch=3"});
}

TEST(GraphcastTraining, IsTheSameOverStages) {
  globe_like_one_rank({"layout.pp=2", "policy.micro_batch=3"});
  globe_like_one_rank({"layout.pp=5", "policy.micro_batch=1", "policy.schedule=gpipe"});
  globe_like_one_rank({"layout.pp=2", "policy.schedule=interleaved", "layout.vpp=2", "policy.micro_batch=2"});
}

TEST(GraphcastTraining, SplitsItsBackwardPass) {
  globe_like_one_rank({"layout.pp=3", "policy.schedule=zb-h1", "policy.micro_batch=2"});
  globe_like_one_rank({"layout.pp=2", "policy.schedule=zb-h1", "policy.micro_batch=1"});
}

TEST(GraphcastTraining, RecomputesItsParts) {
  globe_like_one_rank({"policy.recompute=full", "policy.micro_batch=6"});
  globe_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=2", "policy.micro_batch=1"});
  globe_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=3",
                       "policy.recompute_method=block", "layout.pp=2", "policy.micro_batch=2"});
  globe_like_one_rank({"policy.recompute=selective", "layout.pp=3", "policy.micro_batch=2"});
}

TEST(GraphcastTraining, KeepsItsUnitsInShards) {
  for (const char* zero : {"1", "2", "3"})
    globe_like_one_rank({"layout.dp=2", "layout.pp=2", std::string("policy.zero=") + zero,
                         "policy.micro_batch=2", "policy.bucket_mb=0.02"});
}

// Halo rows are exchanged before each step; each rank sums the edges of its own receivers.
TEST(GraphcastTraining, IsTheSameWhereTheGraphIsCut) {
  globe_like_one_rank({"layout.cp=2", "policy.micro_batch=1"});
  globe_like_one_rank({"layout.cp=3", "policy.micro_batch=12"});
  globe_like_one_rank({"layout.cp=5", "policy.micro_batch=2"});
  globe_like_one_rank({"layout.cp=8", "policy.micro_batch=6"});
}

// With METIS a rank's grid points are scattered over the fields, and its mesh nodes over the globe.
TEST(GraphcastTraining, IsTheSameWhereMetisCutsTheGraph) {
  if (!nets::has_metis()) GTEST_SKIP() << "built without METIS";
  globe_like_one_rank({"layout.cp=5", "net.partition=metis", "policy.micro_batch=2", "policy.edge_chunks=2"});
  globe_like_one_rank({"layout.cp=2", "layout.dp=2", "layout.tp=2", "net.partition=metis", "policy.zero=3",
                       "policy.micro_batch=2", "policy.bucket_mb=0.02"});
  static const TestNet weighted = [] {
    TestNet net = kGlobe;
    net.set.push_back("train.latitude_weights=true");
    return net;
  }();
  expect_like_one_rank({"layout.cp=3", "net.partition=metis", "policy.micro_batch=4"}, weighted);
}

TEST(GraphcastTraining, IsTheSameInChunksOfEdges) {
  globe_like_one_rank({"policy.edge_chunks=3", "policy.micro_batch=6"});
  globe_like_one_rank({"policy.edge_chunks=6", "layout.cp=2", "policy.micro_batch=12"});
  globe_like_one_rank({"policy.edge_chunks=4", "layout.cp=4", "layout.tp=2", "policy.micro_batch=3",
                       "policy.recompute=full"});
  globe_like_one_rank({"policy.edge_chunks=2", "layout.pp=3", "policy.micro_batch=2"});
}

TEST(GraphcastTraining, IsTheSameWhereItsMlpsAreCut) {
  globe_like_one_rank({"layout.tp=2", "policy.micro_batch=6"});
  globe_like_one_rank({"layout.tp=3", "policy.micro_batch=4", "policy.recompute=selective"});
  globe_like_one_rank({"layout.tp=2", "layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1"});
  globe_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.dp=2", "policy.micro_batch=2", "policy.zero=2",
                       "policy.bucket_mb=0.02"});
  globe_like_one_rank({"layout.tp=4", "layout.cp=2", "policy.micro_batch=3", "policy.recompute=full",
                       "layout.order=cp-dp-pp-tp"});
}

TEST(GraphcastTraining, IsTheSameWhereAllAxesCut) {
  globe_like_one_rank({"layout.cp=2", "layout.dp=2", "policy.micro_batch=3", "policy.zero=1"});
  globe_like_one_rank(
      {"layout.cp=2", "layout.dp=2", "policy.micro_batch=2", "policy.zero=3", "policy.bucket_mb=0.02"});
  globe_like_one_rank({"layout.cp=2", "layout.pp=3", "policy.micro_batch=2", "policy.recompute=full"});
  globe_like_one_rank({"layout.cp=2", "layout.dp=2", "layout.pp=2", "policy.micro_batch=1", "policy.zero=2",
                       "policy.bucket_mb=0.02", "layout.order=cp-dp-pp-tp"});
  globe_like_one_rank({"layout.cp=4", "layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1"});
}

}  // namespace
}  // namespace isobar::engine
