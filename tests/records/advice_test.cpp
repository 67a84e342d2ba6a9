// Advice on slow runs: the cause that the records show, with its figures, once; none within the interval.
#include "model/records/advice.h"

#include <gtest/gtest.h>

#include <random>

namespace isobar::records {
namespace {

const ExpectedStep kExpected{0.12, 0.11, 0.13, "predicted"};

struct Feed {
  Advisor advisor;
  std::mt19937_64 random{std::random_device{}()};
  std::vector<std::string> said = {};
  int64_t step = 0;
  void steps(int64_t n, double seconds, double wait = 0) {
    std::uniform_real_distribution<double> some(0.99, 1.01);
    for (int64_t i = 0; i < n; ++i)
      if (const auto advice =
              advisor.step({.step = ++step, .seconds = seconds * some(random), .data_wait_s = wait}))
        said.push_back(*advice);
  }
};

RanksRecord ranks(const std::vector<double>& compute, double mhz) {
  RanksRecord r;
  for (size_t i = 0; i < compute.size(); ++i) {
    RankRecord one;
    one.rank = static_cast<int64_t>(i);
    one.host = "n" + std::to_string(i);
    one.compute_s = compute[i];
    one.mhz = mhz;
    r.ranks.push_back(one);
  }
  return r;
}

void expect_one(const Feed& f, const std::vector<std::string>& words) {
  ASSERT_EQ(f.said.size(), 1u) << (f.said.empty() ? "" : f.said.back());
  EXPECT_EQ(f.advisor.given(), f.said);
  for (const std::string& w : words)
    EXPECT_NE(f.said[0].find(w), std::string::npos) << f.said[0] << "\n" << w;
}

// 4 workers make a batch in 0.18 s, so each takes 0.72 s for one: 6 of them make one in 0.12 s.
TEST(Advice, ALoaderThatIsTooSlowIsTold) {
  Feed f{Advisor({.expected = kExpected, .workers = 4})};
  f.steps(200, 0.18, 0.06);
  expect_one(f,
             {"ms a step, 120 expected (predicted)", "the loader, 60 ms", "6 workers would keep up, 4 are"});
}

TEST(Advice, WithinTheIntervalThereIsNone) {
  Feed f{Advisor({.expected = kExpected, .workers = 4})};
  f.steps(300, 0.128, 0.02);
  f.steps(300, 0.08, 0.02);
  EXPECT_TRUE(f.said.empty()) << f.said[0];
}

TEST(Advice, ASlowRankIsNamed) {
  Feed f{Advisor({.expected = kExpected})};
  f.advisor.ranks(ranks({0.1, 0.16, 0.1, 0.1}, 2400));
  f.steps(100, 0.18);
  expect_one(f, {"rank 1 on n1 computes 160 ms, the others 100", "2400 MHz"});
}

TEST(Advice, FallingClocksAreTold) {
  Feed f{Advisor({.expected = kExpected})};
  f.advisor.ranks(ranks({0.1, 0.1}, 2400));
  f.steps(50, 0.12);
  f.advisor.ranks(ranks({0.15, 0.15}, 1500));
  f.steps(100, 0.18);
  expect_one(f, {"rank 0 on n0 fell from 2400 to 1500 MHz"});
}

TEST(Advice, SwapIsTold) {
  Feed f{Advisor({.expected = kExpected})};
  f.advisor.swapped(3'000'000'000);
  f.steps(60, 0.3);
  expect_one(f, {"swapped, 3 GB"});
}

TEST(Advice, AFewLongStepsAreTold) {
  Feed f{Advisor({.expected = kExpected})};
  for (int i = 0; i < 40; ++i) f.steps(9, 0.12), f.steps(1, 0.6);
  expect_one(f, {"of 100 steps take 5 times the others"});
}

TEST(Advice, WithoutAnExpectationTheFirstStableMinuteIsOne) {
  Feed f{Advisor({})};
  f.steps(400, 0.2);  // 80 s
  EXPECT_TRUE(f.said.empty());
  f.steps(100, 0.3, 0.1);
  expect_one(f, {"200 expected (its first minute)", "the loader"});
}

TEST(Advice, ACauseThatNobodySeesIsSaidAfterAWhile) {
  Feed f{Advisor({.expected = kExpected})};
  f.steps(50, 0.18);
  EXPECT_TRUE(f.said.empty());
  f.steps(100, 0.18);
  expect_one(f, {"do not say why"});
}

TEST(Advice, TheExpectationSurvivesTheRecord) {
  const auto e = expected_in({{"expected", to_json(kExpected)}});
  ASSERT_TRUE(e);
  EXPECT_EQ(e->seconds, 0.12);
  EXPECT_EQ(e->from, "predicted");
  EXPECT_FALSE(expected_in({{"expected", {{"step_s", "x"}}}}));
  EXPECT_FALSE(expected_in(nullptr));
}

}  // namespace
}  // namespace isobar::records
