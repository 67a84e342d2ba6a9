// Training from a replay buffer through the real command: a step trains on the net's own forecast, any layout
// trains like one rank, and memory is as planned.
#include <gtest/gtest.h>
#include <omp.h>

#include "model/data/choice/replay_schedule.h"
#include "model/inference/roll_forward.h"
#include "model/nets/build.h"
#include "tests/engine/layouts.h"

namespace isobar::engine {
namespace {

TestNet replayed(TestNet net, const Words& more = {}) {
  net.set.insert(net.set.end(), {"train.replay_capacity=2", "train.replay_refresh=4"});
  net.set.insert(net.set.end(), more.begin(), more.end());
  return net;
}

const TestNet& vit() {  // two predicted channels of three, two times
  static const TestNet net = replayed(kVit, {"net.in_channels=6", "net.out_channels=2", "data.history=2"});
  return net;
}

// With frozen weights the time of a prediction does not matter: each step's loss equals that of a forecast by
// the net that starts the same number of steps earlier in the data.
void expect_trains_on_forecasts(const TestNet& given) {
  const Folder dir;
  TestNet net = given;
  net.set.insert(net.set.end(), {"train.lr=1e-30", "train.steps=24", "train.checkpoint_every=24"});
  const TrainedNet trained = trained_to(dir / "run", {}, 1, 24, {}, net);
  ASSERT_EQ(trained.record.losses.size(), 24u);
  const fs::path checkpoint = fs::path(dir / "run") / "checkpoints/step-00000024";
  const inference::CheckpointState state = inference::read_state(checkpoint);
  const RunSpec& spec = state.spec;
  const data::SampleShape shape = data::sample_shape(spec);
  const auto set = data::open_dataset(spec.data, "", data::Split::train, shape);
  omp_set_num_threads(1);
  inference::Forecaster one(checkpoint, state, 1, 1);
  inference::RollForward roll(one, spec.history(), spec.known_channels(), shape.fixed);
  data::ReplaySchedule schedule(spec, *set, 0, spec.train.global_batch);
  const int64_t plane = shape.input.height * shape.input.width, of_a_time = shape.of_a_time() * plane,
                newest = (spec.history() - 1) * of_a_time;
  std::vector<float> input(shape.input.size()), target(shape.target.size()), out(shape.target.size());
  int64_t longest = 0;
  for (int64_t step = 0; step < 24; ++step) {
    double loss = 0;
    for (int64_t i = 0; i < spec.train.global_batch; ++i) {
      const data::ReplayDraw d = schedule.at(step, i);
      longest = std::max(longest, d.lead);
      int64_t sample = d.sample - d.lead;  // index of its predecessor
      set->read(sample, input.data(), target.data());
      roll.start(input.data());
      for (int64_t k = 0; k <= d.lead; ++k, ++sample) {
        one.at({set->hours(sample, 0)});
        if (k == d.lead) break;
        roll.step(out.data());
        set->read(sample + 1, input.data(), target.data());
        roll.follow(out.data(), input.data() + newest + shape.target.channels * plane);
      }
      set->read(d.sample, input.data(), target.data());
      roll.step(target.data(), out.data(), nullptr);
      loss += one.loss() / static_cast<double>(spec.train.global_batch);
    }
    EXPECT_NEAR(trained.record.losses.at(step + 1), loss, 1e-6 * loss) << "step " << step + 1;
  }
  EXPECT_GT(longest, 2);
}

TEST(Replay, StepsTrainOnTheNetsOwnForecasts) {
  expect_trains_on_forecasts(vit());
  expect_trains_on_forecasts(replayed(kUnet));
  expect_trains_on_forecasts(replayed(kAurora));
}

TEST(Replay, EveryLayoutTrainsLikeOneRank) {
  for (const Words& layout :
       {Words{"layout.dp=2"}, Words{"layout.dp=3", "layout.tp=2", "policy.zero=3"}, Words{"layout.tp=2"},
        Words{"layout.tp=2", "policy.sequence_parallel=true"}, Words{"layout.cp=3"}, Words{"layout.pp=2"},
        Words{"layout.pp=3", "layout.cp=2"}, Words{"layout.dp=2", "layout.pp=2", "data.workers=2"},
        Words{"policy.recompute=full", "data.workers=1", "run.serial=true"}})
    expect_like_one_rank(layout, vit());
}

TEST(Replay, OtherNetsAndIncrementsTrainLikeOneRank) {
  expect_like_one_rank({"layout.dp=2", "layout.pp=2"}, replayed(kUnet));
  expect_like_one_rank({"layout.tp=2", "layout.pp=2"}, replayed(kAurora));
  expect_like_one_rank({"layout.cp=2", "layout.dp=2", "policy.zero=2"}, replayed(tall_aurora()));
  // Adapters on an untrained frozen backbone learn nothing, because its outputs are multiplied by zero.
  const TestNet adapted = replayed(
      kAurora, {"train.lora_rank=2", "train.lora_targets=[backbone.*.attn]", "train.freeze=[encoder]",
                "train.replay_warmup_steps=4", "train.replay_warmup_lead=2"});
  expect_like_one_rank({"layout.dp=2", "layout.pp=2", "policy.zero=3"}, adapted);
  TestNet increments = vit();
  increments.set.push_back("train.prediction=increment");
  expect_like_one_rank({"layout.cp=2", "layout.pp=2"}, increments);
}

// Predictions before a kill are lost: data replace them, and the run says so.
TEST(Replay, ResumesWithTheDataInPlaceOfWhatWasPredicted) {
  const Folder dir;
  const auto to_step = [&](const std::string& steps) {
    Words set = vit().set;
    set.insert(set.end(), {"train.steps=" + steps, "train.checkpoint_every=6", "run.out=" + (dir / "run")});
    return set;
  };
  ASSERT_EQ(Child(train_words(vit().config, to_step("6"))).wait().code, 0);
  const Ended e = Child(train_words(vit().config, to_step("12"), {"--resume", dir / "run"})).wait();
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_NE(e.text.find("replay buffer"), std::string::npos) << e.text;
  EXPECT_EQ(read_run(dir / "run").losses.size(), 12u);
}

TEST(Replay, BytesAreThoseOfThePlan) {
  const auto bytes = [](const Words& layout, int rank) {
    Words words = vit().set;
    words.insert(words.end(), layout.begin(), layout.end());
    return nets::build_plan(load_run_spec(vit().config, words), rank, {}).memory.replay;
  };
  const int64_t state = 2 * 40 * 56 * 4, whole = 2 * 2 * 12 * state;  // entries, times, samples
  EXPECT_EQ(bytes({}, 0), whole);
  EXPECT_EQ(bytes({"layout.dp=3"}, 1), whole / 3);
  EXPECT_EQ(bytes({"layout.tp=2"}, 1), whole);
  EXPECT_EQ(bytes({"layout.cp=5"}, 1), whole / 5);
  EXPECT_EQ(bytes({"layout.pp=3"}, 0), whole);
  EXPECT_EQ(bytes({"layout.pp=3"}, 1), 0);
  EXPECT_EQ(bytes({"layout.pp=3"}, 2), 0);
}

TEST(Replay, WhatCannotBeIsOneLine) {
  const Folder dir;
  for (const auto& [word, key] : {std::pair{"policy.micro_batch=3", "policy.micro_batch"},
                                  {"train.rollout=2", "train.replay_capacity"},
                                  {"train.replay_refresh=0", "train.replay_refresh"},
                                  {"train.replay_max_lead=1", "train.replay_max_lead"},
                                  {"net.out_channels=4", "net.out_channels"},
                                  {"data.dt=64", "train.replay_capacity"}}) {
    Words set = vit().set;
    set.insert(set.end(), {word, "run.out=" + (dir / "never")});
    const Ended e = Child(train_words(vit().config, set)).wait();
    EXPECT_EQ(e.code, 2) << word << e.text;
    EXPECT_NE(e.text.find(key), std::string::npos) << word << e.text;
  }
  Words set = kVit.set;
  set.insert(set.end(), {"train.replay_refresh=5", "run.out=" + (dir / "never")});
  const Ended e = Child(train_words(kVit.config, set)).wait();
  EXPECT_EQ(e.code, 2) << e.text;
  EXPECT_NE(e.text.find("train.replay_refresh"), std::string::npos) << e.text;
}

}  // namespace
}  // namespace isobar::engine
