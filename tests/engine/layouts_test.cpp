// Every way to lay a run out over ranks trains like one rank: losses of ten steps and the weights after them.
//
// Whole runs of the real command. The net has an odd number of blocks (uneven stages) and 35 tokens (uneven
// over 2, 3 and 4 ranks). fp32; what may differ is the order of sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "model/base/error.h"
#include "model/base/spec.h"
#include "model/engine/safetensors.h"
#include "model/nets/build.h"
#include "tests/engine/command.h"

namespace isobar {
namespace {

const Words kNet = {"net.depth=5",           "net.img_height=40", "net.img_width=56",
                    "train.global_batch=12", "train.steps=10",    "train.lr=3e-3",
                    "train.seed=5",          "run.threads=1",     "train.checkpoint_every=10"};

struct Outcome {
  RunRecord record;
  TensorFile weights;
};

Outcome run(const std::string& out, const Words& layout, int64_t ranks) {
  Words set = kNet;
  set.insert(set.end(), layout.begin(), layout.end());
  set.push_back("run.out=" + out);
  const Ended e = train_command(set, ranks > 1 ? Words{"--ranks", std::to_string(ranks)} : Words{});
  EXPECT_EQ(e.code, 0) << e.text;
  if (e.code != 0) return {};
  return {read_run(out), read_safetensors(fs::path(out) / "checkpoints/step-00000010/model.safetensors")};
}

// |a - b| over |a|, of all weights together
double distance(const TensorFile& a, const TensorFile& b) {
  double difference = 0, size = 0;
  EXPECT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, x] : a.tensors) {
    const auto y = b.tensors.find(name);
    if (y == b.tensors.end() || y->second.shape != x.shape) {
      ADD_FAILURE() << name << " is missing or has another shape";
      continue;
    }
    for (size_t i = 0; i < x.values.size(); ++i) {
      difference += (x.values[i] - y->second.values[i]) * (x.values[i] - y->second.values[i]);
      size += x.values[i] * x.values[i];
    }
  }
  return std::sqrt(difference / size);
}

const Outcome& one_rank() {
  static const Folder dir;
  static const Outcome one = run(dir / "one", {}, 1);
  return one;
}

void expect_like_one_rank(const Words& layout) {
  static int cases = 0;  // of this test; a sanitizer makes a run so slow that one in four must do there
  if (kSanitized && cases++ % 4 != 0) return;
  int64_t ranks = 1;
  std::string title;
  for (const std::string& word : layout) {
    title += word + " ";
    for (const char* axis : {"dp", "tp", "cp", "pp"}) {
      const std::string key = std::string("layout.") + axis + "=";
      if (word.rfind(key, 0) == 0) ranks *= std::stoll(word.substr(key.size()));
    }
  }
  SCOPED_TRACE(title);
  const Folder dir;
  const Outcome& one = one_rank();
  const Outcome many = run(dir / "many", layout, ranks);
  ASSERT_EQ(many.record.losses.size(), 10u);
  double most = 0;
  for (const auto& [step, loss] : one.record.losses)
    most = std::max(most, std::abs(many.record.losses.at(step) / loss - 1));
  const double weights = distance(one.weights, many.weights);
  EXPECT_LT(most, 1e-5);
  EXPECT_LT(weights, 1e-5);
  std::printf("%-90s losses %.1e  weights %.1e\n", title.c_str(), most, weights);
}

TEST(Layouts, OneRankLearns) {
  const auto& losses = one_rank().record.losses;
  ASSERT_EQ(losses.size(), 10u);
  EXPECT_LT(losses.at(10), 0.99 * losses.at(1)) << "nothing is learnt: nothing is tested";
}

TEST(Layouts, MicroBatchesAndRecomputation) {
  expect_like_one_rank({"policy.micro_batch=3"});
  expect_like_one_rank({"policy.recompute=selective"});
  expect_like_one_rank({"policy.recompute=full", "policy.micro_batch=4"});
  expect_like_one_rank({"policy.recompute=full", "policy.recompute_num_layers=2", "policy.micro_batch=4"});
  expect_like_one_rank(
      {"policy.recompute=full", "policy.recompute_method=block", "policy.recompute_num_layers=3"});
}

TEST(Layouts, TensorParallel) {
  expect_like_one_rank({"layout.tp=2"});
  expect_like_one_rank({"layout.tp=4", "policy.micro_batch=4", "policy.recompute=full"});
  expect_like_one_rank({"layout.tp=2", "policy.sequence_parallel=true"});
  expect_like_one_rank({"layout.tp=4", "policy.sequence_parallel=true", "policy.micro_batch=1"});
}

TEST(Layouts, ContextParallel) {
  expect_like_one_rank({"layout.cp=2"});
  expect_like_one_rank({"layout.cp=3", "policy.micro_batch=1"});
  expect_like_one_rank({"layout.cp=3", "policy.micro_batch=4", "policy.recompute=selective"});
}

