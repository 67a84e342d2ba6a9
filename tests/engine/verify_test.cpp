// `isobar verify`: the first lead equals `forecast`, the mean over leads equals the engine's validation of a
// roll-out, and baselines are recomputed from the file.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/data/files.h"
#include "tests/engine/command.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

Ended answer(const Words& words) {
  return Child(Words{command()} + words).wait();
}

class Verify : public testing::Test {
 protected:
  static constexpr int64_t kRows = 16, kColumns = 24, kTimes = 96, kDt = 3, kTrained = 48;

  // Daily waves on two levels, predictable and with an hourly climatology
  static std::vector<test::Packed> waves() {
    std::vector<test::Packed> out(1);
    std::normal_distribution<double> noise(0, 60);
    for (int64_t t = 0; t < kTimes; ++t)
      for (int64_t y = 0; y < kRows; ++y)
        for (int64_t x = 0; x < kColumns; ++x)
          out[0].push_back(static_cast<int16_t>(
              600 * std::sin(2 * std::numbers::pi *
                             (static_cast<double>(t) / 24 + 2 * static_cast<double>(x) / kColumns)) +
              20 * static_cast<double>(y) + noise(test::rng())));
    return out;
  }

  void SetUp() override {
    const test::NetcdfOptions o{.steps = kTimes, .rows = kRows, .columns = kColumns};
    values_ = waves();
    test::write_netcdf(dir_ / "era.nc", o, values_);
    for (const int16_t v : values_[0]) truth_.push_back(v * o.scale + o.offset);
  }
  std::string train(const Words& more, const std::string& config = "vit-tiny.yaml") {
    const std::string run = dir_ / "run";
    const Words words = Words{"data.train=" + (dir_ / "era.nc"),
                              "data.train_fraction=" + std::to_string(double{kTrained} / kTimes),
                              "data.dt=" + std::to_string(kDt),
                              "net.out_channels=1",
                              "net.img_height=16",
                              "net.img_width=24",
                              "train.global_batch=4",
                              "train.steps=6",
                              "train.lr=1e-3",
                              "train.checkpoint_every=6",
                              "run.threads=1",
                              "run.out=" + run} +
                        more;
    const Ended e = Child(train_words(source_dir() + "/configs/models/" + config, words)).wait();
    EXPECT_EQ(e.code, 0) << e.text;
    return run;
  }
  double truth(int64_t step, int64_t y, int64_t x) const {
    return truth_[static_cast<size_t>((step * kRows + y) * kColumns + x)];
  }
  // Mean over samples of the weighted RMSE of a forecast of step `first + i + ahead`
  double rmse(int64_t samples, int64_t first, int64_t ahead, const auto& forecast) const {
    double total = 0, mean = 0;
    const auto weight = [](int64_t y) {  // write_netcdf: rows of one degree, from 60 north
      return std::cos((60 - static_cast<double>(y)) * std::numbers::pi / 180);
    };
    for (int64_t y = 0; y < kRows; ++y) total += weight(y) * kColumns;
    for (int64_t i = 0; i < samples; ++i) {
      double sum = 0;
      for (int64_t y = 0; y < kRows; ++y)
        for (int64_t x = 0; x < kColumns; ++x) {
          const int64_t step = first + i + ahead;
          sum += weight(y) / total * std::pow(forecast(first + i, step, y, x) - truth(step, y, x), 2);
        }
      mean += std::sqrt(sum) / static_cast<double>(samples);
    }
    return mean;
  }

  Folder dir_;
  std::vector<test::Packed> values_;
  std::vector<double> truth_;
};

