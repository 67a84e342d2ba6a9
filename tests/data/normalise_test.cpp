// The normalisation pass: exact, and detects every value that is not finite.
#include "model/data/statistics/normalise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/data/files/element.h"
#include "tests/data/files.h"

namespace isobar::test {
namespace {

TEST(Finish, IsExactAndFindsWhatIsNoNumberWhereverItStands) {
  using Limits = std::numeric_limits<float>;
  for (const bool swapped : {false, true})
    for (const bool scale : {false, true})
      for (const int64_t n : {0, 1, 7, 63, 64, 65, 1000}) {
        const data::Finish how{.swapped = swapped, .scale = scale, .mean = 251.5f, .std = 29.0f};
        const auto stored = [&](std::vector<float> x) {
          if (swapped) data::swap_bytes(x.data(), n, sizeof(float));
          return x;
        };
        const std::vector<float> x = random_floats(n, 250, 30);
        std::vector<float> y = stored(x);
        EXPECT_TRUE(data::finish(y.data(), n, how).finite);
        for (int64_t i = 0; i < n; ++i) EXPECT_EQ(y[i], scale ? (x[i] - 251.5f) / 29.0f : x[i]);
        for (int64_t i = 0; i < n; ++i)
          for (const float odd : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                                  -Limits::quiet_NaN(), Limits::signaling_NaN()}) {
            std::vector<float> bad = x;
            bad[i] = odd;
            bad = stored(bad);
            ASSERT_FALSE(data::finish(bad.data(), n, how).finite) << i << " of " << n;
          }
        for (const float good : {Limits::max(), Limits::lowest(), Limits::denorm_min(), -0.0f}) {
          std::vector<float> fine = x;
          if (n > 0) fine[n / 2] = good;
          fine = stored(fine);
          EXPECT_TRUE(data::finish(fine.data(), n, how).finite);
        }
      }
}

TEST(Finish, AFillValueIsFoundWhereverItStands) {
  for (const bool swapped : {false, true})
    for (const bool scale : {false, true})
      for (const int64_t n : {1, 63, 64, 65, 300})
        for (int64_t i = 0; i < n; ++i) {
          const data::Finish how{
              .swapped = swapped, .scale = scale, .mean = 250, .std = 30, .fill = 9.96921e36f};
          std::vector<float> x = random_floats(n, 250, 30), fine = x;
          x[i] = how.fill;
          if (swapped)
            data::swap_bytes(x.data(), n, sizeof(float)), data::swap_bytes(fine.data(), n, sizeof(float));
          const data::Finished found = data::finish(x.data(), n, how),
                               none = data::finish(fine.data(), n, how);
          ASSERT_TRUE(found.filled && found.finite) << i << " of " << n;
          ASSERT_TRUE(!none.filled && none.finite) << i << " of " << n;
        }
}

}  // namespace
}  // namespace isobar::test
