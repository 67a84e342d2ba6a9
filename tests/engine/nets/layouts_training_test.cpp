// Layouts through the real command: every net under several axes at once; losses, optimizers, clipping, a
// scaled loss, offloaded moments and checkpoints. (worlds/ has all layouts, without the command.)
#include "model/data/files/npy.h"
#include "model/data/statistics/stats.h"
#include "model/data/synthetic/synth.h"
#include "tests/engine/layouts.h"

namespace isobar::engine {
namespace {

TEST(Layouts, OfEveryNetByCommand) {
  const Words cut = {"layout.tp=2", "layout.cp=2", "layout.pp=2", "policy.micro_batch=3"},
              shared = {"layout.cp=2", "layout.dp=2", "policy.micro_batch=3", "policy.zero=3"};
  for (const auto& [net, layout] :
       {std::pair{kVit, cut},
        {kGpt, cut},
        {kLlama, shared},
        {kSwin, cut},
        {kGraph, cut},
        {kGlobe, shared},
        {tall_aurora(), cut + Words{"policy.sequence_parallel=false"}},
        {kUnet, Words{"layout.dp=2", "layout.tp=2", "layout.pp=2", "policy.micro_batch=1"}}})
    expect_like_one_rank(layout, net);
}

// The gradient of mae is a sign, which a rounding turns where prediction and target are close together: these
// targets are six standard deviations above or below what is predicted, by channels.
Words far_targets(const std::string& dir) {
  data::make_synthetic(dir, {.train_years = 1,
                             .valid_years = 0,
                             .test_years = 0,
                             .samples_per_year = 30,
                             .channels = 4,
                             .height = 40,
                             .width = 56});
  const std::string means = dir + "/stats/global_means.npy", stds = dir + "/stats/global_stds.npy";
  data::Statistics s = data::read_statistics(means, stds, 4);
  for (size_t c = 0; c < 4; ++c) s.mean[c] += (c % 2 == 0 ? 6 : -6) * s.std[c];
  data::write_npy(dir + "/far.npy", {1, 4, 1, 1}, s.mean);
  return {"data.train=" + dir + "/train", "data.means=" + dir + "/far.npy", "data.stds=" + stds};
}

// Every rank holds some of the pixels, whatever is summed over them.
TEST(Layouts, OtherLosses) {
  for (const std::string loss : {"mae", "mse", "huber"}) {
    const Folder dir;
    Words words = {"train.loss=" + loss, "train.loss_weights=[1, 0.25, 2, 0.5]", "train.huber_delta=0.5"};
    if (loss == "mae") words = words + far_targets(dir / "data");
    const TrainedNet one = run(dir / "one", words, 1);
    ASSERT_EQ(one.record.losses.size(), 10u);
    EXPECT_LT(one.record.losses.at(10), 0.99 * one.record.losses.at(1)) << loss << ": nothing is learnt";
    Words layout = {"layout.tp=2", "layout.cp=2", "layout.dp=2", "policy.sequence_parallel=true",
                    "policy.micro_batch=3"};
    layout.insert(layout.end(), words.begin(), words.end());
    const TrainedNet many = run(dir / "many", layout, 8);
    Reordered reordered(one, [&] { return run(dir / "again", words + Words{"policy.micro_batch=1"}, 1); });
    reordered.expect_like_one(many, loss);
  }
}

// The single moment is partitioned, saved and loaded like Adam's two.
TEST(Layouts, SgdWithMomentum) {
  const Words sgd = {"train.optimizer=sgd", "train.lr=1", "train.weight_decay=0.01",
                     "train.lr_schedule=constant"};
  const Folder dir;
  const TrainedNet one = run(dir / "one", sgd, 1);
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
  const WrittenRun record = read_run(dir / "rest");
  ASSERT_EQ(record.losses.size(), 5u);
  for (const auto& [step, loss] : record.losses) EXPECT_NEAR(loss / one.record.losses.at(step), 1, 1e-5);
  EXPECT_LT(distance(one.weights, inference::read_safetensors(fs::path(dir / "rest") /
                                                              "checkpoints/step-00000010/model.safetensors")),
            1e-5);
}

// Clipping uses the norm of the whole net's gradient, with each element counted once.
TEST(Layouts, ClipByTheGlobalNorm) {
  const Words clip = {"train.grad_clip=0.02"};
  const Folder dir;
  const TrainedNet one = run(dir / "one", clip, 1);
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
    const TrainedNet many = run(dir / ("many" + std::to_string(n++)), words, ranks);
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

// fp16: the initial scale is far too large; every rank must skip the same steps, and learning begins once it
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
  const auto skipped = [](const TrainedNet& o) {
    std::vector<int> out;
    for (const auto& e : o.record.events)
      if (e["event"] == "step" && e["skipped"].get<bool>()) out.push_back(e["step"]);
    return out;
  };
  const Folder dir;
  const TrainedNet one = run_fp16(dir / "one", {"train.checkpoint_every=1"}, 1);
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
  // A checkpoint restores scale and counters.
  const int last_skip = *std::find_if(expected.rbegin(), expected.rend(), [](int s) { return s < 36; });
  char name[32];
  std::snprintf(name, sizeof name, "step-%08d", last_skip);
  const TrainedNet resumed =
      run_fp16(dir / "resumed", {}, 1, {"--resume", (dir / "one/checkpoints/") + name});
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
    const TrainedNet many = run_fp16(dir / std::to_string(n++), layout, ranks);
    ASSERT_EQ(many.record.losses.size(), 40u);
    EXPECT_EQ(skipped(many), expected);
    for (const auto& [step, loss] : one.record.losses)
      EXPECT_NEAR(many.record.losses.at(step) / loss, 1, 2e-3) << "step " << step;
    EXPECT_LT(distance(one.weights, many.weights), 5e-3);
    std::printf("weights %.1e\n", distance(one.weights, many.weights));
  }
}

// The location of the moments does not affect training.
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
    const TrainedNet a = run(dir / std::to_string(n++), layout, ranks),
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

struct ResumedRun {
  std::string name;
  Words words;
  int64_t ranks;
};

// A checkpoint does not depend on the layout that wrote it.
void expect_resumes(const TestNet& net, const ResumedRun& first, const std::vector<ResumedRun>& others) {
  SCOPED_TRACE(net.config);
  const Folder dir;
  const TrainedNet a = run(dir / "a", first.words + Words{"train.checkpoint_every=5"}, first.ranks, {}, net);
  ASSERT_EQ(a.record.losses.size(), 10u);
  for (const auto& [name, layout, ranks] : others) {
    SCOPED_TRACE(name);
    const TrainedNet b =
        run(dir / name, layout, ranks, {"--resume", dir / "a/checkpoints/step-00000005"}, net);
    ASSERT_EQ(b.record.losses.size(), 5u);
    for (const auto& [step, loss] : b.record.losses)
      EXPECT_NEAR(loss / a.record.losses.at(step), 1, 1e-6) << "step " << step;
    EXPECT_LT(distance(a.weights, b.weights), 1e-6);
  }
}

TEST(Layouts, ResumeAsAnyOther) {
  expect_resumes(
      kVit, {"a", {"layout.tp=2", "layout.pp=2", "layout.dp=2", "policy.zero=1", "policy.micro_batch=3"}, 8},
      {{"one", {}, 1},
       {"b", {"layout.cp=2", "layout.dp=2", "policy.zero=3", "policy.micro_batch=2"}, 4},
       {"c", {"layout.tp=2", "layout.dp=2", "policy.zero=2", "policy.sequence_parallel=true"}, 4}});
  expect_resumes(kMixtral, {"a", {"layout.dp=4", "layout.ep=2", "policy.zero=1", "policy.micro_batch=3"}, 4},
                 {{"one", {}, 1},
                  {"b", {"layout.dp=2", "layout.tp=2", "layout.ep=2", "policy.micro_batch=3"}, 4},
                  {"c", {"layout.dp=4", "layout.ep=4", "policy.zero=3"}, 4}});
}

}  // namespace
}  // namespace isobar::engine
