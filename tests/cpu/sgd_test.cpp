// SGD over several steps against the formula of torch.optim in double precision.
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

TEST(Sgd, FollowsTheFormulaOverFiveSteps) {
  Random random;
  for (const Isa isa : isas())
    for (const bool copy : {false, true}) {
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const int64_t n = random.one_of<int64_t>({1, 100, 20'011});
      const Sgd s{.lr = 0.01f,
                  .momentum = random.coin() ? 0.0f : 0.9f,
                  .weight_decay = random.coin() ? 0.0f : 0.1f,
                  .grad_scale = random.coin() ? 1.0f : 0.125f};
      Buffer p = random.buffer(DType::f32, n), buf(DType::f32, n);
      Buffer p16(random.coin() ? DType::bf16 : DType::f16, n);
      std::vector<double> P(n), B(n);
      for (int64_t i = 0; i < n; ++i) P[i] = p[i], buf.set(i, 0);
      for (int step = 0; step < 5; ++step) {
        const Buffer g = random.buffer(DType::f32, n);
        sgd(s, n, p.f32(), g.f32(), buf.f32(), copy ? p16.data() : nullptr, p16.type());
        const double lr = s.lr, momentum = s.momentum, decay = s.weight_decay, scale = s.grad_scale;
        for (int64_t i = 0; i < n; ++i) {
          B[i] = momentum * B[i] + g[i] * scale + decay * P[i];
          P[i] -= lr * B[i];
        }
      }
      EXPECT_TRUE(p.intact() && buf.intact() && p16.intact());
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_TRUE(within(p[i], P[i], 12 * kFloatRoundoff * (1 + std::abs(P[i]))));
        ASSERT_TRUE(within(buf[i], B[i], 20 * kFloatRoundoff * (4 + std::abs(B[i]))));
        if (copy) {
          Buffer want(p16.type(), 1);
          want.set(0, p[i]);
          ASSERT_EQ(p16[i], want[0]);
        }
      }
    }
}

}  // namespace
}  // namespace isobar::cpu::testing
