// A plan says all that a step computes: trainings that differ have different texts, and so different hashes.
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "model/nets/loss_settings.h"
#include "model/plan/builder.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

TEST(WholePlan, TrainingsThatDifferHaveDifferentTexts) {
  std::map<std::string, std::string> seen;  // text -> settings
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"train.loss=mae"},
                                             {"train.loss=mse"},
                                             {"train.loss=huber"},
                                             {"train.loss=huber", "train.huber_delta=0.5"},
                                             {"train.loss=mae", "train.loss_weights=[1, 2, 3, 4]"},
                                             {"train.loss=mae", "train.variable_weights=[t2m=2]"},
                                             {"train.loss=mae", "train.variable_weights=[t2m=3]"},
                                             {"train.loss=mae", "train.intensity=['t2m>290=3']"},
                                             {"train.loss=mae", "train.latitude_weights=true"},
                                             {"train.beta1=0.5"},
                                             {"train.beta2=0.999"},
                                             {"train.adam_eps=1e-6"},
                                             {"train.weight_decay=0.1"},
                                             {"train.optimizer=adamw", "train.weight_decay=0.1"},
                                             {"train.optimizer=sgd"},
                                             {"train.optimizer=sgd", "train.momentum=0.5"},
                                             {"train.grad_clip=1"},
                                             {"train.grad_clip=2"},
                                             {"policy.amp=fp16"},
                                             {"policy.amp=fp16", "train.loss_scale_window=100"},
                                             {"policy.amp=fp16", "train.min_loss_scale=8"},
                                             {"train.ema=0.9"},
                                             {"train.ema=0.99"}}) {
    std::string all;
    for (const std::string& w : words) all += w + " ";
    const auto [known, fresh] = seen.emplace(to_text(plan_of("vit-tiny", words)), all);
    EXPECT_TRUE(fresh) << "'" << all << "' has the plan of '" << known->second << "'";
  }
}

TEST(WholePlan, DropoutHasItsRateAndItsSeed) {
  const auto text = [](const std::vector<std::string>& more) {
    return to_text(plan_of("mlp-classifier", more));
  };
  const std::string one = text({"net.dropout=0.1"});
  EXPECT_NE(one, text({"net.dropout=0.2"}));
  EXPECT_NE(one, text({"net.dropout=0.1", "train.seed=7"}));
  EXPECT_EQ(text({"net.dropout=0"}), text({"net.dropout=0", "train.seed=7"}));
}

TEST(WholePlan, LearnsTheWeightsThatFollowFromTheData) {
  const RunSpec spec = spec_of("vit-tiny", {"train.loss=mse"});
  Plan plan = nets::build_plan(spec, 0, no_workspace);
  const std::string before = to_text(plan);
  TrainSpec known = spec.train;
  known.intense_above = {0, 1, 2, 3}, known.intense_weights = {1, 1, 2, 1};
  nets::know_loss_weights(plan, known);
  const std::string after = to_text(plan);
  EXPECT_NE(after, before);
  known.latitudes.assign(32, 50.0);
  nets::know_loss_weights(plan, known);
  EXPECT_NE(to_text(plan), after);
  nets::change_loss(plan, LossKind::projection);
  EXPECT_NE(to_text(plan).find("projection"), std::string::npos);
}

TEST(WholePlan, NamesParametersAndSpellsBuffersInOneWay) {
  const std::regex spelling("[^.]+(\\.[^./]+)?");
  for (const char* net :
       {"vit-tiny", "mlp-classifier", "unet-tiny", "aurora-tiny", "graphcast-tiny", "swin-tiny"})
    for (const Buffer& b : plan_of(net, {}).buffers)
      EXPECT_TRUE(std::regex_match(b.name, spelling)) << net << ": " << b.name;
  const std::string text = to_text(plan_of("vit-tiny", {}));
  EXPECT_NE(text.find(" params:head.weight "), std::string::npos);
  EXPECT_NE(text.find(" grads:blocks.1.mlp.fc1.weight"), std::string::npos);
}

TEST(Builder, RefusesAttributesOfAnotherKind) {
  Builder b(0, 1, {});
  const View x = b.io("x", DType::f32, 4);
  b.begin("step", Pass::forward);
  EXPECT_THROW(b.emit(OpKind::zero, "x/zero", GemmAttrs{}, {}, {x}), std::logic_error);
  EXPECT_NO_THROW(b.emit(OpKind::zero, "x/zero", ElementsAttrs{.count = 4}, {}, {x}));
}

}  // namespace
}  // namespace isobar::plan
