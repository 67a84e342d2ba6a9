// Plans with a split backward: all ranks run together, weight parts hold only products.
#include <gtest/gtest.h>

#include "model/base/error.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

const std::vector<std::string> kZeroBubble = {"layout.pp=2", "policy.schedule=zb-h1", "train.global_batch=8",
                                              "policy.micro_batch=1"};

std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.end(), kZeroBubble.begin(), kZeroBubble.end());
  return more;
}

TEST(ZeroBubble, RanksRunTogetherAndTheWeightPartHoldsTheProducts) {
  for (const auto& more : std::vector<std::vector<std::string>>{
           {},
           {"policy.amp=bf16", "layout.dp=2", "policy.bucket_mb=0.05"},
           {"policy.amp=bf16", "layout.tp=2", "policy.sequence_parallel=true", "layout.dp=2"},
           {"layout.tp=2", "layout.cp=2", "policy.overlap=false"}}) {
    const RunSpec spec = spec_of("vit-tiny", with(more));
    SCOPED_TRACE(testing::PrintToString(more));
    std::vector<Plan> plans;
    for (int r = 0; r < spec.layout.world(); ++r) plans.push_back(nets::build_plan(spec, r, odd_workspace));
    EXPECT_NO_THROW(check(plans));
    for (const Plan& plan : plans) {
      EXPECT_EQ(plan.slots, (std::vector<int64_t>{2}));
      for (const Routine& r : plan.routines) {
        if (r.pass != Pass::backward) continue;
        const bool weight = r.name.starts_with("backward_weight");
        for (int32_t o = r.first; o < r.first + r.count; ++o) {
          const Op& op = plan.ops[o];
          EXPECT_EQ(op.path.ends_with("/backward_weight") ||
                        op.path.ends_with("/backward_weight/all_gather") || op.path.starts_with("grads/"),
                    weight)
              << r.name << " " << op.path;
          if (weight &&
              op.kind == OpKind::gemm)  // reads nothing of the input part, except what it gathered itself
            for (const View& v : {op.reads[0], op.reads[1]}) {
              const Buffer& b = plan.buffers[v.buffer];
              EXPECT_TRUE(b.kind == BufferKind::saved || b.name.ends_with(".all"))
                  << op.path << " " << b.name;
            }
        }
      }
    }
  }
}

TEST(ZeroBubble, WhatItCannotDoIsRefusedWithAMend) {
  for (const auto& [key, mend] :
       std::vector<std::pair<std::string, std::string>>{{"policy.recompute=full", "set it to none"},
                                                        {"policy.recompute=selective", "set it to none"},
                                                        {"layout.vpp=2", "use interleaved"},
                                                        {"layout.pp=1", "set it to 1f1b"}}) {
    SCOPED_TRACE(key);
    std::vector<std::string> set = kZeroBubble;
    set.push_back(key);
    set.push_back("net.depth=4");  // enough blocks for two chunks a stage
    try {
      nets::build_plan(spec_of("vit-tiny", set), 0, no_workspace);
      ADD_FAILURE() << "was planned";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(mend), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace isobar::plan
