// Merging attention over parts of the keys, against the same sum in double precision.
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

TEST(AttentionMerge, IsTheWeightedSumOfItsParts) {
  Random random;
  for (int round = 0; round < 40; ++round) {
    const Running running(best_isa(), static_cast<int>(random.integer(1, 3)));
    const DType act = random.act();
    const int64_t d = random.integer(1, 80), heads = random.integer(1, 4), parts = random.integer(1, 5);
    Attention a{.batch = random.integer(1, 3), .heads = heads, .tq = random.integer(1, 70), .d = d};
    a.act = act;
    a.ld_o = heads * d + random.integer(0, 4);
    const int64_t rows = a.batch * a.tq, stats = rows * heads;
    std::vector<Buffer> o, lse;
    Buffer o_sum(DType::f32, rows * a.ld_o), lse_sum(DType::f32, stats);  // NaN: the first merge must not
                                                                          // read them
    for (int64_t p = 0; p < parts; ++p) {
      o.push_back(random.buffer(act, rows * a.ld_o));
      lse.push_back(random.buffer(DType::f32, stats, 30, 50));  // exp() of many overflows
      attention_merge(a, p == 0, o[p].data(), lse[p].f32(), o_sum.f32(), lse_sum.f32());
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t stat = (r / a.tq * heads + h) * a.tq + r % a.tq;
        double top = -INFINITY, sum = 0;
        for (const Buffer& x : lse) top = std::max(top, x[stat]);
        for (const Buffer& x : lse) sum += std::exp(x[stat] - top);
        const double both = top + std::log(sum);
        // every merge rounds an lse of this size: a relative error of a weight
        const double error = 8 * static_cast<double>(parts) * kFloatRoundoff * (200 + std::abs(both));
        ASSERT_TRUE(within(lse_sum[stat], both, error));
        for (int64_t c = 0; c < d; ++c) {
          double want = 0, size = 0;
          for (int64_t p = 0; p < parts; ++p) {
            const double term = std::exp(lse[p][stat] - both) * o[p][r * a.ld_o + h * d + c];
            want += term;
            size += std::abs(term);
          }
          ASSERT_TRUE(within(o_sum[r * a.ld_o + h * d + c], want, error * size + 1e-30));
        }
      }
    EXPECT_TRUE(o_sum.intact() && lse_sum.intact());
  }
}

}  // namespace
}  // namespace isobar::cpu::testing
