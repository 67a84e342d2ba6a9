// net.kind: mlp apart from training (parity_test.cpp, product_mlp.cpp): parameters, parts, partitioning, and
// rejected settings.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/backend/cpu/cpu_backend.h"
#include "model/base/error.h"
#include "model/base/text/yaml.h"
#include "model/nets/build.h"
#include "model/nets/layout/legal_layout.h"
#include "model/nets/parts.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

using Words = std::vector<std::string>;

RunSpec emulator(const Words& set = {}) {
  return load_run_spec(source_dir() + "/configs/models/mlp-emulator.yaml", set);
}

NetSpec mlp_of(std::vector<int64_t> hidden) {
  return MlpSpec{.in_features = 14, .out_features = 1, .hidden = std::move(hidden)};
}

TEST(Mlp, HasTheEmulatorsParameters) {
  const RunSpec spec = emulator();
  const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(1));
  EXPECT_EQ(plan.parameter_count(), 9345);
  const std::vector<std::pair<std::string, std::vector<int64_t>>> want = {
      {"layers.0.weight", {64, 14}}, {"layers.0.bias", {64}},       {"layers.1.weight", {64, 64}},
      {"layers.1.bias", {64}},       {"layers.2.weight", {64, 64}}, {"layers.2.bias", {64}},
      {"layers.3.weight", {1, 64}},  {"layers.3.bias", {1}}};
  ASSERT_EQ(plan.params.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const plan::Param& p = plan.params[i];
    EXPECT_EQ(p.name, want[i].first);
    EXPECT_EQ(p.shape, want[i].second);
    const bool weight = p.shape.size() == 2;
    EXPECT_EQ(p.init, weight ? plan::Init::uniform : plan::Init::zero) << p.name;
    if (weight) EXPECT_FLOAT_EQ(p.scale, std::sqrt(6.0f / static_cast<float>(p.shape[0] + p.shape[1])));
  }
}