TEST(Layouts, ContextParallelRing) {
  expect_like_one_rank({"layout.cp=2", "policy.cp_kind=ring"});
  expect_like_one_rank({"layout.cp=3", "policy.cp_kind=ring", "policy.micro_batch=4"});
  expect_like_one_rank({"layout.cp=3", "policy.cp_kind=ring", "policy.micro_batch=1"});
  expect_like_one_rank(
      {"layout.cp=4", "policy.cp_kind=ring", "policy.micro_batch=4", "policy.recompute=selective"});
}

TEST(Layouts, ContextParallelUlysses) {
  expect_like_one_rank({"layout.cp=2", "policy.cp_kind=ulysses"});
  expect_like_one_rank({"layout.cp=4", "policy.cp_kind=ulysses", "policy.micro_batch=1"});
  expect_like_one_rank(
      {"layout.cp=2", "policy.cp_kind=ulysses", "policy.micro_batch=4", "policy.recompute=selective"});
  expect_like_one_rank(
      {"layout.cp=4", "policy.cp_kind=ulysses", "policy.micro_batch=3", "policy.recompute=full"});
}

TEST(Layouts, PipelineParallel) {
  expect_like_one_rank({"layout.pp=2", "policy.micro_batch=2", "policy.schedule=gpipe"});
  expect_like_one_rank({"layout.pp=2", "policy.micro_batch=2"});
  expect_like_one_rank({"layout.pp=4", "policy.micro_batch=1"});
  expect_like_one_rank({"layout.pp=5", "policy.micro_batch=4"});
  expect_like_one_rank(
      {"layout.pp=2", "layout.vpp=2", "policy.micro_batch=3", "policy.schedule=interleaved"});
}

TEST(Layouts, ZeroBubble) {
  expect_like_one_rank({"layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1"});
  expect_like_one_rank({"layout.pp=4", "policy.micro_batch=1", "policy.schedule=zb-h1"});
  expect_like_one_rank({"layout.pp=2", "policy.micro_batch=12", "policy.schedule=zb-h1"});
  expect_like_one_rank({"layout.dp=2", "layout.pp=2", "policy.micro_batch=2", "policy.schedule=zb-h1",
                        "policy.bucket_mb=0.05"});
  expect_like_one_rank({"layout.tp=2", "layout.pp=2", "policy.micro_batch=6", "policy.schedule=zb-h1"});
  expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.pp=2", "policy.sequence_parallel=true",
                        "policy.micro_batch=1", "policy.schedule=zb-h1", "policy.bucket_mb=0.05"});
  expect_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.sequence_parallel=true",
                        "policy.micro_batch=3", "policy.schedule=zb-h1", "policy.overlap=false"});
}

TEST(Layouts, Combined) {
  expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.cp=2", "policy.sequence_parallel=true",
                        "policy.micro_batch=3", "policy.bucket_mb=0.05"});
  expect_like_one_rank(
      {"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.micro_batch=3", "policy.recompute=full"});
  expect_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.sequence_parallel=true",
                        "policy.micro_batch=3", "policy.recompute=full", "policy.recompute_num_layers=2"});
  expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.pp=2", "policy.sequence_parallel=true",
                        "layout.order=pp-dp-tp", "policy.micro_batch=1", "policy.overlap=false"});
  expect_like_one_rank({"layout.dp=2", "layout.cp=2", "layout.pp=2", "layout.vpp=2",
                        "policy.schedule=interleaved", "policy.micro_batch=1", "layout.order=cp-pp-dp"});
  expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.cp=2", "policy.cp_kind=ring",
                        "policy.sequence_parallel=true", "policy.micro_batch=3", "policy.bucket_mb=0.05"});
  expect_like_one_rank(
      {"layout.cp=3", "layout.pp=2", "policy.cp_kind=ring", "policy.micro_batch=2", "policy.recompute=full"});
  expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.cp=2", "policy.cp_kind=ulysses",
                        "policy.sequence_parallel=true", "policy.micro_batch=3"});
  expect_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.cp_kind=ulysses",
                        "policy.micro_batch=3", "policy.recompute=selective"});
}

// A layout of 2 to 8 ranks with everything that goes with it, legal for this net; its words.
Words random_legal(std::mt19937& random) {
  const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
  for (;;) {
    const std::vector<std::string> sizes = {"1", "1", "2", "2", "3", "4"};
    const std::string dp = pick(sizes), tp = pick(sizes), cp = pick(sizes), pp = pick(sizes);
    const int64_t world = std::stoll(dp) * std::stoll(tp) * std::stoll(cp) * std::stoll(pp);
    if (world < 2 || world > 8) continue;
    std::vector<std::string> axes = {"tp", "cp", "dp", "pp"};
    std::shuffle(axes.begin(), axes.end(), random);
    const std::string schedule = pick({"gpipe", "1f1b", "interleaved"});
    const std::string recompute = pick({"none", "selective", "full"});
    const Words words = {
        "layout.dp=" + dp,
        "layout.tp=" + tp,
        "layout.cp=" + cp,
        "layout.pp=" + pp,
        std::string("layout.vpp=") + (schedule == "interleaved" ? "2" : "1"),
        "layout.order=" + axes[0] + "-" + axes[1] + "-" + axes[2] + "-" + axes[3],
        "policy.schedule=" + schedule,
        "policy.micro_batch=" + pick({"0", "1", "2"}),
        "policy.sequence_parallel=" + pick({"true", "false"}),
        "policy.recompute=" + recompute,
        "policy.recompute_method=" + (recompute == "full" ? pick({"uniform", "block"}) : "uniform"),
        "policy.recompute_num_layers=" + (recompute == "full" ? pick({"1", "2", "3"}) : "1"),
        "policy.bucket_mb=" + pick({"0.05", "25"}),
        "policy.overlap=" + pick({"true", "false"})};
    Words all = kNet;
    all.insert(all.end(), words.begin(), words.end());
    try {
      build_plan(load_run_spec(tiny(), all), 0, {});
      return words;
    } catch (const ConfigError&) {
    }
  }
}