TEST_F(Verify, LeadsAreTheValidationsOfARollOutAndBaselinesThoseOfTheFile) {
  const std::string run =
      train({"net.in_channels=8", "data.history=2", "data.forcings=[time_of_day,solar_zenith]",
             "train.rollout=3", "train.prediction=increment", "train.loss=mse"});
  const Ended e = answer({"verify", run, "--json", "--threads", "1"});
  ASSERT_EQ(e.code, 0) << e.text;
  const json said = json::parse(e.text);
  const int64_t samples = kTimes - kTrained - kDt * 4, newest = kTrained + kDt;  // two states, three steps
  EXPECT_EQ(said.at("samples"), samples);
  ASSERT_EQ(said.at("leads").size(), 3u);

  // the engine's metric is the mean over the roll-out's steps
  json judged;
  for (const json& event : read_run(run).events)
    if (event["event"] == "valid") judged = event;
  double mean = 0;
  for (const json& lead : said.at("leads")) {
    const json& t = lead.at("targets").at(0);
    mean += t.at("net").at("rmse").get<double>() / t.at("std").get<double>() / 3;
  }
  EXPECT_NEAR(mean / judged.at("rmse").at(0).get<double>(), 1, 1e-5);

  // the first lead equals `forecast` on the same samples
  const Ended forecast = answer({"forecast", run, "-o", dir_ / "f.nc", "--json", "--threads", "1",
                                 "--samples", std::to_string(samples)});
  ASSERT_EQ(forecast.code, 0) << forecast.text;
  EXPECT_NEAR(said["leads"][0]["targets"][0]["net"]["rmse"].get<double>() /
                  json::parse(forecast.text)["channels"][0]["rmse"].get<double>(),
              1, 1e-5);

  // climatology by hour of day, over the one-step targets of the training data
  std::vector<std::vector<double>> usual(24, std::vector<double>(kRows * kColumns));
  std::vector<double> days(24);
  for (int64_t step = kDt; step < kTrained; ++step) {
    ++days[static_cast<size_t>(step % 24)];
    for (int64_t p = 0; p < kRows * kColumns; ++p)
      usual[static_cast<size_t>(step % 24)][static_cast<size_t>(p)] +=
          truth(step, p / kColumns, p % kColumns);
  }
  EXPECT_EQ(said.at("climatology_fields"), kTrained - kDt);
  for (int64_t k = 0; k < 3; ++k) {
    const json& lead = said["leads"][static_cast<size_t>(k)];
    EXPECT_EQ(lead.at("hours").get<double>(), static_cast<double>(kDt * (k + 1)));
    const json& t = lead.at("targets").at(0);
    const double same = rmse(samples, newest, kDt * (k + 1),
                             [&](int64_t now, int64_t, int64_t y, int64_t x) { return truth(now, y, x); });
    const double mean_of_hour =
        rmse(samples, newest, kDt * (k + 1), [&](int64_t, int64_t step, int64_t y, int64_t x) {
          return usual[static_cast<size_t>(step % 24)][static_cast<size_t>(y * kColumns + x)] /
                 days[static_cast<size_t>(step % 24)];
        });
    EXPECT_NEAR(t.at("persistence").at("rmse").get<double>() / same, 1, 1e-5) << k;
    EXPECT_NEAR(t.at("climatology").at("rmse").get<double>() / mean_of_hour, 1, 1e-5) << k;
  }
  EXPECT_EQ(said.at("cases").size(), static_cast<size_t>(samples));
  EXPECT_EQ(said["cases"][0]["from"], "2019-03-03T03:00Z");  // step 51
}

