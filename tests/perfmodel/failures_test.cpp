// The cost of failures, against a job with random failures.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "perfmodel/ask/choose/schedule.h"

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
    const double every = best_interval(mtbf, checkpoint);
    const double useful = useful_share(mtbf, checkpoint, restart, every);
    const double work = 4000 * every;  // some thousand failures or segments: at most 2 % of noise
    const double share = work / simulated(random, mtbf, checkpoint, restart, every, work);
    // The count of failures is Poisson; each costs about a restart and half an interval.
    const double count = work / useful / mtbf, each = restart + every;
    const double sigma = std::sqrt(count) * each / (work / useful);
    EXPECT_NEAR(share / useful, 1, 5 * sigma) << mtbf << ", a checkpoint of " << checkpoint;
  }
}

TEST(Failures, TheIntervalIsTheBestOne) {
  for (const double mtbf : {1000.0, 1e4, 1e6})
    for (const double checkpoint : {1.0, 20.0, 200.0}) {
      const double every = best_interval(mtbf, checkpoint);
      for (const double other : {0.6, 0.8, 1.25, 1.7})
        EXPECT_GT(useful_share(mtbf, checkpoint, 100, every),
                  useful_share(mtbf, checkpoint, 100, other * every))
            << mtbf << " " << checkpoint << " " << other;
    }
  EXPECT_NEAR(best_interval(1e6, 1) / std::sqrt(2.0 * 1 * 1e6), 1, 1e-3);  // Young
  EXPECT_EQ(best_interval(100, 300), 100);                                 // Daly, beyond 2 M
  EXPECT_THROW(best_interval(0, 1), std::invalid_argument);
}

}  // namespace
}  // namespace isobar::perf
