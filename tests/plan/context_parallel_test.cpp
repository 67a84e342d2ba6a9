// Wire bytes of each kind of context parallelism against closed forms; equal work of all kinds; and refused
// layouts.
#include <gtest/gtest.h>

#include "model/base/error.h"
#include "model/plan/layout.h"
#include "model/plan/ops/work.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

const char* const kKinds[] = {"allgather", "ring", "ulysses"};

std::vector<Plan> plans_of(const RunSpec& spec) {
  std::vector<Plan> plans;
  for (int r = 0; r < spec.layout.world(); ++r) plans.push_back(nets::build_plan(spec, r, odd_workspace));
  return plans;
}

// Bytes of one block's forward and backward on one rank
double wire_bytes(const Plan& plan) {
  double bytes = 0;
  for (const Op& op : plan.ops)
    if (op.lane == Lane::cp && op.path.starts_with("block00/")) bytes += work(op, plan).wire_bytes;
  return bytes;
}

TEST(ContextParallel, SendsWhatTheClosedFormsSay) {
  for (const char* kind : kKinds)
    for (const int64_t cp : {2, 3, 4})
      for (const int64_t tp : {1, 2})
        for (const char* amp : {"none", "bf16"}) {
          const bool ulysses = std::string(kind) == "ulysses";
          if (ulysses && 4 / tp % cp != 0) continue;
          const std::vector<std::string> set = {std::string("policy.cp_kind=") + kind,
                                                "layout.cp=" + std::to_string(cp),
                                                "layout.tp=" + std::to_string(tp),
                                                std::string("policy.amp=") + amp,
                                                "policy.micro_batch=8",
                                                "net.img_height=40",
                                                "net.img_width=56"};
          SCOPED_TRACE(testing::PrintToString(set));
          const RunSpec spec = spec_of("vit-tiny", set);
          const auto plans = plans_of(spec);
          EXPECT_NO_THROW(check(plans));
          const double a = spec.policy.amp == Amp::bf16 ? 2 : 4, c = static_cast<double>(cp);
          const double row = static_cast<double>(8 * spec.net.vit().embed_dim / tp);  // width of all samples
          const auto N = static_cast<double>(spec.net.tokens());
          const auto parts = split_evenly(spec.net.tokens(), cp);
          for (const Plan& plan : plans) {
            const int at = coords_of(spec.layout, plan.rank).cp;
            const auto own = static_cast<double>(parts[at]), next = static_cast<double>(parts[(at + 1) % cp]);
            // ring: keys and values of all ranks but the next one's, both ways, and f32 sums of all; ulysses:
            // four thirds of qkv, both ways
            const double want = std::string(kind) == "allgather" ? 2 * (c - 1) / c * a * 2 * row * N
                                : ulysses ? 4 * a * row * ((c - 1) / c * own + (N - own) / c)
                                          : 2 * a * 2 * row * (N - next) + 4 * 2 * row * N;
            EXPECT_NEAR(wire_bytes(plan), want, 1e-9 * want) << "rank " << plan.rank;
          }
        }
}

TEST(ContextParallel, KindsShareOutTheSameWork) {
  double one = 0;
  for (const char* kind : kKinds)
    for (const char* recompute : {"none", "selective", "full"}) {
      const RunSpec spec = spec_of("vit-tiny", {std::string("policy.cp_kind=") + kind, "layout.cp=2",
                                                std::string("policy.recompute=") + recompute});
      const auto plans = plans_of(spec);
      EXPECT_NO_THROW(check(plans));
      double flops = 0;
      for (const Plan& plan : plans) flops += totals(plan, spec.micro_batch()).forward_flops;
      if (one == 0) one = flops;
      EXPECT_DOUBLE_EQ(flops, one) << kind << " " << recompute;
    }
}

TEST(ContextParallel, UlyssesNeedsHeadsForEveryRank) {
  for (const auto& [cp, tp, mend] : {std::tuple{"3", "1", "2 and 4"}, std::tuple{"4", "2", "is 2"}}) {
    try {
      nets::build_plan(spec_of("vit-tiny", {"policy.cp_kind=ulysses", std::string("layout.cp=") + cp,
                                            std::string("layout.tp=") + tp}),
                       0, no_workspace);
      ADD_FAILURE() << "was planned";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find("'layout.cp'"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(mend), std::string::npos) << e.what();
    }
  }
}

// Zig-zag: of a causal sample, every rank has as much to attend to.
TEST(ContextParallel, CausalWorkIsSharedOutEvenly) {
  const auto flops = [](const std::vector<Plan>& plans) {  // of one block's attention, by rank
    std::vector<double> out;
    for (const Plan& plan : plans) {
      double sum = 0;
      for (const Op& op : plan.ops)
        if ((op.kind == OpKind::attention || op.kind == OpKind::attention_backward) &&
            op.path.starts_with("block00/"))
          sum += work(op, plan).flops;
      out.push_back(sum);
    }
    return out;
  };
  const std::vector<std::string> common = {"net.seq_length=256", "policy.micro_batch=2",
                                           "train.global_batch=2"};
  const double all = flops(plans_of(spec_of("llama-tiny", common)))[0];
  for (const char* kind : {"ring", "allgather"})
    for (const int64_t cp : {2, 4, 8}) {
      std::vector<std::string> words = common;
      words.insert(words.end(), {std::string("policy.cp_kind=") + kind, "layout.cp=" + std::to_string(cp)});
      const std::vector<Plan> plans = plans_of(spec_of("llama-tiny", words));
      EXPECT_NO_THROW(check(plans));
      for (const double rank : flops(plans)) EXPECT_NEAR(rank, all / static_cast<double>(cp), 1e-9 * all);
    }
}

TEST(ContextParallel, ARingRefusesWhatItCannotCut) {
  const auto says = [](const std::string& setting, const std::string& what) {
    try {
      nets::build_plan(spec_of("llama-tiny", {setting, "policy.cp_kind=ring", "layout.cp=4"}), 0, {});
      ADD_FAILURE() << what << " is accepted";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  says("net.sliding_window=8", "net.sliding_window");
  says("net.seq_length=7", "two runs of the 7 tokens");
}

}  // namespace
}  // namespace isobar::plan
