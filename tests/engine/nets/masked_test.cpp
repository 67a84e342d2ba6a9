// Fields with missing values (data.mask) through the real command: every net under every axis trains like one
// rank, masked values have no influence, and metrics cover the unmasked points only.
#include <gtest/gtest.h>
#include <netcdf.h>

#include <cmath>
#include <numbers>

#include "tests/engine/layouts.h"
#include "tests/engine/ocean.h"

namespace isobar::engine {
namespace {

TEST(Masked, VitsTrainUnderAllAxesLikeOneRank) {
  const TestNet net = masked(two_channels(kVit));
  for (const Words& layout :
       {Words{"layout.dp=2", "policy.micro_batch=3"}, Words{"layout.tp=2", "policy.micro_batch=4"},
        Words{"layout.cp=3", "policy.micro_batch=2"}, Words{"layout.pp=2", "policy.micro_batch=3"},
        Words{"layout.dp=2", "layout.cp=2", "layout.pp=2", "policy.micro_batch=2", "policy.zero=3"}})
    expect_like_one_rank(layout, net);
}

TEST(Masked, EveryNetTrainsLikeOneRank) {
  const TestNet relative = [] {
    TestNet net = two_channels(kUnet);
    net = masked(net);
    net.set.insert(net.set.end(), {"train.loss=relative-l2", "train.latitude_weights=false"});
    return net;
  }();
  expect_like_one_rank({"layout.pp=3", "layout.dp=2", "policy.micro_batch=2"}, relative);
  expect_like_one_rank({"layout.cp=2", "layout.pp=2", "policy.micro_batch=3"}, masked(kGraph));
  expect_like_one_rank({"layout.cp=2", "layout.dp=2", "policy.micro_batch=3"}, masked(kGlobe));
  TestNet hourly = masked(kAurora);
  hourly.set.push_back("net.lead_time=1");
  expect_like_one_rank({"layout.cp=2", "layout.tp=2", "policy.micro_batch=6"}, hourly);
}

// Values on land influence neither statistics nor loss, weights or errors.
TEST(Masked, WhatIsLeftOutHasNoInfluence) {
  const Folder dir;
  const TestNet base = two_channels(kVit);
  const float cold = -40, hot = 3e4f;
  ocean_for(base).write(dir / "cold.nc", &cold);
  ocean_for(base).write(dir / "hot.nc", &hot);
  const auto train = [&](const std::string& name, const Words& more) {
    return run(dir / name, Words{"data.train=" + (dir / (name + ".nc")), "data.train_fraction=0.7"} + more, 1,
               {}, base);
  };
  for (const char* loss : {"relative-l2", "huber"}) {
    const Words mask = {"data.mask=ocean", std::string("train.loss=") + loss};
    const TrainedNet a = train("cold", mask), b = train("hot", mask);
    EXPECT_EQ(a.record.losses, b.record.losses);
    EXPECT_EQ(distance(a.weights, b.weights), 0);
    const auto valid = [](const TrainedNet& n) {
      for (json e : n.record.events)
        if (e["event"] == "valid") {
          e.erase("seconds");
          return e;
        }
      return json();
    };
    ASSERT_TRUE(valid(a).is_object());
    EXPECT_EQ(valid(a), valid(b));
    fs::remove_all(dir / "cold"), fs::remove_all(dir / "hot");
  }
}

// The baseline is recomputed from the file, the net's error from `forecast`'s output and by `verify`.
TEST(Masked, MetricsAreOfWhatCounts) {
  const Folder dir;
  const TestNet net = two_channels(kVit);
  const Ocean sea = ocean_for(net);
  sea.write(dir / "sea.nc", nullptr);
  const TrainedNet trained =
      run(dir / "run", {"data.train=" + (dir / "sea.nc"), "data.train_fraction=0.5", "data.mask=missing"}, 1,
          {}, net);
  json valid;
  for (const json& e : trained.record.events)
    if (e["event"] == "valid") valid = e;
  ASSERT_TRUE(valid.is_object());

  constexpr int64_t kFirst = Ocean::kTimes / 2, kSamples = Ocean::kTimes - kFirst - 1;
  double mean[2], std[2];
  for (int64_t c = 0; c < 2; ++c) {  // training part, unmasked points
    double n = 0, sum = 0, squares = 0;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t t = 0; t < kFirst; ++t)
        for (int64_t i = 0; i < sea.rows * sea.columns; ++i) {
          if (!sea.seen(t, c, i / sea.columns, i % sea.columns)) continue;
          const double v = static_cast<float>(sea.value(t, c, i / sea.columns, i % sea.columns));
          pass == 0 ? (n += 1, sum += v) : squares += (v - sum / n) * (v - sum / n);
        }
    mean[c] = sum / n, std[c] = std::sqrt(squares / n);
  }
  const auto weight = [&](int64_t y) {
    return std::cos((70 - 100.0 * static_cast<double>(y) / static_cast<double>(sea.rows)) * std::numbers::pi /
                    180);
  };
  // `guess`: normalised prediction
  const auto rmse = [&](int64_t c, const auto& guess) {
    double total = 0;
    for (int64_t s = 0; s < kSamples; ++s) {
      double sum = 0, area = 0;
      for (int64_t y = 0; y < sea.rows; ++y)
        for (int64_t x = 0; x < sea.columns; ++x) {
          if (!sea.seen(kFirst + s + 1, c, y, x)) continue;
          const double truth = (sea.value(kFirst + s + 1, c, y, x) - mean[c]) / std[c];
          sum += weight(y) * std::pow(guess(s, y, x) - truth, 2), area += weight(y);
        }
      total += std::sqrt(sum / area);
    }
    return total / static_cast<double>(kSamples);
  };
  for (int64_t c = 0; c < 2; ++c) {
    const double want = rmse(c, [&](int64_t s, int64_t y, int64_t x) {  // missing values are the mean
      return sea.seen(kFirst + s, c, y, x) ? (sea.value(kFirst + s, c, y, x) - mean[c]) / std[c] : 0.0;
    });
    EXPECT_NEAR(valid["persistence_rmse"][static_cast<size_t>(c)].get<double>(), want, 2e-5 * want);
  }

