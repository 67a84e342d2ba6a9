// The two passes that every field goes through: exact, and blind to nothing that is no number.
#include "model/data/normalise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/data/files.h"

namespace isobar::test {
namespace {

TEST(Normalise, IsExactAndFindsWhatIsNoNumberWhereverItStands) {
  using Limits = std::numeric_limits<float>;
  for (const int64_t n : {0, 1, 7, 63, 64, 65, 1000}) {
    const std::vector<float> x = random_floats(n, 250, 30);
    EXPECT_TRUE(are_finite(x.data(), n));
    std::vector<float> y = x;
    EXPECT_TRUE(normalise(y.data(), n, 251.5f, 29.0f));
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(y[i], (x[i] - 251.5f) / 29.0f);
    for (int64_t i = 0; i < n; ++i)
      for (const float odd : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                              -Limits::quiet_NaN(), Limits::signaling_NaN()}) {
        std::vector<float> bad = x;
        bad[i] = odd;
        ASSERT_FALSE(are_finite(bad.data(), n)) << i << " of " << n;
        ASSERT_FALSE(normalise(bad.data(), n, 251.5f, 29.0f)) << i << " of " << n;
      }
    for (const float good : {Limits::max(), Limits::lowest(), Limits::denorm_min(), -0.0f}) {
      std::vector<float> fine = x;
      if (n > 0) fine[n / 2] = good;
      EXPECT_TRUE(are_finite(fine.data(), n));
    }
  }
}

}  // namespace
}  // namespace isobar::test
