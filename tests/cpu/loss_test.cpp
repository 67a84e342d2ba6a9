// Patches, relative L2 loss and weighted RMSE against their formulas on whole images.
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

Patch random_patch(Random& random, DType act) {
  const int64_t p = random.one_of<int64_t>({1, 2, 4, 8, 3});
  return {.batch = random.integer(1, 3),
          .channels = random.integer(1, 7),
          .height = p * random.integer(2, 9),
          .width = p * random.integer(1, 9),
          .p = p,
          .act = act};
}

int64_t pixels(const Patch& s) {
  return s.batch * s.channels * s.height * s.width;
}

// where pixel (b, c, y, x) lies among the patches; columns (c, row, col) or (row, col, c)
int64_t patch_index(const Patch& s, int64_t b, int64_t c, int64_t y, int64_t x, bool channel_last) {
  const int64_t row = (b * (s.height / s.p) + y / s.p) * (s.width / s.p) + x / s.p;
  const int64_t column =
      channel_last ? ((y % s.p) * s.p + x % s.p) * s.channels + c : (c * s.p + y % s.p) * s.p + x % s.p;
  return row * s.p * s.p * s.channels + column;
}

int64_t image_index(const Patch& s, int64_t b, int64_t c, int64_t y, int64_t x) {
  return ((b * s.channels + c) * s.height + y) * s.width + x;
}

template <class F>
void for_pixels(const Patch& s, const F& f) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t c = 0; c < s.channels; ++c)
      for (int64_t y = 0; y < s.height; ++y)
        for (int64_t x = 0; x < s.width; ++x) f(b, c, y, x);
}

TEST(PatchGather, PutsEveryPixelInItsColumn) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : {DType::f32, DType::bf16}) {
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const Patch s = random_patch(random, act);
      const Buffer image = random.buffer(DType::f32, pixels(s));
      Buffer patches(act, pixels(s));
      patch_gather(s, image.f32(), patches.data());
      EXPECT_TRUE(patches.intact());
      for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
        const float pixel = image.f32()[image_index(s, b, c, y, x)];
        const double want = act == DType::f32 ? pixel : to_float(to_bf16(pixel));
        ASSERT_EQ(patches[patch_index(s, b, c, y, x, false)], want);
      });
    }
}

struct Expected {
  std::vector<double> error, size;  // per sample
  std::vector<double> rmse;         // per channel
  double loss = 0;
};

Expected reference(const Patch& s, const Buffer& pred, const Buffer& target) {
  Expected e{.error = std::vector<double>(s.batch),
             .size = std::vector<double>(s.batch),
             .rmse = std::vector<double>(s.channels)};
  double cosines = 0;
  const auto cosine = [&](int64_t y) {
    return std::cos((90.0 - 180.0 * static_cast<double>(y) / static_cast<double>(s.height - 1)) * M_PI /
                    180.0);
  };
  for (int64_t y = 0; y < s.height; ++y) cosines += cosine(y);
  std::vector<double> weighted(s.batch * s.channels);
  for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
    const double truth = target[image_index(s, b, c, y, x)];
    const double off = pred[patch_index(s, b, c, y, x, true)] - truth;
    e.error[b] += off * off;
    e.size[b] += truth * truth;
    weighted[b * s.channels + c] += static_cast<double>(s.height) * cosine(y) / cosines * off * off;
  });
  for (int64_t b = 0; b < s.batch; ++b) {
    e.loss += std::sqrt(e.error[b] / e.size[b]) / static_cast<double>(s.batch);
    for (int64_t c = 0; c < s.channels; ++c)
      e.rmse[c] += std::sqrt(weighted[b * s.channels + c] / static_cast<double>(s.height * s.width)) /
                   static_cast<double>(s.batch);
  }
  return e;
}