// 784-h-h-10 with biases, as in the reference demo (systems.md, section 5)
TEST(Mlp, HasTheClassifiersParameters) {
  const auto parameters = [](const Words& set) {
    return nets::build_plan(load_run_spec(source_dir() + "/configs/models/mlp-classifier.yaml", set), 0,
                            cpu_workspace(1))
        .parameter_count();
  };
  EXPECT_EQ(parameters({}), 269'322);
  EXPECT_EQ(parameters({"net.hidden=[512,512]"}), 669'706);
}

TEST(Mlp, ClassifiesWithOneTargetAndAsManyOutputsAsClasses) {
  const std::string config = source_dir() + "/configs/models/mlp-classifier.yaml";
  const RunSpec spec = load_run_spec(config);
  ASSERT_EQ(spec.data.inputs.size(), 784u);
  EXPECT_EQ(spec.data.inputs[0], "x0");
  EXPECT_EQ(spec.data.inputs[783], "x783");
  EXPECT_EQ(run_spec_from_json(to_json(spec), "again").data.inputs, spec.data.inputs);
  const plan::Plan plan = nets::build_plan(spec, 0, cpu_workspace(1));
  EXPECT_EQ(plan.batch.at(1).sample, 1);
  EXPECT_EQ(plan.metric("accuracy").count, 1);
  for (const auto& [set, mend] :
       {std::pair<std::string, std::string>{"data.targets=[label,other]", "name the column of classes"},
        {"net.out_features=1", "give the number of classes, 2 or more"},
        {"train.loss_weights=[1]", "use mae, mse or huber"},
        {"net.dropout=1", "e.g. 0.2"},
        {"net.dropout=-0.1", "e.g. 0.2"},
        {"data.inputs=[x0..x782]", "name 784, or set net.in_features to 783"},
        {"data.inputs=[x783..x0]", "name 784, or set net.in_features to 1"}}) {
    try {
      load_run_spec(config, {set});
      ADD_FAILURE() << set << " is accepted";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(mend), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(load_run_spec(source_dir() + "/configs/models/vit-tiny.yaml", {"train.loss=cross_entropy"}),
               ConfigError);
}

TEST(Mlp, SaysWhatEveryKindSays) {
  const NetSpec net = emulator().net;
  EXPECT_EQ(net.kind(), "mlp");
  EXPECT_EQ(net.tokens(), 1);
  EXPECT_EQ(net.width(), 64);
  EXPECT_EQ(net.heads(), 1);
  EXPECT_EQ(net.blocks(), 3);
  EXPECT_EQ(net.outputs(), 1);
  EXPECT_EQ(net.sample_numbers(), 15);
  EXPECT_EQ(net.images(), nullptr);
  EXPECT_EQ(net.words(), nullptr);
}

TEST(Mlp, HasAPartForEachLinear) {
  const auto parts = nets::parts_of(mlp_of({32, 64, 64, 64, 32, 64, 64}));
  std::string text;
  for (const plan::Part& p : parts) text += p.path + ":" + p.kind + ":" + std::to_string(p.same_as) + " ";
  EXPECT_EQ(text,
            "embed:embed:0 layer01:layer:1 layer02:layer:2 layer03:layer:2 layer04:layer:4 layer05:layer:1 "
            "layer06:layer:2 head:head:7 ");
  const NetSpec few = nets::distinct_parts(mlp_of({14, 64, 64, 64, 64, 64, 64, 32, 32, 32, 32, 32, 7, 7}));
  EXPECT_EQ(few.mlp().hidden, (std::vector<int64_t>{14, 64, 64, 64, 64, 32, 32, 32, 32, 7, 7}));
  EXPECT_EQ(nets::parts_of(mlp_of({64})).size(), 2u);
}

TEST(Mlp, IsCutIntoStages) {
  EXPECT_EQ(nets::cuts_of(mlp_of({64, 64, 64, 64, 64}), 2), (std::vector<int32_t>{0, 3, 6}));
  EXPECT_EQ(nets::cuts_of(mlp_of({64}), 1), (std::vector<int32_t>{0, 2}));
  // 64 x 512, 512 x 512, 512 x 8 and three of 8 x 8
  const auto cuts = nets::cuts_of(mlp_of({64, 512, 512, 8, 8, 8, 8}), 2);
  EXPECT_EQ(cuts[1], 2) << "the wide one alone is heavier than all others";
}

// Ranks' sends and receives match and every parameter has an owner, under every partitioning.
TEST(Mlp, PlansFitTogetherUnderEveryLayout) {
  const Words deep = {"net.hidden=[24,24,24,24,9,9,24,24]", "net.out_features=3", "train.global_batch=16",
                      "policy.micro_batch=2"};
  for (const Words& layout : std::initializer_list<Words>{
           {"layout.dp=2"},
           {"layout.dp=2", "layout.pp=2", "policy.zero=1"},
           {"layout.pp=3", "policy.recompute=full"},
           {"layout.pp=2", "policy.recompute=full", "policy.recompute_num_layers=3"},
           {"layout.dp=2", "layout.pp=2", "policy.zero=2", "policy.amp=fp16"},
           {"layout.dp=4", "policy.zero=3", "policy.amp=bf16"},
           {"layout.pp=2", "layout.vpp=2", "policy.schedule=interleaved", "policy.amp=tf32"},
           {"layout.pp=4", "policy.schedule=zb-h1"},
           {"layout.dp=2", "policy.offload_optimizer=true", "policy.main_grads_dtype=bf16"}}) {
    Words set = deep;
    set.insert(set.end(), layout.begin(), layout.end());
    EXPECT_NO_THROW(nets::check_world(emulator(set), cpu_workspace(1))) << layout.back();
  }
}

// Recomputed groups of layers save only the input of the first layer.
TEST(Mlp, RecomputesInGroupsForLessMemory) {
  const auto saved = [](const Words& set) {
    Words all = {"net.hidden=[256,256,256,256,256,256,256,256,256]", "train.global_batch=512"};
    all.insert(all.end(), set.begin(), set.end());
    return nets::build_plan(emulator(all), 0, cpu_workspace(1))
        .memory.by_kind[static_cast<int>(plan::BufferKind::saved)];
  };
  const int64_t none = saved({}), each = saved({"policy.recompute=full"}),
                four = saved({"policy.recompute=full", "policy.recompute_num_layers=4"});
  EXPECT_LT(each, none);
  EXPECT_LT(four, each);
}

TEST(Mlp, RefusesWhatCannotBeByItsKey) {
  struct Case {
    const char *set, *key, *mend;
  };
  for (const Case& c :
       {Case{"net.hidden=[]", "'net.hidden'", "give a width or more, e.g. [64, 64]"},
        {"net.hidden=[64, 0]", "'net.hidden'", "give 1 or more"},
        {"net.hidden=[64, 131073]", "'net.hidden'", "give 131072 or less"},
        {"net.hidden=64", "'net.hidden'", "give a list of whole numbers"},
        {"net.hidden=[64, 2.5]", "'net.hidden'", "give a list of whole numbers"},
        {"net.in_features=0", "'net.in_features'", "give 1 or more"},
        {"net.out_features=-1", "'net.out_features'", "give 1 or more"},
        {"net.activation=swish", "'net.activation'", "use one of gelu, gelu_tanh, relu, silu, tanh"},
        {"net.depth=3", "'net.depth'", "remove it, or set net.kind"},
        {"net.gelu=tanh", "'net.gelu'", "remove it, or set net.kind"},
        {"train.loss_weights=[1, 2]", "'train.loss_weights'", "give one a feature"},
        {"policy.amp=fp8", "'policy.amp'", "use one of none, tf32, bf16, fp16"},
        {"policy.attention=unfused", "'policy.attention'", "use flash"},
        {"layout.tp=2", "'layout.tp'", "set it to 1, and use layout.dp"},
        {"layout.cp=2", "'layout.cp'", "set it to 1"},
        {"layout.pp=3", "'layout.pp'", "the nearest that can be run is 2"}}) {
    SCOPED_TRACE(c.set);
    std::string text = "(accepted)";
    try {
      nets::check_layout(emulator({c.set}));
    } catch (const ConfigError& e) {
      text = e.what();
    }
    EXPECT_NE(text.find(c.key), std::string::npos) << text;
    EXPECT_NE(text.find(c.mend), std::string::npos) << text;
  }
}

TEST(Mlp, WeighsEachOutputOfTheLoss) {
  EXPECT_NO_THROW(emulator({"net.out_features=2", "train.loss_weights=[1, 2]"}));
}

TEST(Mlp, ComesBackFromItsJson) {
  const RunSpec spec = emulator({"net.hidden=[7, 5]", "net.activation=relu"});
  const RunSpec back = run_spec_from_json(to_json(spec), "again");
  EXPECT_EQ(back.net.mlp().hidden, (std::vector<int64_t>{7, 5}));
  EXPECT_EQ(back.net.mlp().activation, Activation::relu);
  EXPECT_EQ(to_json(back), to_json(spec));
}

}  // namespace
}  // namespace isobar::engine
