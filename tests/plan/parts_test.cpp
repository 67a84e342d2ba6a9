// The part of the net of everything in a plan, checked against names, which the product never parses.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <set>

#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

struct Case {
  const char* name;
  const char* model;
  std::vector<std::string> overrides;
};

std::vector<Case> cases() {
  const std::vector<std::string> wide{"layout.dp=2", "layout.tp=2", "layout.pp=2", "policy.zero=3",
                                      "policy.bucket_mb=0.1"};
  std::vector<Case> all;
  for (const char* model : {"vit-tiny", "gpt3-175b", "llama3-8b"}) {
    std::vector<std::string> small;
    if (std::string(model) != "vit-tiny")
      small = {"net.depth=4", "layout.dp=1", "layout.tp=1", "layout.pp=1"};
    const auto with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), small.begin(), small.end());
      return more;
    };
    all.push_back({"one rank", model, with({"train.global_batch=8", "policy.micro_batch=2"})});
    all.push_back({"recomputed", model, with({"train.global_batch=8", "policy.recompute=full"})});
    all.push_back({"sequence parallel, split", model,
                   with({"train.global_batch=8", "layout.tp=2", "layout.pp=2", "policy.schedule=zb-h1",
                         "policy.sequence_parallel=true", "policy.recompute=none", "policy.micro_batch=2"})});
    std::vector<std::string> shards = with({"train.global_batch=8", "policy.micro_batch=2"});
    shards.insert(shards.end(), wide.begin(), wide.end());
    all.push_back({"sharded", model, shards});
  }
  return all;
}

bool within(const std::string& path, const std::string& part) {
  return path.starts_with(part) &&
         (path.size() == part.size() || path[part.size()] == '/' || path[part.size()] == '.');
}

// The block in a name, -1: none
int32_t block_named(const Plan& plan, const std::string& name) {
  for (size_t p = 0; p < plan.parts.size(); ++p)
    if (plan.parts[p].kind == "block" && within(name, plan.parts[p].path)) return static_cast<int32_t>(p);
  return -1;
}

// Every rank of every case
void each_plan(const std::function<void(const Plan&)>& look) {
  for (const Case& c : cases()) {
    const RunSpec spec = spec_of(c.model, c.overrides);
    for (int rank = 0; rank < spec.layout.world(); ++rank) {
      SCOPED_TRACE(std::string(c.model) + ", " + c.name + ", rank " + std::to_string(rank));
      const Plan plan = nets::build_plan(spec, rank, no_workspace);
      look(plan);
    }
  }
}

TEST(Parts, AreTheNetsOnEveryRankInForwardOrder) {
  for (int rank = 0; rank < 2; ++rank) {
    const Plan plan = plan_of("vit-tiny", {"layout.pp=2"}, rank);
    const size_t depth = static_cast<size_t>(spec_of("vit-tiny").net.vit().depth);
    ASSERT_EQ(plan.parts.size(), depth + 2);
    EXPECT_EQ(plan.parts.front().kind, "embed");
    EXPECT_EQ(plan.parts.back().kind, "head");
    for (size_t i = 1; i <= depth; ++i) EXPECT_EQ(plan.parts[i].kind, "block");
  }
}

TEST(Parts, OfBlocksAreWhereNamesSay) {
  each_plan([](const Plan& plan) {
    int checked = 0;
    for (const Op& op : plan.ops)
      if (const int32_t block = block_named(plan, op.path); block >= 0) {
        EXPECT_EQ(op.part, block) << op.path;
        ++checked;
      } else if (op.part >= 0) {
        EXPECT_NE(plan.parts[op.part].kind, "block") << op.path;
      }
    for (const Buffer& b : plan.buffers)
      if (const int32_t block = block_named(plan, b.name); block >= 0) EXPECT_EQ(b.part, block) << b.name;
    for (const Param& p : plan.params) {
      ASSERT_GE(p.part, 0) << p.name;
      const bool in_block = p.name.starts_with("blocks.");
      EXPECT_EQ(in_block, plan.parts[p.part].kind == "block") << p.name;
      if (in_block) EXPECT_EQ(p.part, 1 + std::stoi(p.name.substr(7))) << p.name;
    }
    EXPECT_GT(checked, 20);
  });
}

// Ops without a part belong to the step: they are priced by the layout, not the net.
TEST(Parts, LeaveOutWhatIsOfUnitsOfStagesAndOfTheOptimizer) {
  each_plan([](const Plan& plan) {
    for (const Routine& r : plan.routines)
      for (int32_t i = r.first; i < r.first + r.count; ++i) {
        const Op& op = plan.ops[i];
        const bool pass = r.pass == Pass::forward || r.pass == Pass::backward;
        const bool unit = op.path.starts_with("grads/") || op.path.starts_with("params/");
        const bool between = op.path.starts_with("stage");
        if (!pass || unit)
          EXPECT_EQ(op.part, -1) << op.path;
        else if (!between)
          EXPECT_GE(op.part, 0) << op.path;
      }
  });
}

TEST(Parts, WeightGradientsWriteWhatParametersAreUpdatedWith) {
  for (const Case& c : cases()) {
    const RunSpec spec = spec_of(c.model, c.overrides);
    SCOPED_TRACE(std::string(c.model) + ", " + c.name);
    const Plan plan = nets::build_plan(spec, 0, no_workspace);
    int found = 0;
    for (const Op& op : plan.ops) {
      if (!op.weight_gradient) continue;
      ++found;
      EXPECT_EQ(op.kind, OpKind::gemm);
      // One product with as many elements as a matrix that this rank holds of that part, or as those that
      // are multiplied as one: q, k and v; SwiGLU's gate and up
      std::set<int64_t> matrices;
      int64_t q_k_v = 0, gate_up = 0;
      const auto named = [](const Param& p, std::initializer_list<const char*> words) {
        return std::ranges::any_of(words, [&](const char* w) { return p.name.find(w) != std::string::npos; });
      };
      for (const Param& p : plan.params) {
        if (p.part != op.part || !p.matrix) continue;
        matrices.insert(p.count);
        if (named(p, {".attn.q.", ".attn.k.", ".attn.v."})) q_k_v += p.count;
        if (named(p, {".mlp.gate.", ".mlp.up."})) gate_up += p.count;
      }
      matrices.insert({q_k_v, gate_up});
      const bool tied = matrices.size() == 1;  // the head multiplies by the embedding's table
      if (!tied) EXPECT_TRUE(matrices.contains(op.writes[0].count)) << op.path << " " << op.writes[0].count;
    }
    EXPECT_GE(found, 8);
  }
}

TEST(Parts, AStreamIsAsLargeAsWhatABlocksFirstNormSaves) {
  const Plan plan = plan_of("vit-tiny");
  ASSERT_EQ(plan.streams.size() + 1, plan.parts.size());
  for (const Stream& stream : plan.streams) {
    const Part& to = plan.parts[stream.to];
    EXPECT_EQ(stream.from + 1, stream.to);
    for (const Buffer& b : plan.buffers) {
      if (b.name != to.path + "/norm1.x") continue;
      EXPECT_EQ(b.bytes(), stream.bytes());
      EXPECT_EQ(b.dtype, stream.dtype);
    }
  }
}

}  // namespace
}  // namespace isobar::plan
