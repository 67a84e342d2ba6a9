// Epochs: steps follow from the length of the data, each epoch has a line and a record, and the samples are
// the same for any layout and after a resume within an epoch.
#include <fstream>

#include "model/base/error.h"
#include "model/data/choice/sample_order.h"
#include "tests/engine/command.h"

namespace isobar::engine {
namespace {

#define EXPECT_SAYS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "lacks '" << (part) << "':\n" << (text)

// 26 pairs of fields to train on, 12 to validate; batches of 4 make epochs of 6 steps that leave out 2
// samples.
class Epochs : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new Folder;
    const Ended made = Child({command(), "data", "make", *shared_ / "data", "--channels", "4", "--height",
                              "32", "--width", "64", "--samples-per-year", "13", "--train-years", "2",
                              "--seed", std::to_string(std::random_device{}() % 1000)})
                           .wait();
    ASSERT_EQ(made.code, 0) << made.text;
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }
  static Ended train(Words set, const Words& more = {}) {
    const Words usual = {"data.train=" + (*shared_ / "data/train"),
                         "data.valid=" + (*shared_ / "data/valid"),
                         "train.global_batch=4",
                         "train.seed=3",
                         "run.threads=1",
                         "run.hang_timeout=60"};
    set.insert(set.begin(), usual.begin(), usual.end());
    return train_command(set, more);
  }
  static std::vector<json> epochs_of(const std::string& run) {
    std::vector<json> out;
    for (const json& e : read_run(run).events)
      if (e["event"] == "epoch") out.push_back(e);
    return out;
  }
  Folder dir;
  static inline Folder* shared_ = nullptr;
};

TEST_F(Epochs, GiveStepsAndALineAndARecordEach) {
  const Ended e = train({"train.epochs=3", "train.valid_every=epoch", "train.checkpoint_every=epoch",
                         "train.log_every=100", "run.out=" + (dir / "run")});
  ASSERT_EQ(e.code, 0) << e.text;
  EXPECT_SAYS(e.text,
              "18: 3 epochs of 6, without 2 samples of 26 in each; validation every epoch; checkpoint every "
              "epoch");
  EXPECT_SAYS(e.text, "epoch     3/3  6 steps");
  const WrittenRun run = read_run(dir / "run");
  EXPECT_EQ(run.losses.size(), 18u);
  const std::vector<json> epochs = epochs_of(dir / "run");
  ASSERT_EQ(epochs.size(), 3u);
  std::map<int64_t, json> valid;
  for (const json& v : run.events)
    if (v["event"] == "valid") valid[v["step"]] = v;
  EXPECT_EQ(valid.size(), 4u);  // with that before the first step
  for (int64_t i = 0; i < 3; ++i) {
    const json& epoch = epochs[i];
    double mean = 0, seconds = 0;
    for (const json& s : run.events)
      if (s["event"] == "step" && s["step"] > 6 * i && s["step"] <= 6 * (i + 1)) {
        EXPECT_EQ(s["epoch"], i);
        mean += s["loss"].get<double>() / 6, seconds += s["seconds"].get<double>();
      }
    EXPECT_EQ(epoch["epoch"], i + 1);
    EXPECT_EQ(epoch["step"], 6 * (i + 1));
    EXPECT_EQ(epoch["steps"], 6);
    EXPECT_NEAR(epoch["loss"], mean, 1e-12);
    EXPECT_GE(epoch["seconds"], seconds);  // with the reading
    EXPECT_NEAR(epoch["samples_per_s"], 24 / epoch["seconds"].get<double>(), 1e-9);
    EXPECT_EQ(epoch["valid_loss"], valid[6 * (i + 1)]["loss"]);
    EXPECT_TRUE(fs::exists((dir / "run/checkpoints/step-000000") + (i == 0 ? "06" : i == 1 ? "12" : "18")));
  }
}

TEST_F(Epochs, HaveTheSameSamplesForAnyLayoutAndWorkers) {
  const Words set = {"train.epochs=2", "train.valid_every=epoch"};
  const auto with = [&](Words more) {
    more.insert(more.end(), set.begin(), set.end());
    return more;
  };
  ASSERT_EQ(train(with({"run.out=" + (dir / "one")})).code, 0);
  const Ended two = train(with({"run.out=" + (dir / "two"), "data.workers=2"}), {"--ranks", "2"});
  ASSERT_EQ(two.code, 0) << two.text;
  const Ended four = train(with({"run.out=" + (dir / "four"), "layout.tp=2"}), {"--ranks", "4"});
  ASSERT_EQ(four.code, 0) << four.text;
  const std::vector<json> one = epochs_of(dir / "one");
  ASSERT_EQ(one.size(), 2u);
  for (const char* other : {"two", "four"}) {
    const std::vector<json> its = epochs_of(dir / other);
    ASSERT_EQ(its.size(), 2u) << other;
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(its[i]["loss"].get<double>() / one[i]["loss"].get<double>(), 1, 1e-5) << other;
      EXPECT_NEAR(its[i]["valid_loss"].get<double>() / one[i]["valid_loss"].get<double>(), 1, 1e-5) << other;
    }
  }
}