// Every rank holds some of the pixels, whatever is summed over them.
TEST(Layouts, OtherLosses) {
  for (const char* loss : {"mae", "mse", "huber"}) {
    const Words words = {std::string("train.loss=") + loss, "train.loss_weights=[1, 0.25, 2, 0.5]",
                         "train.huber_delta=0.5"};
    const Folder dir;
    const Outcome one = run(dir / "one", words, 1);
    ASSERT_EQ(one.record.losses.size(), 10u);
    EXPECT_LT(one.record.losses.at(10), 0.99 * one.record.losses.at(1)) << loss << ": nothing is learnt";
    Words layout = {"layout.tp=2", "layout.cp=2", "layout.dp=2", "policy.sequence_parallel=true",
                    "policy.micro_batch=3"};
    layout.insert(layout.end(), words.begin(), words.end());
    const Outcome many = run(dir / "many", layout, 8);
    ASSERT_EQ(many.record.losses.size(), 10u);
    for (const auto& [step, value] : one.record.losses)
      EXPECT_NEAR(many.record.losses.at(step) / value, 1, 1e-5) << loss;
    EXPECT_LT(distance(one.weights, many.weights), 1e-5) << loss;
  }
}

// The norm that is clipped is that of the whole net's gradient, each element once.
TEST(Layouts, ClipByTheGlobalNorm) {
  const Words clip = {"train.grad_clip=0.02"};
  const Folder dir;
  const Outcome one = run(dir / "one", clip, 1);
  ASSERT_EQ(one.record.losses.size(), 10u);
  EXPECT_GT(distance(one.weights, one_rank().weights), 1e-5) << "nothing was clipped";
  int n = 0;
  for (const auto& [layout, ranks] : std::vector<std::pair<Words, int64_t>>{
           {{"layout.tp=2"}, 2},
           {{"layout.tp=2", "policy.sequence_parallel=true", "layout.pp=2"}, 4},
           {{"layout.dp=2", "layout.cp=2"}, 4}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    Words words = layout;
    words.insert(words.end(), clip.begin(), clip.end());
    const Outcome many = run(dir / ("many" + std::to_string(n++)), words, ranks);
    ASSERT_EQ(many.record.losses.size(), 10u);
    EXPECT_LT(distance(one.weights, many.weights), 1e-5);
    for (size_t i = 0; i < one.record.events.size(); ++i) {
      if (one.record.events[i]["event"] != "step") continue;
      EXPECT_NEAR(
          many.record.events[i]["grad_norm"].get<double>() / one.record.events[i]["grad_norm"].get<double>(),
          1, 1e-5);
    }
  }
}

TEST(Layouts, RandomLegalOnes) {  // ISOBAR_RANDOM_LAYOUTS: how many
  const char* wanted = std::getenv("ISOBAR_RANDOM_LAYOUTS");
  const uint32_t seed = std::random_device{}();
  for (uint32_t i = 0; i < (wanted ? std::stoul(wanted) : 4); ++i) {
    std::mt19937 random(seed + i);
    std::printf("seed %u: ", seed + i);
    expect_like_one_rank(random_legal(random));
  }
}

TEST(Layouts, SerialAndOverlappedAreTheSameToTheBit) {
  for (const Words& layout :
       {Words{"layout.tp=2", "layout.pp=2", "policy.micro_batch=2"},
        Words{"layout.dp=2", "layout.cp=2", "policy.micro_batch=2", "policy.bucket_mb=0.05"},
        Words{"layout.dp=2", "layout.cp=2", "policy.micro_batch=2", "policy.cp_kind=ulysses"},
        Words{"layout.cp=4", "policy.micro_batch=2", "policy.cp_kind=ring"}}) {
    const Folder dir;
    Words serial = layout;
    serial.push_back("run.serial=true");
    const Outcome a = run(dir / "a", layout, 4), b = run(dir / "b", serial, 4);
    ASSERT_EQ(a.record.losses.size(), 10u);
    EXPECT_EQ(a.record.losses, b.record.losses);
    EXPECT_EQ(distance(a.weights, b.weights), 0);
  }
}

}  // namespace
}  // namespace isobar
