// Adam and AdamW over several steps against the formula of torch.optim in double precision.
#include "model/plan/plan.h"
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

constexpr double kFew = 3 * kFloatRoundoff;

TEST(Adam, FollowsTheFormulaOverFiveSteps) {
  Random random;
  for (const Isa isa : isas())
    for (const bool adamw : {false, true})
      for (const bool copy : {false, true}) {
        const Running running(isa, static_cast<int>(random.integer(1, 2)));
        const int64_t n = random.one_of<int64_t>({1, 100, 20'011});
        const double wd = random.coin() ? 0.0 : 0.1, scale = random.one_of({1.0, 0.125});
        Buffer p = random.buffer(DType::f32, n), m(DType::f32, n), v(DType::f32, n);
        Buffer p16(random.coin() ? DType::bf16 : DType::f16, n);
        std::vector<double> P(n), M(n), V(n);
        std::vector<double> dP(n), dM(n),
            dV(n);  // bounds of their errors: each result is rounded a few times
        for (int64_t i = 0; i < n; ++i) {
          P[i] = p[i];
          m.set(i, 0);
          v.set(i, 0);
        }
        for (int64_t step = 1; step <= 5; ++step) {
          const Buffer g = random.buffer(DType::f32, n, step == 3 ? 1e-3 : 1);
          const Adam a{.lr = 1e-3f,
                       .beta1 = 0.9f,
                       .beta2 = 0.95f,
                       .eps = 1e-8f,
                       .weight_decay = static_cast<float>(wd),
                       .adamw = adamw,
                       .step = step,
                       .grad_scale = static_cast<float>(scale)};
          adam(a, n, p.f32(), g.f32(), m.f32(), v.f32(), copy ? p16.data() : nullptr, p16.type());
          const double b1 = a.beta1, b2 = a.beta2, lr = a.lr, decay = a.weight_decay;
          for (int64_t i = 0; i < n; ++i) {
            double grad = g[i] * scale, d_grad = kFew * std::abs(grad);
            if (adamw) P[i] *= 1 - lr * decay;
            if (!adamw) {  // the decay may cancel the gradient
              grad += decay * P[i];
              d_grad += decay * dP[i] + kFew * (std::abs(grad) + std::abs(decay * P[i]));
            }
            M[i] = b1 * M[i] + (1 - b1) * grad;
            dM[i] = b1 * dM[i] + (1 - b1) * d_grad + kFew * (std::abs(M[i]) + std::abs((1 - b1) * grad));
            V[i] = b2 * V[i] + (1 - b2) * grad * grad;
            dV[i] = b2 * dV[i] + (1 - b2) * 2 * std::abs(grad) * d_grad + kFew * V[i];
            const double of_m = 1 - std::pow(b1, static_cast<double>(step)),
                         of_v = 1 - std::pow(b2, static_cast<double>(step));
            const double root = std::sqrt(V[i] / of_v) + static_cast<double>(a.eps);
            const double update = M[i] / of_m / root;
            P[i] -= lr * update;
            dP[i] += lr * (dM[i] / of_m / root +
                           std::abs(update) * (dV[i] / (2 * std::max(V[i], 1e-300)) + 2 * kFew)) +
                     2 * kFloatRoundoff * std::abs(P[i]);
          }
        }
        EXPECT_TRUE(p.intact() && m.intact() && v.intact() && p16.intact());
        for (int64_t i = 0; i < n; ++i) {
          ASSERT_TRUE(within(p[i], P[i], 1.1 * dP[i]));
          ASSERT_TRUE(within(m[i], M[i], 1.1 * dM[i]));
          ASSERT_TRUE(within(v[i], V[i], 1.1 * dV[i] + 1e-30));
          if (copy) {
            Buffer want(p16.type(), 1);
            want.set(0, p[i]);
            ASSERT_EQ(p16[i], want[0]);
          }
        }
      }
}

// a zero gradient from the start must not divide 0 by 0
TEST(Adam, ZeroGradientLeavesTheParameter) {
  for (const Isa isa : isas()) {
    const Running running(isa, 1);
    float p[3] = {1, -2, 3}, g[3] = {}, m[3] = {}, v[3] = {};
    adam({.lr = 1,
          .beta1 = 0.9f,
          .beta2 = 0.95f,
          .eps = 1e-8f,
          .weight_decay = 0,
          .adamw = false,
          .step = 1,
          .grad_scale = 1},
         3, p, g, m, v, nullptr);
    EXPECT_EQ(p[0], 1);
    EXPECT_EQ(p[1], -2);
    EXPECT_EQ(p[2], 3);
  }
}

TEST(LossScale, BacksOffAtOnceAndGrowsAfterAWindow) {
  const cpu::LossScale p{4, 3};
  float scalars[plan::kScalars] = {};
  scalars[plan::kLossScale] = 16;
  const auto step = [&](float norm2) {
    cpu::loss_scale(p, &norm2, scalars);
    return norm2;
  };
  EXPECT_EQ(step(512), 2);  // 512 / 16^2
  EXPECT_EQ(scalars[plan::kUnscale], 1.0f / 16);
  EXPECT_EQ(scalars[plan::kStep], 1);
  step(512);
  step(512);
  EXPECT_EQ(scalars[plan::kUnscale], 1.0f / 16) << "this step's gradients carry the old scale";
  EXPECT_EQ(scalars[plan::kLossScale], 32);
  EXPECT_EQ(scalars[plan::kStep], 3);
  for (const float bad : {INFINITY, NAN, INFINITY, NAN}) {
    step(bad);
    EXPECT_EQ(scalars[plan::kUnscale], 0);
    EXPECT_EQ(scalars[plan::kStep], 3);
    EXPECT_EQ(scalars[plan::kGoodSteps], 0);
  }
  EXPECT_EQ(scalars[plan::kLossScale], 4) << "the least";
}

}  // namespace
}  // namespace isobar::cpu::testing