TEST_F(Epochs, GoOnFromWithinOne) {
  ASSERT_EQ(train({"train.epochs=2", "train.checkpoint_every=4", "run.out=" + (dir / "whole")}).code, 0);
  const Ended e = train({"train.epochs=2", "train.checkpoint_every=4", "run.out=" + (dir / "rest")},
                        {"--resume", dir / "whole/checkpoints/step-00000004", "--ranks", "2"});
  ASSERT_EQ(e.code, 0) << e.text;
  const WrittenRun whole = read_run(dir / "whole"), rest = read_run(dir / "rest");
  EXPECT_EQ(rest.losses.size(), 8u);
  for (const auto& [step, loss] : rest.losses) EXPECT_NEAR(loss / whole.losses.at(step), 1, 1e-5) << step;
  const std::vector<json> before = epochs_of(dir / "whole"), after = epochs_of(dir / "rest");
  ASSERT_EQ(after.size(), 2u);
  EXPECT_EQ(after[0]["steps"], 2);  // of the first epoch's six
  EXPECT_EQ(after[1]["steps"], 6);
  EXPECT_NEAR(after[1]["loss"].get<double>() / before[1]["loss"].get<double>(), 1, 1e-5);
  const Ended more = train({"train.epochs=3", "run.out=" + (dir / "more")},
                           {"--resume", dir / "whole/checkpoints/step-00000012"});
  ASSERT_EQ(more.code, 0) << more.text;
  EXPECT_EQ(read_run(dir / "more").losses.rbegin()->first, 18);
}

TEST_F(Epochs, AreOfTablesAndTokensToo) {
  {
    std::ofstream table(dir / "t.csv");
    table << "a,b,y\n";
    for (int i = 0; i < 50; ++i) table << i % 7 << "," << i % 5 << "," << (i % 7) - (i % 5) << "\n";
  }
  const Ended rows = Child({command(), "train", source_dir() + "/configs/models/mlp-emulator.yaml", "--set",
                            "data.train=" + (dir / "t.csv"), "--set", "data.inputs=[a, b]", "--set",
                            "data.targets=[y]", "--set", "net.in_features=2", "--set", "train.epochs=2",
                            "--set", "train.global_batch=16", "--set", "run.out=" + (dir / "rows")})
                         .wait();
  ASSERT_EQ(rows.code, 0) << rows.text;
  EXPECT_EQ(read_run(dir / "rows").losses.size(), 6u);
  {
    std::ofstream text(dir / "text.txt");
    for (int i = 0; i < 200; ++i) text << "the quick brown fox jumps " << i << "\n";
  }
  ASSERT_EQ(Child({command(), "data", "tokens", dir / "text.txt", "-o", dir / "text.bin"}).wait().code, 0);
  const Ended words = Child({command(), "train", source_dir() + "/configs/models/gpt-tiny.yaml", "--set",
                             "data.train=" + (dir / "text.bin"), "--set", "train.epochs=1", "--set",
                             "run.out=" + (dir / "words")})
                          .wait();
  ASSERT_EQ(words.code, 0) << words.text;
  const WrittenRun run = read_run(dir / "words");
  const std::vector<json> epochs = epochs_of(dir / "words");
  ASSERT_EQ(epochs.size(), 1u) << words.text;
  EXPECT_EQ(epochs[0]["steps"], run.losses.size());
}

TEST_F(Epochs, WithoutALengthAreRefused) {
  const Ended noise = train_command({"train.epochs=3"});
  EXPECT_EQ(noise.code, 2);
  EXPECT_SAYS(noise.text, "'train.epochs': counts epochs, and data.train is empty");
  const Ended valid = train_command({"train.valid_every=epoch"});
  EXPECT_EQ(valid.code, 2);
  EXPECT_SAYS(valid.text, "'train.valid_every': counts epochs, and data.train is empty");
  const Ended counted =
      train_command({"train.epochs=2", "data.limit_samples=24", "run.out=" + (dir / "noise")});
  EXPECT_EQ(counted.code, 0) << counted.text;
  EXPECT_EQ(read_run(dir / "noise").losses.size(), 6u);  // 24 samples in batches of 8
  const Ended both = train({"train.epochs=2", "train.steps=5"});
  EXPECT_EQ(both.code, 2);
  EXPECT_SAYS(both.text, "train.epochs: 2 says how many");
  const Ended large = train({"train.epochs=2", "train.global_batch=32"});
  EXPECT_EQ(large.code, 2);
  EXPECT_SAYS(large.text, "32 is more than the 26 samples");
  const Ended typo = train({"train.valid_every=epochs"});
  EXPECT_EQ(typo.code, 2);
  EXPECT_SAYS(typo.text, "give a whole number, or epoch");
}

TEST_F(Epochs, InASweepEachTrialHasItsSteps) {
  {
    std::ofstream base(dir / "base.yaml");
    base << "inherits: " << tiny() << "\ndata: {train: " << *shared_ / "data/train"
         << "}\ntrain: {epochs: 2, global_batch: 4}\n";
  }
  const Ended priced = Child({command(), "predict", dir / "base.yaml", "--machine", "example-2core", "--set",
                              "train.valid_every=epoch", "--set", "data.valid=" + (*shared_ / "data/valid")})
                           .wait();
  EXPECT_EQ(priced.code, 0) << priced.text;
  const Ended e =
      Child({command(), "sweep", dir / "base.yaml", "global_batch=4,8", "--results", dir / "results"}).wait();
  ASSERT_EQ(e.code, 0) << e.text;
  std::map<int64_t, size_t> steps;
  for (const auto& trial : fs::directory_iterator(dir / "results/trials")) {
    const WrittenRun run = read_run(trial.path().string());
    steps[run.start["spec"]["train"]["global_batch"]] = run.losses.size();
  }
  EXPECT_EQ(steps, (std::map<int64_t, size_t>{{4, 12}, {8, 6}}));
  const Ended twice = Child({command(), "sweep", dir / "base.yaml", "steps=12", "--dry-run"}).wait();
  EXPECT_EQ(twice.code, 2);
  EXPECT_SAYS(twice.text, "the base counts train.epochs: 2");
}

}  // namespace
}  // namespace isobar::engine