// Points of a region and their classes, for a net that predicts the whole grid and one that reads two times
// and predicts a box.
TEST_F(Verify, ARegionAndItsClassesAreThoseOfTheFile) {
  const auto judged = [&](const std::string& run, const Words& more) {
    const Ended e = answer(Words{"verify", run, "--json", "--threads", "1"} + more);
    EXPECT_EQ(e.code, 0) << e.text;
    return json::parse(e.text).at("leads").at(0).at("targets").at(0).at("persistence");
  };
  // rows 4 to 8 and columns 5 to 11: 56 to 52 degrees north, 5 to 11 degrees east of the first column
  const auto check = [&](const json& said, int64_t first, int64_t samples) {
    double all = 0, mean = 0, weight[3] = {}, squares[3] = {};
    int64_t hits[3] = {}, either[3] = {};
    const double ends[] = {280.005, 282.005};  // between packed values
    const auto w = [](int64_t y) { return std::cos((60 - static_cast<double>(y)) * std::numbers::pi / 180); };
    for (int64_t y = 4; y <= 8; ++y) all += 7 * w(y);
    for (int64_t i = 0; i < samples; ++i) {
      double sum = 0;
      for (int64_t y = 4; y <= 8; ++y)
        for (int64_t x = 5; x <= 11; ++x) {
          const auto p = static_cast<double>(static_cast<float>(truth(first + i, y, x))),
                     t = static_cast<double>(static_cast<float>(truth(first + i + kDt, y, x)));
          const int k = t < ends[0] ? 0 : t < ends[1] ? 1 : 2;
          sum += w(y) / all * (p - t) * (p - t);
          weight[k] += w(y), squares[k] += w(y) * (p - t) * (p - t);
          for (int j = 1; j < 3; ++j)
            hits[j] += p >= ends[j - 1] && t >= ends[j - 1],
                either[j] += p >= ends[j - 1] || t >= ends[j - 1];
        }
      mean += std::sqrt(sum) / static_cast<double>(samples);
    }
    EXPECT_NEAR(said.at("rmse").get<double>() / mean, 1, 1e-5);
    ASSERT_EQ(said.at("classes").size(), 3u);
    for (size_t k = 0; k < 3; ++k) {
      const json& c = said["classes"][k];
      EXPECT_NEAR(c.at("share").get<double>(), weight[k] / (weight[0] + weight[1] + weight[2]), 1e-6);
      EXPECT_NEAR(c.at("rmse").get<double>() / std::sqrt(squares[k] / weight[k]), 1, 1e-5);
      if (k > 0)
        EXPECT_DOUBLE_EQ(c.at("csi").get<double>(),
                         static_cast<double>(hits[k]) / static_cast<double>(either[k]));
    }
    EXPECT_TRUE(said["classes"][0]["csi"].is_null() && said["classes"][0]["from"].is_null());
  };
  const Words asked{"--region", "56,5,52,11", "--threshold", "t=282.005", "--threshold", "t=280.005"};
  std::string run = train({"net.in_channels=1"});
  check(judged(run, asked), kTrained, kTimes - kTrained - kDt);
  fs::remove_all(run);
  run = train({"net.in_channels=2", "data.history=2", "net.north=60", "net.downstream=[50, 58, 4, 12]",
               "net.upstream=[50, 58, 0, 4]", "net.boundary_longitude=4", "net.latent_size=8",
               "net.num_gnn_layers=2", "train.loss=mse"},
              "regional-gnn-tiny.yaml");
  check(judged(run, asked), kTrained + kDt, kTimes - kTrained - 2 * kDt);
  const auto refused = [&](const Words& words, const std::string& with) {
    const Ended bad = answer(Words{"verify", run} + words);
    EXPECT_EQ(bad.code, 2) << bad.text;
    EXPECT_NE(bad.text.find(with), std::string::npos) << bad.text;
  };
  refused({"--region", "56,5,48,11"}, "reaches beyond");
  refused({"--region", "20,100,10,110"}, "holds no point");
  refused({"--threshold", "t=280", "--threshold", "t=280"}, "given twice");
}

TEST_F(Verify, MakesAPageAndSaysWhatItCannot) {
  const std::string run = train({"net.in_channels=1"});
  const Ended e =
      answer({"verify", run, "--steps", "2", "--threshold", "t=285", "-o", dir_ / "page", "--threads", "1"});
  ASSERT_EQ(e.code, 0) << e.text;
  for (const char* word : {"Skill by lead time", "rmse persistence", "csi", "worst", "page/index.html"})
    EXPECT_NE(e.text.find(word), std::string::npos) << word << "\n" << e.text;
  for (const char* file : {"index.html", "tables/skill.csv", "tables/dates.csv", "figures/rmse0.vl.json",
                           "figures/acc0.vl.json", "figures/map0.vl.json", "figures/spectrum0.vl.json"})
    EXPECT_TRUE(fs::exists(fs::path(dir_ / "page") / file)) << file;
  const auto refused = [&](const Words& words, const std::string& with) {
    const Ended bad = answer(Words{"verify", run} + words);
    EXPECT_EQ(bad.code, 2) << bad.text;
    EXPECT_NE(bad.text.find(with), std::string::npos) << bad.text;
  };
  refused({"--threshold", "u10=3"}, "u10 is no target of this net");
  refused({"--threshold", "t"}, "is no threshold");
  refused({"--steps", "40"}, "times");
  refused({"--climatology", dir_ / "gone.nc"}, "gone.nc");
  // missing training data only remove the climatology
  fs::rename(dir_ / "era.nc", dir_ / "moved.nc");
  const Ended without =
      answer({"verify", run, "--data", dir_ / "moved.nc", "--samples", "3", "--threads", "1"});
  EXPECT_EQ(without.code, 0) << without.text;
  EXPECT_NE(without.text.find("no climatology, and no ACC"), std::string::npos) << without.text;
}

}  // namespace
}  // namespace isobar::engine
