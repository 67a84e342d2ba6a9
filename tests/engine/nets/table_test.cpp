// An mlp on a table through the real command: ranks share the rows, an unreadable column ends the run before
// training, and fields that are only predicted have no persistence.
#include <gtest/gtest.h>

#include "model/data/synthetic/synth.h"
#include "tests/engine/layouts.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

// y depends on three of four columns. One row in fifty lacks a value.
void write_patterns(const std::string& path, int rows) {
  std::ofstream file(path);
  std::mt19937_64 random(std::random_device{}());
  std::normal_distribution<double> normal(0, 1);
  file << "sst,sss,wind,spare,flux\n";
  for (int r = 0; r < rows; ++r) {
    const double a = normal(random), b = normal(random), c = normal(random);
    file << 280 + 5 * a << "," << 35 + 0.5 * b << ",";
    if (r % 50 != 49) file << 8 + 3 * c;
    file << "," << normal(random) << "," << 100 * std::tanh(a * b + 0.5 * c) << "\n";
  }
}

TestNet emulator_on(const std::string& table) {
  return {source_dir() + "/configs/models/mlp-emulator.yaml",
          {"data.train=" + table, "data.inputs=[wind,sss,sst]", "data.targets=[flux]", "net.in_features=3",
           "data.train_fraction=0.75", "train.global_batch=96", "train.steps=40", "train.lr=1e-2",
           "train.seed=5", "run.threads=1", "run.hang_timeout=60", "train.checkpoint_every=40"}};
}

TEST(Tables, AnMlpLearnsFromOneUnderEveryLayoutAlike) {
  const Folder dir;
  write_patterns(dir / "patterns.csv", 2000);
  const TestNet net = emulator_on(dir / "patterns.csv");
  const TrainedNet one = trained_to(dir / "one", {}, 1, 40, {}, net);
  ASSERT_EQ(one.record.losses.size(), 40u);
  EXPECT_LT(one.record.losses.at(40), 0.6 * one.record.losses.at(1))
      << "nothing is learnt: nothing is tested";
  const json& valid = one.record.end.at("valid");
  EXPECT_LT(valid.at("mae").get<double>(), 0.7);
  EXPECT_FALSE(valid.contains("rmse") || valid.contains("persistence_rmse")) << valid;
  Reordered reordered(one,
                      [&] { return trained_to(dir / "again", {"policy.micro_batch=16"}, 1, 40, {}, net); });
  int n = 0;
  for (const auto& [ranks, layout] :
       {std::pair<int64_t, Words>{2, {"layout.dp=2"}},
        {2, {"layout.pp=2", "policy.micro_batch=24"}},
        {4, {"layout.dp=2", "layout.pp=2", "policy.zero=2", "data.workers=2"}}}) {
    const TrainedNet other = trained_to(dir / std::to_string(++n), layout, ranks, 40, {}, net);
    reordered.expect_like_one(other, layout[0]);
    EXPECT_NEAR(other.record.end.at("valid").at("mae").get<double>() / valid.at("mae").get<double>(), 1,
                1e-4);
  }
}

TEST(Tables, SayWhatIsLeftOutAndRefuseWhatCannotBeRead) {
  const Folder dir;
  write_patterns(dir / "patterns.csv", 500);
  const TestNet net = emulator_on(dir / "patterns.csv");
  const auto ends = [&](const Words& change) {
    Words set = net.set;
    set.insert(set.end(), change.begin(), change.end());
    return Child(train_words(net.config, set)).wait();
  };
  const Ended good = ends({"train.steps=2"});
  EXPECT_EQ(good.code, 0) << good.text;
  EXPECT_NE(good.text.find("10 rows with missing values skipped"), std::string::npos) << good.text;
  const Ended absent = ends({"data.inputs=[wind,sss,snow]"});
  EXPECT_EQ(absent.code, 2) << absent.text;
  EXPECT_NE(absent.text.find("there is no column 'snow' -> the file has sst, sss"), std::string::npos)
      << absent.text;
  const Ended few = ends({"data.inputs=[wind]"});
  EXPECT_EQ(few.code, 2) << few.text;
  EXPECT_NE(few.text.find("name 3, or set net.in_features to 1"), std::string::npos) << few.text;
}

TEST(Fields, ThatAreOnlyPredictedHaveNoPersistence) {
  const Folder dir;
  data::SyntheticOptions options;
  options.channels = 4;
  options.height = 32;
  options.width = 64;
  options.samples_per_year = 12;
  options.train_years = options.valid_years = 1;
  options.show_progress = false;
  data::make_synthetic(dir / "set", options);
  const auto trained = [&](const std::string& name, const Words& more) {
    Words set = {"data.train=" + (dir / "set/train"),
                 "data.valid=" + (dir / "set/valid"),
                 "net.img_height=32",
                 "net.img_width=64",
                 "net.in_channels=2",
                 "net.out_channels=1",
                 "train.steps=3",
                 "train.global_batch=4",
                 "run.threads=1",
                 "run.out=" + (dir / name)};
    set.insert(set.end(), more.begin(), more.end());
    const Ended e = train_command(set);
    EXPECT_EQ(e.code, 0) << e.text;
    return read_run(dir / name).end.at("valid");
  };
  const json seen = trained("seen", {"data.inputs=[u10,t2m]", "data.targets=[t2m]"}),
             unseen = trained("unseen", {"data.inputs=[u10,v10]", "data.targets=[t2m]"});
  EXPECT_GT(seen.at("persistence_rmse").get<double>(), 0);
  EXPECT_FALSE(unseen.contains("persistence_rmse")) << unseen;
  EXPECT_GT(unseen.at("rmse").get<double>(), 0);
}

}  // namespace
}  // namespace isobar::engine