TEST(Loss, ForwardIsRelativeL2AndLatitudeWeightedRmse) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : {DType::f32, DType::bf16}) {
      const Patch s = random_patch(random, act);
      const Buffer pred = random.buffer(act, pixels(s)), target = random.buffer(DType::f32, pixels(s), 2);
      const Expected e = reference(s, pred, target);
      const double weight = random.one_of({1.0, 0.25});
      float first = 0;
      for (const int threads : {1, 2, 3}) {
        const Running running(isa, threads);
        Buffer sums(DType::f32, s.batch * 2), rmse(DType::f32, s.channels);
        for (int64_t c = 0; c < s.channels; ++c) rmse.set(c, 10);
        float loss = 5;
        loss_forward(s, pred.data(), target.f32(), static_cast<float>(weight), sums.f32(), &loss, rmse.f32());
        EXPECT_TRUE(sums.intact() && rmse.intact());
        EXPECT_TRUE(within(loss, 5 + weight * e.loss, 2e-6));
        if (threads == 1) first = loss;
        EXPECT_EQ(loss, first);
        for (int64_t b = 0; b < s.batch; ++b) {
          EXPECT_TRUE(within(sums[2 * b], e.error[b], 3e-6 * e.error[b]));
          EXPECT_TRUE(within(sums[2 * b + 1], e.size[b], 3e-6 * e.size[b]));
        }
        for (int64_t c = 0; c < s.channels; ++c) EXPECT_TRUE(within(rmse[c], 10 + weight * e.rmse[c], 1e-5));
      }
    }
}

TEST(Loss, BackwardIsItsGradientPerSample) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : {DType::f32, DType::bf16}) {
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const Patch s = random_patch(random, act);
      const Buffer pred = random.buffer(act, pixels(s)), target = random.buffer(DType::f32, pixels(s), 2);
      const Expected e = reference(s, pred, target);
      Buffer sums(DType::f32, s.batch * 2), dpred(act, pixels(s));
      for (int64_t b = 0; b < s.batch; ++b) {
        sums.set(2 * b, e.error[b]);
        sums.set(2 * b + 1, e.size[b]);
      }
      const double scale = 0.5;
      loss_backward(s, pred.data(), target.f32(), sums.f32(), static_cast<float>(scale), dpred.data());
      EXPECT_TRUE(dpred.intact());
      for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
        const int64_t i = patch_index(s, b, c, y, x, true);
        const double want =
            scale * (pred[i] - target[image_index(s, b, c, y, x)]) / std::sqrt(e.error[b] * e.size[b]);
        ASSERT_TRUE(within(dpred[i], want, 1e-6 * scale / std::sqrt(e.size[b]) + rounding(act, want)));
      });
    }
}

TEST(Loss, BackwardAgreesWithFiniteDifferences) {
  Random random;
  const Patch s{.batch = 2, .channels = 3, .height = 8, .width = 12, .p = 4, .act = DType::f32};
  const Buffer pred = random.buffer(DType::f32, pixels(s)), target = random.buffer(DType::f32, pixels(s));
  Buffer sums(DType::f32, 4), rmse(DType::f32, 3), dpred(DType::f32, pixels(s));
  float loss = 0;
  for (int64_t c = 0; c < 3; ++c) rmse.set(c, 0);
  loss_forward(s, pred.data(), target.f32(), 1, sums.f32(), &loss, rmse.f32());
  loss_backward(s, pred.data(), target.f32(), sums.f32(), 0.5f, dpred.data());  // mean over the batch of two
  Buffer up(DType::f32, pixels(s)), down(DType::f32, pixels(s));
  double slope = 0, magnitude = 0;
  for (int64_t i = 0; i < pixels(s); ++i) {
    const double direction = random.normal() / 256;
    up.set(i, pred[i] + direction);
    down.set(i, pred[i] - direction);
    slope += dpred[i] * (up[i] - down[i]);
    magnitude += std::abs(dpred[i] * (up[i] - down[i]));
  }
  const double want = reference(s, up, target).loss - reference(s, down, target).loss;
  EXPECT_TRUE(within(slope, want, 1e-4 * magnitude));
}

TEST(Loss, PerfectPredictionHasZeroLossAndZeroGradient) {
  const Patch s{.batch = 1, .channels = 2, .height = 4, .width = 4, .p = 1, .act = DType::f32};
  Random random;
  const Buffer target = random.buffer(DType::f32, pixels(s));
  Buffer pred(DType::f32, pixels(s)), sums(DType::f32, 2), rmse(DType::f32, 2), dpred(DType::f32, pixels(s));
  for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
    pred.set(patch_index(s, b, c, y, x, true), target[image_index(s, b, c, y, x)]);
  });
  rmse.set(0, 0);
  rmse.set(1, 0);
  float loss = 0;
  loss_forward(s, pred.data(), target.f32(), 1, sums.f32(), &loss, rmse.f32());
  loss_backward(s, pred.data(), target.f32(), sums.f32(), 1, dpred.data());
  EXPECT_EQ(loss, 0);
  for (int64_t i = 0; i < pixels(s); ++i) EXPECT_EQ(dpred[i], 0);
}

}  // namespace
}  // namespace isobar::cpu::testing
