// Scores of forecasts against independent definitions: sums in long double over lists of points, two passes,
// a Fourier transform by its formula.
#include "model/skill/skill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <map>
#include <numbers>
#include <random>

#include "model/base/latitude.h"
#include "model/skill/climatology.h"
#include "model/skill/error_map.h"
#include "model/skill/spectrum.h"

namespace isobar::skill {
namespace {

using Real = long double;
using Fields = std::vector<float>;

std::mt19937_64& random_bits() {
  static std::mt19937_64 generator = [] {
    const uint64_t seed = std::random_device{}();
    testing::Test::RecordProperty("seed", std::to_string(seed));
    return std::mt19937_64(seed);
  }();
  return generator;
}

Fields random_fields(int64_t n, float mean, float deviation) {
  std::normal_distribution<float> d(mean, deviation);
  Fields f(static_cast<size_t>(n));
  for (float& x : f) x = d(random_bits());
  return f;
}

double uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random_bits());
}

struct Points {  // of one channel, unmasked
  std::vector<Real> w, p, t, usual;
  Real mean(const auto& f) const {
    Real sum = 0, all = 0;
    for (size_t i = 0; i < w.size(); ++i) sum += w[i] * f(i), all += w[i];
    return sum / all;
  }
};

Real correlation_of(const Points& s) {
  const Real p = s.mean([&](size_t i) { return s.p[i]; }), t = s.mean([&](size_t i) { return s.t[i]; });
  return s.mean([&](size_t i) { return (s.p[i] - p) * (s.t[i] - t); }) / std::sqrt(s.mean([&](size_t i) {
           return (s.p[i] - p) * (s.p[i] - p);
         }) * s.mean([&](size_t i) { return (s.t[i] - t) * (s.t[i] - t); }));
}

Real acc_of(const Points& s) {
  const auto own = [&](size_t i) { return s.p[i] - s.usual[i]; };
  const auto theirs = [&](size_t i) { return s.t[i] - s.usual[i]; };
  return s.mean([&](size_t i) { return own(i) * theirs(i); }) / std::sqrt(s.mean([&](size_t i) {
           return own(i) * own(i);
         }) * s.mean([&](size_t i) { return theirs(i) * theirs(i); }));
}

TEST(Skill, EveryScoreIsItsDefinition) {
  constexpr int64_t C = 3, H = 7, W = 10, kSamples = 5;
  const std::vector<double> latitudes = {61, 58.5, 56, 53.5, 51, 48.5, 46};
  std::vector<double> weights = area_weights(H, W, latitudes);
  double all = 0;
  for (const double w : weights) all += w;
  EXPECT_NEAR(all, 1, 1e-12);
  for (int64_t y = 1; y < H; ++y)
    EXPECT_NEAR(weights[static_cast<size_t>(y * W)] / weights[0],
                std::cos(latitudes[static_cast<size_t>(y)] * std::numbers::pi / 180) /
                    std::cos(61 * std::numbers::pi / 180),
                1e-12);
  for (const size_t gone : {size_t{3}, size_t{44}}) weights[gone] = 0;  // points without weight
  all = 0;
  for (const double w : weights) all += w;
  for (double& w : weights) w /= all;

  const std::vector<std::vector<double>> thresholds = {{282, 280.5}, {}, {279.5}};  // in any order
  Skill skill(2, C, weights, thresholds);
  std::vector<Real> rmse(C), mae(C), bias(C), correlation(C), acc(C);
  std::vector<Points> pooled(C);
  for (int64_t n = 0; n < kSamples; ++n) {
    Fields p = random_fields(C * H * W, 280, 2), t = p;
    const Fields off = random_fields(C * H * W, 0.3f, 1), usual = random_fields(C * H * W, 280, 1);
    for (size_t i = 0; i < t.size(); ++i) t[i] += off[i];
    for (int64_t c = 0; c < C; ++c) t[static_cast<size_t>(c * H * W + 3)] = NAN;  // … may hold anything
    const std::vector<double> said = skill.add(1, p.data(), t.data(), usual.data());
    for (int64_t c = 0; c < C; ++c) {
      Points s;
      for (int64_t i = 0; i < H * W; ++i) {
        if (weights[static_cast<size_t>(i)] == 0) continue;
        const auto at = static_cast<size_t>(c * H * W + i);
        s.w.push_back(weights[static_cast<size_t>(i)]);
        s.p.push_back(p[at]), s.t.push_back(t[at]), s.usual.push_back(usual[at]);
        Points& of_all = pooled[static_cast<size_t>(c)];
        of_all.w.push_back(s.w.back()), of_all.p.push_back(s.p.back()), of_all.t.push_back(s.t.back());
      }
      const auto error = [&](size_t i) { return s.p[i] - s.t[i]; };
      const auto k = static_cast<size_t>(c);
      const Real own = std::sqrt(s.mean([&](size_t i) { return error(i) * error(i); }));
      EXPECT_NEAR(said[k] / static_cast<double>(own), 1, 1e-9);
      rmse[k] += own / kSamples;
      mae[k] += s.mean([&](size_t i) { return std::abs(error(i)); }) / kSamples;
      bias[k] += s.mean(error) / kSamples;
      correlation[k] += correlation_of(s) / kSamples;
      acc[k] += acc_of(s) / kSamples;
    }
  }
  for (int64_t c = 0; c < C; ++c) {
    const SkillScore got = skill.of(1, c);
    const auto k = static_cast<size_t>(c);
    EXPECT_NEAR(got.rmse, static_cast<double>(rmse[k]), 1e-9);
    EXPECT_NEAR(got.mae, static_cast<double>(mae[k]), 1e-9);
    EXPECT_NEAR(got.bias, static_cast<double>(bias[k]), 1e-9);
    EXPECT_NEAR(got.correlation, static_cast<double>(correlation[k]), 1e-9);
    EXPECT_NEAR(got.acc, static_cast<double>(acc[k]), 1e-9);
    std::vector<double> ends = thresholds[k];
    if (!ends.empty()) ends.push_back(INFINITY);
    std::sort(ends.begin(), ends.end());
    ASSERT_EQ(got.classes.size(), ends.size());
    double from = -INFINITY;
    for (size_t i = 0; i < ends.size(); from = ends[i++]) {
      const ClassScore& is = got.classes[i];
      EXPECT_EQ(is.from, from);
      EXPECT_EQ(is.to, ends[i]);
      Real all_weights = 0, weight = 0, squares = 0;
      int64_t hits = 0, either = 0;
      const Points& s = pooled[k];
      for (size_t n = 0; n < s.w.size(); ++n) {
        const bool here = s.t[n] >= from && s.t[n] < ends[i];
        all_weights += s.w[n], weight += here ? s.w[n] : 0;
        squares += here ? s.w[n] * (s.p[n] - s.t[n]) * (s.p[n] - s.t[n]) : 0;
        hits += s.p[n] >= from && s.t[n] >= from, either += s.p[n] >= from || s.t[n] >= from;
      }
      EXPECT_GT(weight, 0);
      EXPECT_NEAR(is.share, static_cast<double>(weight / all_weights), 1e-9);
      EXPECT_NEAR(is.rmse, static_cast<double>(std::sqrt(squares / weight)), 1e-9);
      if (i == 0)
        EXPECT_TRUE(std::isnan(is.csi));
      else
        EXPECT_DOUBLE_EQ(is.csi, static_cast<double>(hits) / static_cast<double>(either));
    }
    EXPECT_TRUE(std::isnan(skill.of(0, c).rmse)) << "no sample at this lead";
  }
}

