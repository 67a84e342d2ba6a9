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

TensorFile weights_after(const std::string& out, int64_t step) {
  char checkpoint[64];
  std::snprintf(checkpoint, sizeof checkpoint, "checkpoints/step-%08ld/model.safetensors", step);
  return read_safetensors(fs::path(out) / checkpoint);
}

Outcome trained_to(const std::string& out, const Words& layout, int64_t ranks, int64_t steps,
                   const Words& more = {}) {
  Words set = kNet;
  set.insert(set.end(), layout.begin(), layout.end());
  set.push_back("run.out=" + out);
  Words options = more;
  if (ranks > 1) options.insert(options.end(), {"--ranks", std::to_string(ranks)});
  const Ended e = train_command(set, options);
  EXPECT_EQ(e.code, 0) << e.text;
  if (e.code != 0) return {};
  return {read_run(out), weights_after(out, steps)};
}

Outcome run(const std::string& out, const Words& layout, int64_t ranks, const Words& more = {}) {
  return trained_to(out, layout, ranks, 10, more);
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

TEST(Layouts, ZeroRedundancy) {
  for (const char* zero : {"policy.zero=1", "policy.zero=2", "policy.zero=3"}) {
    expect_like_one_rank({"layout.dp=2", zero});
    expect_like_one_rank({"layout.dp=3", zero, "policy.micro_batch=1", "policy.bucket_mb=0.05"});
    expect_like_one_rank({"layout.dp=2", "layout.tp=2", zero, "policy.sequence_parallel=true",
                          "policy.micro_batch=3", "policy.overlap=false"});
    expect_like_one_rank({"layout.tp=2", "layout.cp=2", "layout.pp=2", zero, "policy.micro_batch=3",
                          "policy.recompute=full", "policy.bucket_mb=0.05"});
  }
  expect_like_one_rank(
      {"layout.tp=2", "policy.zero=3", "policy.sequence_parallel=true", "policy.micro_batch=3"});
  expect_like_one_rank({"layout.dp=2", "layout.pp=2", "layout.vpp=2", "policy.zero=3", "policy.micro_batch=1",
                        "policy.schedule=interleaved"});
  expect_like_one_rank({"layout.dp=2", "layout.pp=2", "policy.zero=1", "policy.micro_batch=1",
                        "policy.schedule=zb-h1", "policy.bucket_mb=0.05"});
}

// Two addends have one sum: over two ranks and with one micro-batch, ZeRO changes nothing, not even the last
// bit, whatever the type.
TEST(Layouts, ZeroStagesAreTheSameToTheBit) {
  for (const auto& [amp, grads] : {std::pair{"policy.amp=none", "policy.main_grads_dtype=fp32"},
                                   {"policy.amp=bf16", "policy.main_grads_dtype=fp32"},
                                   {"policy.amp=bf16", "policy.main_grads_dtype=bf16"}}) {
    const Words whole = {"layout.dp=2", "policy.bucket_mb=0.05", amp, grads};
    const Folder dir;
    const Outcome a = run(dir / "0", whole, 2);
    ASSERT_EQ(a.record.losses.size(), 10u);
    for (const char* zero : {"1", "2", "3"}) {
      SCOPED_TRACE(std::string(amp) + " " + grads + " stage " + zero);
      Words sharded = whole;
      sharded.push_back(std::string("policy.zero=") + zero);
      const Outcome b = run(dir / zero, sharded, 2);
      EXPECT_EQ(a.record.losses, b.record.losses);
      EXPECT_EQ(distance(a.weights, b.weights), 0);
    }
  }
}

// Where the moments live is nothing to what is learnt.
TEST(Layouts, OffloadChangesNothing) {
  int n = 0;
  const Folder dir;
  for (const auto& [layout, ranks] : std::vector<std::pair<Words, int64_t>>{
           {{"policy.bucket_mb=0.1"}, 1},
           {{"policy.amp=bf16", "train.optimizer=sgd", "policy.bucket_mb=0.1", "policy.overlap=false"}, 1},
           {{"layout.dp=2", "layout.tp=2", "policy.zero=2", "policy.bucket_mb=0.05"}, 4}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    Words offloaded = layout;
    offloaded.emplace_back("policy.offload_optimizer=true");
    const Outcome a = run(dir / std::to_string(n++), layout, ranks),
                  b = run(dir / std::to_string(n++), offloaded, ranks);
    ASSERT_EQ(a.record.losses.size(), 10u);
    EXPECT_EQ(a.record.losses, b.record.losses);
    EXPECT_EQ(distance(a.weights, b.weights), 0);
    const auto &kept = a.record.start["memory"]["by_category"],
               &gone = b.record.start["memory"]["by_category"];
    EXPECT_EQ(gone["adam"], 0);
    EXPECT_EQ(gone["host"], kept["adam"]);
    EXPECT_LT(b.record.start["memory"]["arena"], a.record.start["memory"]["arena"]);
  }
}

// Gradients that are kept and reduced in bf16 (8 bits): close to, and not the same as, those in f32.
TEST(Layouts, GradientsInBf16) {
  const Folder dir;
  int n = 0;
  for (const auto& [layout, ranks] : std::vector<std::pair<Words, int64_t>>{
           {{"policy.micro_batch=3"}, 1},
           {{"layout.dp=2", "layout.tp=2", "policy.zero=2", "policy.micro_batch=2"}, 4},
           {{"layout.dp=3", "policy.zero=3", "policy.micro_batch=1"}, 3},
           {{"layout.dp=2", "layout.pp=2", "policy.micro_batch=1", "policy.bucket_mb=0.05"}, 4}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    Words words = layout;
    words.emplace_back("policy.main_grads_dtype=bf16");
    const Outcome many = run(dir / std::to_string(n++), words, ranks);
    ASSERT_EQ(many.record.losses.size(), 10u);
    for (const auto& [step, loss] : one_rank().record.losses)
      EXPECT_NEAR(many.record.losses.at(step) / loss, 1, 2e-3) << "step " << step;
    const double weights = distance(one_rank().weights, many.weights);
    EXPECT_LT(weights, 0.02);
    EXPECT_GT(weights, 1e-5);
    std::printf("weights %.1e\n", weights);
  }
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
        "policy.zero=" + pick({"0", "1", "2", "3"}),
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

// Its one moment is cut, saved and loaded like Adam's two.
TEST(Layouts, SgdWithMomentum) {
  const Words sgd = {"train.optimizer=sgd", "train.lr=1", "train.weight_decay=0.01",
                     "train.lr_schedule=constant"};
  const Folder dir;
  const Outcome one = run(dir / "one", sgd, 1);
  ASSERT_EQ(one.record.losses.size(), 10u);
  EXPECT_LT(one.record.losses.at(10), 0.99 * one.record.losses.at(1)) << "nothing is learnt";
  Words half = {"layout.dp=2", "layout.tp=2", "policy.zero=1", "policy.micro_batch=3"};
  half.insert(half.end(), sgd.begin(), sgd.end());
  half.insert(half.end(), {"train.steps=5", "train.checkpoint_every=5", "run.out=" + (dir / "half")});
  Words first = kNet;
  first.insert(first.end(), half.begin(), half.end());
  ASSERT_EQ(train_command(first, {"--ranks", "4"}).code, 0);
  Words rest = kNet;
  rest.insert(rest.end(), sgd.begin(), sgd.end());
  rest.insert(rest.end(),
              {"layout.dp=3", "policy.zero=3", "policy.micro_batch=2", "run.out=" + (dir / "rest")});
  const Ended e = train_command(rest, {"--ranks", "3", "--resume", dir / "half"});
  ASSERT_EQ(e.code, 0) << e.text;
  const RunRecord record = read_run(dir / "rest");
  ASSERT_EQ(record.losses.size(), 5u);
  for (const auto& [step, loss] : record.losses) EXPECT_NEAR(loss / one.record.losses.at(step), 1, 1e-5);
  EXPECT_LT(distance(one.weights, read_safetensors(fs::path(dir / "rest") /
                                                   "checkpoints/step-00000010/model.safetensors")),
            1e-5);
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
           {{"layout.dp=2", "layout.cp=2"}, 4},
           {{"layout.dp=2", "layout.tp=2", "policy.zero=1"}, 4},
           {{"layout.dp=2", "layout.tp=2", "policy.zero=3", "policy.sequence_parallel=true"}, 4}}) {
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

// A checkpoint knows the net, not the layout.
TEST(Layouts, ResumeAsAnyOther) {
  const Folder dir;
  const Words save = {"train.checkpoint_every=5"};
  Words first = {"layout.tp=2", "layout.pp=2", "layout.dp=2", "policy.zero=1", "policy.micro_batch=3"};
  first.insert(first.end(), save.begin(), save.end());
  const Outcome a = run(dir / "a", first, 8);
  ASSERT_EQ(a.record.losses.size(), 10u);
  const std::string middle = dir / "a/checkpoints/step-00000005";
  for (const auto& [name, layout, ranks] : std::vector<std::tuple<std::string, Words, int64_t>>{
           {"one", {}, 1},
           {"b", {"layout.cp=2", "layout.dp=2", "policy.zero=3", "policy.micro_batch=2"}, 4},
           {"c", {"layout.tp=2", "layout.dp=2", "policy.zero=2", "policy.sequence_parallel=true"}, 4}}) {
    SCOPED_TRACE(name);
    const Outcome b = run(dir / name, layout, ranks, {"--resume", middle});
    ASSERT_EQ(b.record.losses.size(), 5u);
    for (const auto& [step, loss] : b.record.losses)
      EXPECT_NEAR(loss / a.record.losses.at(step), 1, 1e-6) << "step " << step;
    EXPECT_LT(distance(a.weights, b.weights), 1e-6);
  }
}

// fp16: a scale far too large at first; every rank must skip the same steps, and learning begins when it
// fits.
TEST(Layouts, Fp16SkipsOverflowsOnAllRanksAlike) {
  const Words fp16 = {"policy.amp=fp16", "train.initial_loss_scale=1e12", "train.loss_scale_window=2",
                      "train.steps=40", "train.checkpoint_every=40"};
  const auto run_fp16 = [&](const std::string& out, const Words& layout, int64_t ranks,
                            const Words& more = {}) {
    Words words = fp16;
    words.insert(words.end(), layout.begin(), layout.end());
    return trained_to(out, words, ranks, 40, more);
  };
  const auto skipped = [](const Outcome& o) {
    std::vector<int> out;
    for (const auto& e : o.record.events)
      if (e["event"] == "step" && e["skipped"].get<bool>()) out.push_back(e["step"]);
    return out;
  };
  const Folder dir;
  const Outcome one = run_fp16(dir / "one", {"train.checkpoint_every=1"}, 1);
  ASSERT_EQ(one.record.losses.size(), 40u);
  const std::vector<int> expected = skipped(one);
  ASSERT_GE(expected.size(), 3u) << "nothing overflowed";
  EXPECT_EQ(expected[0], 1);
  for (int step = 2; step < 10; ++step) {
    const bool changed = distance(weights_after(dir / "one", step - 1), weights_after(dir / "one", step)) > 0;
    EXPECT_EQ(changed, std::count(expected.begin(), expected.end(), step) == 0) << "step " << step;
  }
  EXPECT_GT(expected.back(), static_cast<int>(expected.size())) << "it never grew into an overflow again";
  EXPECT_LT(one.record.losses.at(40), 0.95 * one.record.losses.at(1));
  // Scale and counters come back with a checkpoint.
  const int last_skip = *std::find_if(expected.rbegin(), expected.rend(), [](int s) { return s < 36; });
  char name[32];
  std::snprintf(name, sizeof name, "step-%08d", last_skip);
  const Outcome resumed = run_fp16(dir / "resumed", {}, 1, {"--resume", (dir / "one/checkpoints/") + name});
  EXPECT_EQ(resumed.record.losses.size(), 40u - static_cast<size_t>(last_skip));
  for (const auto& [step, loss] : resumed.record.losses) EXPECT_EQ(loss, one.record.losses.at(step));
  EXPECT_EQ(distance(resumed.weights, one.weights), 0);
  int n = 0;
  for (const auto& [layout, ranks] : std::vector<std::pair<Words, int64_t>>{
           {{"layout.tp=2", "layout.pp=2", "policy.micro_batch=3"}, 4},
           {{"layout.dp=2", "layout.cp=2", "policy.zero=3"}, 4},
           {{"layout.dp=2", "layout.tp=2", "policy.zero=1", "policy.sequence_parallel=true"}, 4},
           {{"layout.dp=3"}, 3}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    const Outcome many = run_fp16(dir / std::to_string(n++), layout, ranks);
    ASSERT_EQ(many.record.losses.size(), 40u);
    EXPECT_EQ(skipped(many), expected);
    for (const auto& [step, loss] : one.record.losses)
      EXPECT_NEAR(many.record.losses.at(step) / loss, 1, 2e-3) << "step " << step;
    EXPECT_LT(distance(one.weights, many.weights), 5e-3);
    std::printf("weights %.1e\n", distance(one.weights, many.weights));
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
        Words{"layout.cp=4", "policy.micro_batch=2", "policy.cp_kind=ring"},
        Words{"layout.dp=4", "policy.micro_batch=1", "policy.zero=1", "policy.bucket_mb=0.05"},
        Words{"layout.dp=2", "layout.pp=2", "policy.micro_batch=1", "policy.zero=3"}}) {
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
