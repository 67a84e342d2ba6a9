// Pipeline cuts of a net: equal parts evenly, unequal ones with the lightest possible heaviest stage.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/nets/layout/balance.h"
#include "model/nets/parts.h"
#include "model/plan/ops/work.h"
#include "tests/paths.h"

namespace isobar::plan {
namespace {

double heaviest(const std::vector<double>& weights, const std::vector<int32_t>& begins) {
  double most = 0;
  for (size_t s = 0; s < begins.size(); ++s) {
    const auto end = s + 1 < begins.size() ? static_cast<size_t>(begins[s + 1]) : weights.size();
    double sum = 0;
    for (auto i = static_cast<size_t>(begins[s]); i < end; ++i) sum += weights[i];
    most = std::max(most, sum);
  }
  return most;
}

// Tries all cuts
double best_of_all(const std::vector<double>& weights, size_t stages, std::vector<int32_t> begins = {0}) {
  if (begins.size() == stages) return heaviest(weights, begins);
  double best = std::numeric_limits<double>::infinity();
  for (int32_t next = begins.back() + 1; next < static_cast<int32_t>(weights.size()); ++next) {
    std::vector<int32_t> more = begins;
    more.push_back(next);
    best = std::min(best, best_of_all(weights, stages, more));
  }
  return best;
}

TEST(Cuts, OfUnequalWeightsLeaveTheHeaviestStageAsLightAsCanBe) {
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < 300; ++i) {
    std::vector<double> weights(1 + random() % 9);
    for (double& w : weights) w = 1 + random() % 20;
    const size_t stages = 1 + random() % weights.size();
    const std::vector<int32_t> begins = nets::balanced(weights, static_cast<int64_t>(stages));
    ASSERT_EQ(begins.size(), stages);
    EXPECT_EQ(begins[0], 0);
    EXPECT_TRUE(std::adjacent_find(begins.begin(), begins.end(), std::greater_equal<>()) == begins.end());
    EXPECT_EQ(heaviest(weights, begins), best_of_all(weights, stages));
  }
}

TEST(Cuts, OfEqualPartsAreEvenAndTheRestGoesToTheMiddle) {
  VitSpec vit;
  vit.depth = 11;  // parts 1 to 11 between the ends 0 and 12
  EXPECT_EQ(nets::cuts_of(vit, 1), (std::vector<int32_t>{0, 13}));
  EXPECT_EQ(nets::cuts_of(vit, 4), (std::vector<int32_t>{0, 3, 6, 9, 13}));
  vit.depth = 4;
  EXPECT_EQ(nets::cuts_of(vit, 4), (std::vector<int32_t>{0, 2, 3, 4, 6}));
}

TEST(Cuts, GivenOnesAreTakenAndChecked) {
  const auto refusal = [](const std::string& stages, const std::string& pp = "2") {
    try {
      nets::build_plan(load_run_spec(source_dir() + "/configs/models/vit-tiny.yaml",
                                     {"net.depth=6", "layout.stages=" + stages, "layout.pp=" + pp}),
                       0, {});
    } catch (const ConfigError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("[1,5]"), "");
  EXPECT_EQ(refusal("[0,6]"), "");
  EXPECT_EQ(refusal("[0,6,0]", "1"), "");  // another number of stages is cut by work
  EXPECT_NE(refusal("[1,4]").find("adds up to 5 blocks, the net has 6"), std::string::npos);
  EXPECT_NE(refusal("[2,2,2]").find("lists 3 chunks"), std::string::npos);
  EXPECT_NE(refusal("[3,0,3]", "3").find("leaves a chunk between the ends"), std::string::npos);
  EXPECT_NE(refusal("[-1,7]").find("layout.stages"), std::string::npos);
  const RunSpec s = load_run_spec(source_dir() + "/configs/models/vit-tiny.yaml", {"net.depth=6"});
  EXPECT_EQ(nets::cuts_of(s.net, 3, {1, 4, 1}), (std::vector<int32_t>{0, 2, 6, 8}));
}

// Coarse blocks have a quarter of the tokens and four times the weights: as heavy as fine ones, except for
// attention; merge and split weigh a seventh of them.
TEST(Cuts, OfAUnetFollowItsWork) {
  UnetSpec unet;
  static_cast<Images&>(unet) = {.img_height = 32, .img_width = 64, .in_channels = 4, .out_channels = 4};
  unet.embed_dim = 32, unet.encoder_depth = 2, unet.bottleneck_depth = 3, unet.num_heads = 2;
  EXPECT_EQ(nets::cuts_of(unet, 2), (std::vector<int32_t>{0, 5, 11}));
  EXPECT_EQ(nets::cuts_of(unet, 3), (std::vector<int32_t>{0, 4, 7, 11}));
}

// Work is counted in a small net, whose equal parts stand for all.
TEST(Cuts, WeighThePartsOfTheWholeNet) {
  using Sets = std::vector<std::string>;
  for (const auto& [model, sets] : {std::pair<std::string, Sets>{"deepseek-moe-16b", {}},
                                    {"aurora-tiny", {}},
                                    {"graphcast-tiny", {"net.num_gnn_layers=7"}},
                                    {"regional-gnn-tiny", {"net.num_gnn_layers=7"}},
                                    {"swin-tiny", {}}}) {
    const RunSpec spec =
        nets::sample_of(load_run_spec(source_dir() + "/configs/models/" + model + ".yaml", sets));
    const Plan plan = nets::build_plan(spec, 0, {});
    std::vector<double> flops(plan.parts.size());
    for (const Routine& r : plan.routines)
      for (int32_t i = r.first; r.pass == Pass::forward && i < r.first + r.count; ++i)
        if (plan.ops[i].part >= 0) flops[plan.ops[i].part] += work(plan.ops[i], plan).flops;
    const auto begins = nets::balanced({flops.begin() + 1, flops.end() - 1}, 3);
    const std::vector<int32_t> cuts = nets::cuts_of(spec.net, 3);
    for (size_t s = 1; s < 3; ++s) EXPECT_EQ(cuts[s], begins[s] + 1) << model << " " << s;
  }
}

}  // namespace
}  // namespace isobar::plan