TEST(Skill, WhatIsNotKnownIsNoNumber) {
  Skill skill(1, 1, area_weights(2, 4, {}));
  const Fields flat(8, 3.f), other = random_fields(8, 0, 1);
  skill.add(0, other.data(), flat.data(), nullptr);  // nothing varies, no climatology
  const SkillScore s = skill.of(0, 0);
  EXPECT_TRUE(std::isnan(s.correlation) && std::isnan(s.acc) && s.classes.empty());
  EXPECT_GT(s.rmse, 0);
}

TEST(Climatology, IsTheMeanOfItsHourOfTheDay) {
  Climatology usual(4), timeless(4);
  std::map<int, std::vector<Fields>> of_hour;
  for (int i = 0; i < 90; ++i) {
    const int hour = i * 6 - 120;  // including before 1970
    of_hour[((hour % 24) + 24) % 24].push_back(random_fields(4, 5, 2));
    usual.add(hour, of_hour[((hour % 24) + 24) % 24].back().data());
    timeless.add(std::nan(""), of_hour[((hour % 24) + 24) % 24].back().data());
  }
  usual.finish(), timeless.finish();
  ASSERT_EQ(of_hour.size(), 4u);
  std::vector<Real> all(4);
  for (const auto& [hour, fields] : of_hour)
    for (size_t i = 0; i < 4; ++i) {
      Real mean = 0;
      for (const Fields& f : fields)
        mean += f[i] / static_cast<Real>(fields.size()), all[i] += f[i] / Real{90};
      EXPECT_NEAR(usual.at(24000 + hour)[i], static_cast<double>(mean), 1e-5);
    }
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(timeless.at(std::nan(""))[i], static_cast<double>(all[i]), 1e-5);
  EXPECT_EQ(usual.at(3), nullptr);
  EXPECT_EQ(usual.at(std::nan("")), nullptr);
}

