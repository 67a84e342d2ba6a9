// Mixtures of experts: parameters by published counts, FLOPs of the chosen experts only, what is refused.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/plan/operands.h"
#include "model/plan/work.h"
#include "tests/plan/plans.h"

namespace isobar {
namespace {

const std::vector<std::string> kOneRank = {"layout.dp=1",          "layout.tp=1",
                                           "layout.pp=1",          "train.global_batch=1",
                                           "policy.micro_batch=1", "policy.sequence_parallel=false",
                                           "policy.zero=0"};

TEST(Experts, HaveTheParametersThatWerePublished) {
  EXPECT_EQ(plan_of("mixtral-8x7b", kOneRank).parameter_count(), 46702792704);
  EXPECT_EQ(plan_of("deepseek-moe-16b", kOneRank).parameter_count(), 16375728128);
  EXPECT_EQ(plan_of("qwen3-30b-a3b", kOneRank).parameter_count(), 30532122624);
  std::vector<std::string> one = kOneRank;
  one.push_back("layout.ep=1");
  const Plan v3 = plan_of("deepseek-v3", one);  // transformers': parameters, and biases of 58 blocks
  EXPECT_EQ(v3.trained_count(), 671026404352);
  EXPECT_EQ(v3.parameter_count(), 671026404352 + 58 * 256);
}

// Products of parameters are two FLOPs each for the experts that a token has; causal attention comes besides.
TEST(Experts, CountTheChosenOnesAlone) {
  struct Net {
    const char* model;
    double active;  // parameters in products of a token
    double depth, width, tokens;
  };
  const double mixtral =
      32 * (2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 8 * 4096 + 2 * 3.0 * 4096 * 14336) + 4096.0 * 32000;
  const double deepseek = 28 * 4.0 * 2048 * 2048 + 3.0 * 2048 * 10944 +
                          27 * (64 * 2048 + 8 * 3.0 * 2048 * 1408) + 2048.0 * 102400;
  for (const Net& n :
       {Net{"mixtral-8x7b", mixtral, 32, 4096, 4096}, {"deepseek-moe-16b", deepseek, 28, 2048, 4096}}) {
    const double attention = n.depth * 2 * n.tokens * n.tokens * n.width;  // half of 2 products
    EXPECT_NEAR(forward_flops_per_sample(spec_of(n.model, kOneRank)) / (2 * n.active * n.tokens + attention),
                1, 1e-3)
        << n.model;
  }
}

TEST(Experts, KeepTheirBuffersWholeWhateverTheRouting) {
  const Plan plan = plan_of("moe-tiny", {"policy.micro_batch=2", "train.global_batch=2"});
  int grouped = 0;
  for (const Op& op : plan.ops) {
    if (op.kind != OpKind::grouped_gemm) continue;
    const auto& a = op.as<GroupedGemmAttrs>();
    EXPECT_EQ(a.trans_a ? a.k : a.m, 2 * 64 * 2) << op.path << ": two copies of each of 128 tokens";
    EXPECT_EQ(a.groups, 8);
    ++grouped;
  }
  EXPECT_EQ(grouped, 2 * 6) << "two products forward, four backward, of each block";
}

TEST(Experts, AreNamedOneByOne) {
  const Plan plan = plan_of("moe-tiny", {"layout.tp=2"});
  const auto shape = [&](const std::string& name) {
    const auto found =
        std::find_if(plan.params.begin(), plan.params.end(), [&](const Param& p) { return p.name == name; });
    return found == plan.params.end() ? std::vector<int64_t>{}
                                      : std::vector<int64_t>{found->shape[0], found->shape[1], found->count};
  };
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(shape("blocks.0.mlp.router.weight"), (Sizes{8, 64, 8 * 64}));
  EXPECT_EQ(shape("blocks.1.mlp.experts.7.gate.weight"), (Sizes{96, 64, 96 * 64 / 2}));
  EXPECT_EQ(shape("blocks.1.mlp.experts.0.fc2.weight"), (Sizes{64, 96, 96 * 64 / 2}));
}

// Each rank has its part of a block's experts; a token's copies and weights go to their
// ranks and back in both passes, and every rank's offsets go to all.
TEST(Experts, AreDividedAmongNeighboursOfDataAndContext) {
  struct Case {
    std::vector<std::string> words;
    int64_t ep, tp, tokens;             // tokens: of a micro-batch on a rank
    std::vector<int> owners, replicas;  // of rank 1
  };
  for (const Case& c : {Case{{"layout.dp=4", "train.global_batch=8"}, 2, 1, 2 * 64, {0, 1}, {1, 3}},
                        {{"layout.dp=4", "train.global_batch=8", "policy.zero=1", "layout.order=dp-pp-cp-tp"},
                         4,
                         1,
                         2 * 64,
                         {0, 1, 2, 3},
                         {}},
                        {{"layout.dp=2", "layout.cp=2", "layout.tp=2", "train.global_batch=4"},
                         2,
                         2,
                         2 * 32,
                         {1, 3},
                         {1, 5}}}) {
    std::vector<std::string> words = c.words;
    words.insert(words.end(), {"layout.ep=" + std::to_string(c.ep), "policy.micro_batch=2"});
    const Plan plan = plan_of("moe-tiny", words, 1);
    const auto ranks_of = [&](const std::string& name) {
      for (const Group& g : plan.groups)
        if (g.name == name) return g.ranks;
      return std::vector<int>{};
    };
    EXPECT_EQ(ranks_of("ep"), c.owners);
    EXPECT_EQ(ranks_of("dp.experts"), c.replicas);
    double experts = 0, wire = 0;
    for (const Param& p : plan.params)
      if (p.expert) experts += static_cast<double>(p.count);
    EXPECT_EQ(experts, 2.0 * 8 / c.ep * 3 * 64 * 96 / c.tp) << "two blocks of eight";
    const Plan whole = plan_of("moe-tiny", {});
    EXPECT_EQ(plan.parameter_count(), whole.parameter_count());
    for (const Op& op : plan.ops)
      if (op.lane == Lane::ep) wire += work(op, plan).wire_bytes;
    const double away = static_cast<double>(c.ep - 1) / static_cast<double>(c.ep),
                 copies = 2.0 * static_cast<double>(c.tokens);
    EXPECT_NEAR(wire, 2 * 4 * (away * copies * (4 * 64 + 2) + (static_cast<double>(c.ep) - 1) * (8 + 1)),
                1e-6 * wire);
  }
}

// A rank has room for all copies that its experts may take.
TEST(Experts, ACapacityBoundsTheRoomForCopiesOfOtherRanks) {
  const auto room = [](double capacity) {
    const Plan plan = plan_of("moe-tiny", {"layout.dp=8", "layout.ep=8", "train.global_batch=8",
                                           "net.expert_capacity_factor=" + std::to_string(capacity)});
    for (const Op& op : plan.ops)
      if (op.kind == OpKind::all_to_all) return out<OpKind::all_to_all>(op, "y").count / 64;
    return int64_t{0};
  };
  EXPECT_EQ(room(0), 8 * 64) << "every token of eight samples of 64";
  EXPECT_EQ(room(1.25), 8 * 20) << "1.25 x 64 tokens x 2 / 8 experts of each sample";
  EXPECT_EQ(room(100), 8 * 64);
}

TEST(Experts, RefuseWhatDoesNotFitWithKeyAndMend) {
  struct Case {
    std::vector<std::string> words;
    const char* key;
  };
  for (const Case& c :
       {Case{{"net.num_experts=0"}, "net.router_balance_loss"},
        {{"net.num_experts=0", "net.router_balance_loss=0", "net.router_z_loss=0",
          "net.expert_capacity_factor=1"},
         "net.expert_capacity_factor"},
        {{"net.expert_capacity_factor=-1"}, "net.expert_capacity_factor"},
        {{"net.num_experts_per_tok=9"}, "net.num_experts_per_tok"},
        {{"net.n_group=2"}, "net.n_group"},
        {{"net.scoring_func=sigmoid"}, "net.router_z_loss"},
        {{"net.scoring_func=sigmoid", "net.router_z_loss=0", "net.n_group=3"}, "net.n_group"},
        {{"net.scoring_func=sigmoid", "net.router_z_loss=0", "net.n_group=4", "net.num_experts_per_tok=3"},
         "net.topk_group"},
        {{"net.kv_lora_rank=8"}, "net.num_kv_heads"},
        {{"net.v_head_dim=8"}, "net.v_head_dim"},
        {{"net.num_kv_heads=0", "net.kv_lora_rank=8", "net.v_head_dim=200"}, "net.v_head_dim"},
        {{"net.num_kv_heads=0", "net.kv_lora_rank=8", "net.qk_norm=true"}, "net.qk_norm"},
        {{"net.first_k_dense_replace=2"}, "net.first_k_dense_replace"},
        {{"net.expert_ffn_dim=32"}, "net.ffn_dim"},
        {{"net.router_z_loss=-1"}, "net.router_z_loss"},
        {{"net.ffn_dim=99", "net.num_kv_heads=4", "layout.tp=4"}, "layout.tp"},
        {{"layout.dp=3", "train.global_batch=6", "layout.ep=3"}, "layout.ep"},
        {{"layout.dp=2", "layout.ep=4"}, "layout.ep"},
        {{"train.lora_rank=2", "train.lora_targets=[blocks.*.mlp]"}, "train.lora_targets"}}) {
    try {
      plan_of("moe-tiny", c.words);
      ADD_FAILURE() << c.words[0] << " is accepted";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(c.key), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace isobar
