// The cost of failures, against a job with random failures.
#include "perfmodel/ask/choose/failures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace isobar::perf {
namespace {

// Wall time until `work` seconds of work are checkpointed: a failure loses the work since the last checkpoint
// and costs a restart, which may also fail.
double simulated(std::mt19937_64& random, double mtbf, double checkpoint, double restart, double every,
                 double work) {
  std::exponential_distribution<double> failure(1 / mtbf);
  double wall = 0, done = 0, next = failure(random);  // seconds from now to the next failure
  const auto lasts = [&](double seconds) {
    if (next < seconds) {
      wall += next;
      next = failure(random);
      return false;
    }
    wall += seconds;
    next -= seconds;
    return true;
  };
  while (done < work) {
    if (lasts(every + checkpoint)) {
      done += every;
      continue;
    }
    while (!lasts(restart)) {
    }
  }
  return wall;
}

TEST(Failures, TheUsefulShareIsThatOfAJobThatFailsAtRandom) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const auto& [mtbf, checkpoint, restart] :
       {std::tuple{3600.0, 30.0, 300.0}, {10000.0, 300.0, 60.0}, {2000.0, 100.0, 0.0}}) {
    const Failures f = failures(mtbf, checkpoint, restart);
    const double work = 4000 * f.every_s;  // some thousand failures or segments: at most 2 % of noise
    const double share = work / simulated(random, mtbf, checkpoint, restart, f.every_s, work);
    // The count of failures is Poisson; each costs about a restart and half an interval.
    const double count = work / f.useful / mtbf, each = restart + f.every_s;
    const double sigma = std::sqrt(count) * each / (work / f.useful);
    EXPECT_NEAR(share / f.useful, 1, 5 * sigma) << mtbf << ", a checkpoint of " << checkpoint;
  }
}

TEST(Failures, TheIntervalIsTheBestOne) {
  for (const double mtbf : {1000.0, 1e4, 1e6})
    for (const double checkpoint : {1.0, 20.0, 200.0}) {
      const Failures f = failures(mtbf, checkpoint, 100);
      EXPECT_EQ(f.useful, useful_share(mtbf, checkpoint, 100, f.every_s));
      for (const double other : {0.6, 0.8, 1.25, 1.7})
        EXPECT_GT(f.useful, useful_share(mtbf, checkpoint, 100, other * f.every_s))
            << mtbf << " " << checkpoint << " " << other;
    }
  EXPECT_NEAR(failures(1e6, 1, 0).every_s / std::sqrt(2.0 * 1 * 1e6), 1, 1e-3);  // Young
  EXPECT_EQ(failures(100, 300, 0).every_s, 100);                                 // Daly, beyond 2 M
  EXPECT_THROW(failures(0, 1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace isobar::perf