TEST(ZonalSpectrum, IsTheFourierTransformsAndItsPowersAreTheVariance) {
  for (const int64_t W : {12, 15, 49}) {
    constexpr int64_t C = 2, H = 3;
    const std::vector<double> rows = row_weights(H, {60, 50, 40});
    ZonalSpectrum spectrum(C, rows, W);
    std::vector<std::vector<Real>> want(C, std::vector<Real>(static_cast<size_t>(W / 2 + 1)));
    std::vector<Real> variance(C);
    for (int n = 0; n < 2; ++n) {
      const Fields f = random_fields(C * H * W, 280, 2);
      spectrum.add(f.data());
      for (int64_t c = 0; c < C; ++c)
        for (int64_t y = 0; y < H; ++y) {
          const float* row = f.data() + (c * H + y) * W;
          Real mean = 0, squares = 0;
          for (int64_t x = 0; x < W; ++x) mean += row[x] / static_cast<Real>(W);
          for (int64_t x = 0; x < W; ++x) squares += (row[x] - mean) * (row[x] - mean) / static_cast<Real>(W);
          variance[static_cast<size_t>(c)] += rows[static_cast<size_t>(y)] * squares / H / 2;
          for (int64_t k = 0; k <= W / 2; ++k) {
            std::complex<Real> sum = 0;
            for (int64_t x = 0; x < W; ++x)
              sum +=
                  std::polar(static_cast<Real>(row[x]),
                             -2 * std::numbers::pi_v<Real> * static_cast<Real>(k * x) / static_cast<Real>(W));
            want[static_cast<size_t>(c)][static_cast<size_t>(k)] +=
                rows[static_cast<size_t>(y)] * (k == 0 || 2 * k == W ? 1 : 2) * std::norm(sum) /
                static_cast<Real>(W * W) / H / 2;
          }
        }
    }
    for (int64_t c = 0; c < C; ++c) {
      const std::vector<double> got = spectrum.power(c);
      ASSERT_EQ(got.size(), static_cast<size_t>(W / 2 + 1));
      Real all = 0;
      for (size_t k = 0; k < got.size(); ++k) {
        EXPECT_NEAR(got[k] / static_cast<double>(want[static_cast<size_t>(c)][k]), 1, 1e-8) << W << " " << k;
        if (k > 0) all += got[k];
      }
      EXPECT_NEAR(static_cast<double>(all / variance[static_cast<size_t>(c)]), 1, 1e-8);
    }
  }
}

// Blocks of grids larger than a map; points without weight; a block without points.
TEST(ErrorMap, IsTheRootMeanSquareOfWhatCountsInEachBlock) {
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{7, 9}, {181, 360}, {97, 401}}) {
    const int64_t points = height * width;
    std::vector<double> latitude(static_cast<size_t>(height)), weights(static_cast<size_t>(points));
    for (int64_t y = 0; y < height; ++y) latitude[static_cast<size_t>(y)] = 90 - static_cast<double>(y);
    for (double& w : weights) w = uniform(0, 1) < 0.2 ? 0 : 1;
    ErrorMap map({2, height, width}, latitude, {});
    struct Sum {
      double squares = 0;
      int64_t points = 0;
    };
    std::map<std::pair<int64_t, int64_t>, Sum> want;  // by channel and block
    const auto first_of = [](int64_t block, int64_t blocks, int64_t of) { return block * of / blocks; };
    for (int sample = 0; sample < 3; ++sample) {
      std::vector<float> p(static_cast<size_t>(2 * points)), t(p.size());
      for (size_t i = 0; i < p.size(); ++i)
        p[i] = static_cast<float>(uniform(-1, 1)),
        t[i] = uniform(0, 1) < 0.1 ? NAN : static_cast<float>(uniform(-1, 1));
      for (int64_t i = 0; i < std::min<int64_t>(3, width); ++i) t[static_cast<size_t>(i)] = NAN;
      map.add(weights, p.data(), t.data());
      for (int64_t c = 0; c < 2; ++c)
        for (int64_t by = 0; by < map.rows(); ++by)
          for (int64_t bx = 0; bx < map.columns(); ++bx)
            for (int64_t y = first_of(by, map.rows(), height); y < first_of(by + 1, map.rows(), height); ++y)
              for (int64_t x = first_of(bx, map.columns(), width); x < first_of(bx + 1, map.columns(), width);
                   ++x) {
                const auto at = static_cast<size_t>(c * points + y * width + x);
                if (weights[static_cast<size_t>(y * width + x)] == 0 || std::isnan(t[at])) continue;
                Sum& s = want[{c, by * map.columns() + bx}];
                const double e = static_cast<double>(p[at]) - static_cast<double>(t[at]);
                s.squares += e * e, ++s.points;
              }
    }
    EXPECT_LE(map.rows(), 90);
    EXPECT_LE(map.columns(), 180);
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t b = 0; b < map.rows() * map.columns(); ++b) {
        const double got = map.rmse(static_cast<size_t>(c), b);
        const auto found = want.find({c, b});
        if (found == want.end()) {
          EXPECT_TRUE(std::isnan(got));
        } else {
          const double mean = found->second.squares / static_cast<double>(found->second.points);
          ASSERT_NEAR(got, std::sqrt(mean), 1e-12);
        }
      }
    EXPECT_TRUE(height > 90 || std::isnan(map.rmse(0, 0)));  // missing in every sample
    EXPECT_EQ(map.latitude().front(),
              height > 90 ? (90.0 + 90.0 - static_cast<double>(height / 90 - 1)) / 2 : 90);
  }
}

}  // namespace
}  // namespace isobar::skill
