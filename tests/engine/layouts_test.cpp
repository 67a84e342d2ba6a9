// Every way to lay a run out over ranks trains like one rank: losses of ten steps and the weights after them.
//
// Whole runs of the real command. The net has an odd number of blocks (uneven stages) and 40 tokens (uneven
// over 3 ranks). fp32; what may differ is the order of sums.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "model/engine/safetensors.h"
#include "tests/engine/command.h"

namespace isobar {
namespace {

const Words kNet = {
    "net.depth=5",   "net.img_height=40", "train.global_batch=12", "train.steps=10",
    "train.lr=3e-3", "train.seed=5",      "run.threads=1",         "train.checkpoint_every=10"};

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
  expect_like_one_rank({"layout.dp=2", "layout.tp=2", "layout.pp=2", "policy.sequence_parallel=true",
                        "layout.order=pp-dp-tp", "policy.micro_batch=1", "policy.overlap=false"});
  expect_like_one_rank({"layout.dp=2", "layout.cp=2", "layout.pp=2", "layout.vpp=2",
                        "policy.schedule=interleaved", "policy.micro_batch=1", "layout.order=cp-pp-dp"});
}

TEST(Layouts, SerialAndOverlappedAreTheSameToTheBit) {
  for (const Words& layout :
       {Words{"layout.tp=2", "layout.pp=2", "policy.micro_batch=2"},
        Words{"layout.dp=2", "layout.cp=2", "policy.micro_batch=2", "policy.bucket_mb=0.05"}}) {
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