  const std::string fields = dir / "forecast.nc";
  const Ended reported = Child({command(), "forecast", dir / "run", "-o", fields, "--json"}).wait();
  ASSERT_EQ(reported.code, 0) << reported.text;
  const json forecast = json::parse(reported.text.substr(reported.text.find('{')));
  int nc = -1;
  NC(nc_open(fields.c_str(), NC_NOWRITE, &nc));
  for (int64_t c = 0; c < 2; ++c) {
    const auto k = static_cast<size_t>(c);
    int v = -1;
    NC(nc_inq_varid(nc, Ocean::name(c).c_str(), &v));
    std::vector<float> guess(static_cast<size_t>(kSamples * sea.rows * sea.columns));
    NC(nc_get_var_float(nc, v, guess.data()));
    const auto at = [&](int64_t s, int64_t y, int64_t x) {
      return static_cast<double>(guess[static_cast<size_t>((s * sea.rows + y) * sea.columns + x)]);
    };
    for (int64_t s = 0; s < kSamples; ++s)
      for (int64_t i = 0; i < sea.rows * sea.columns; ++i)
        ASSERT_EQ(std::isnan(at(s, i / sea.columns, i % sea.columns)),
                  !sea.seen(kFirst + s + 1, c, i / sea.columns, i % sea.columns));
    const double want =
        rmse(c, [&](int64_t s, int64_t y, int64_t x) { return (at(s, y, x) - mean[c]) / std[c]; });
    EXPECT_NEAR(valid["rmse"][k].get<double>(), want, 2e-4 * want);
    EXPECT_NEAR(forecast["channels"][k]["rmse_normalised"].get<double>(), valid["rmse"][k].get<double>(),
                1e-5 * want);
  }
  nc_close(nc);

  const Ended judged = Child({command(), "verify", dir / "run", "--json"}).wait();
  ASSERT_EQ(judged.code, 0) << judged.text;
  const json skill = json::parse(judged.text.substr(judged.text.find('{')));
  for (size_t c = 0; c < 2; ++c) {
    const json& of = skill["leads"][0]["targets"][c];
    EXPECT_NEAR(of["net"]["rmse"].get<double>(), valid["rmse"][c].get<double>() * std[c], 1e-3);
    EXPECT_NEAR(of["persistence"]["rmse"].get<double>(), valid["persistence_rmse"][c].get<double>() * std[c],
                1e-3);
  }

  // With two steps, predictions at masked points must not be fed back, by either command
  const Ended two = Child({command(), "verify", dir / "run", "--steps", "2", "--json"}).wait(),
              ahead = Child({command(), "forecast", dir / "run", "--steps", "2", "-o", dir / "two.nc",
                             "--json", "--batch", "3"})
                          .wait();
  ASSERT_EQ(two.code, 0) << two.text;
  ASSERT_EQ(ahead.code, 0) << ahead.text;
  const json by_lead = json::parse(two.text.substr(two.text.find('{'))),
             by_step = json::parse(ahead.text.substr(ahead.text.find('{')));
  for (size_t k = 0; k < 2; ++k)
    for (size_t c = 0; c < 2; ++c) {
      const double want = by_lead["leads"][k]["targets"][c]["net"]["rmse"].get<double>();
      EXPECT_NEAR(by_step["steps"][k]["channels"][c]["rmse"].get<double>(), want, 1e-4 * want)
          << k << by_step;
    }
}

TEST(Masked, AFieldWithoutAnyValueAndMasksWithoutFieldsAreRefused) {
  const Folder dir;
  const Ended rolls =
      train_command({"data.train=x.nc", "data.mask=missing", "train.rollout=2", "data.history=1"});
  EXPECT_EQ(rolls.code, 2);
  EXPECT_NE(rolls.text.find("data.mask"), std::string::npos) << rolls.text;
  const Ended rows = Child({command(), "train", source_dir() + "/configs/models/mlp-ice.yaml", "--set",
                            "data.train=a.csv", "--set", "data.mask=missing"})
                         .wait();
  EXPECT_EQ(rows.code, 2);
  EXPECT_NE(rows.text.find("data.mask"), std::string::npos) << rows.text;
}

}  // namespace
}  // namespace isobar::engine
