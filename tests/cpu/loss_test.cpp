// Losses and weighted RMSE against their formulas on whole images.
#include <cstring>

#include "model/base/latitude.h"
#include "model/base/loss_sums.h"
#include "tests/cpu/patches.h"

namespace isobar::cpu::testing {
namespace {

TEST(Loss, ForwardIsRelativeL2AndLatitudeWeightedRmse) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : kActs) {
      const Patch s = random_patch(random, act);
      const Buffer pred = random.buffer(act, pixels(s)), target = random.buffer(DType::f32, pixels(s), 2);
      std::vector<double> latitudes;  // a region's, not evenly spaced, or unknown
      if (random.integer(0, 1) == 1)
        for (double at = 89; static_cast<int64_t>(latitudes.size()) < s.height;
             at -= 0.1 + 0.1 * std::abs(random.normal()))
          latitudes.push_back(at);
      const std::vector<double> rows = row_weights(s.height, latitudes);
      const Expected e = reference(s, pred, target, latitudes);
      const double weight = random.one_of({1.0, 0.25});
      float first = 0;
      for (const int threads : {1, 2, 3}) {
        const Running running(isa, threads);
        const int64_t n = 2 + s.channels;
        Buffer sums(DType::f32, s.batch * n), rmse(DType::f32, s.channels);
        for (int64_t c = 0; c < s.channels; ++c) rmse.set(c, 10);
        float loss = 5;
        loss_sums(s, pred.data(), target.f32(), sums.f32(), {.rows = rows.data()});
        cpu::loss(s, sums.f32(), static_cast<float>(weight), &loss, rmse.f32());
        EXPECT_TRUE(sums.intact() && rmse.intact());
        EXPECT_TRUE(within(loss, 5 + weight * e.loss, 2e-6));
        if (threads == 1) first = loss;
        EXPECT_EQ(loss, first);
        for (int64_t b = 0; b < s.batch; ++b) {
          EXPECT_TRUE(within(sums[n * b], e.error[b], 3e-6 * e.error[b]));
          EXPECT_TRUE(within(sums[n * b + 1], e.size[b], 3e-6 * e.size[b]));
          for (int64_t c = 0; c < s.channels; ++c) {
            const double want = e.weighted[b * s.channels + c];
            EXPECT_TRUE(within(sums[n * b + 2 + c], want, 3e-6 * want));
          }
        }
        for (int64_t c = 0; c < s.channels; ++c) EXPECT_TRUE(within(rmse[c], 10 + weight * e.rmse[c], 1e-5));
      }
    }
}

TEST(Loss, BackwardIsItsGradientPerSample) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : kActs) {
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const Patch s = random_patch(random, act);
      const Buffer pred = random.buffer(act, pixels(s)), target = random.buffer(DType::f32, pixels(s), 2);
      const Expected e = reference(s, pred, target);
      const int64_t n = 2 + s.channels;
      Buffer sums(DType::f32, s.batch * n), dpred(act, pixels(s));
      for (int64_t b = 0; b < s.batch; ++b) {
        sums.set(n * b, e.error[b]);
        sums.set(n * b + 1, e.size[b]);
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
  const Patch s = whole({.batch = 2, .channels = 3, .height = 8, .width = 12, .p = 4, .act = DType::f32});
  const Buffer pred = random.buffer(DType::f32, pixels(s)), target = random.buffer(DType::f32, pixels(s));
  Buffer sums(DType::f32, 2 * 5), rmse(DType::f32, 3), dpred(DType::f32, pixels(s));
  float loss = 0;
  for (int64_t c = 0; c < 3; ++c) rmse.set(c, 0);
  loss_sums(s, pred.data(), target.f32(), sums.f32());
  cpu::loss(s, sums.f32(), 1, &loss, rmse.f32());
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

// ---- losses that are sums over pixels ----

struct Pointwise {
  Loss loss;
  std::vector<float> weights;  // {}: all 1
  double value(double e) const {
    const double size = std::abs(e), delta = loss.delta;
    if (loss.kind == Loss::Kind::mae) return size;
    if (loss.kind == Loss::Kind::mse) return e * e;
    return size <= delta ? e * e / 2 : delta * (size - delta / 2);
  }
  double slope(double e) const {
    const double delta = loss.delta;
    if (loss.kind == Loss::Kind::mae) return e > 0 ? 1 : e < 0 ? -1 : 0;
    if (loss.kind == Loss::Kind::mse) return 2 * e;
    return std::clamp(e, -delta, delta);
  }
  std::vector<double> rows;  // weights of the errors, and of the loss with by_rows
  double weight(int64_t c, int64_t y) const {
    return (weights.empty() ? 1 : weights[c]) * (loss.by_rows ? rows[y] : 1);
  }
};

std::vector<Pointwise> pointwise_losses(Random& random, int64_t channels, int64_t height) {
  std::vector<Pointwise> out;
  for (const Loss::Kind kind : {Loss::Kind::mae, Loss::Kind::mse, Loss::Kind::huber})
    for (const bool weighted : {false, true}) {
      out.push_back({{.kind = kind, .delta = static_cast<float>(0.2 + std::abs(random.normal()))}, {}});
      for (int64_t c = 0; weighted && c < channels; ++c)
        out.back().weights.push_back(static_cast<float>(3 * std::abs(random.normal())));
    }
  for (Pointwise& p : out) {
    if (!p.weights.empty()) p.loss.weights = p.weights.data();
    p.rows = row_weights(height, {});
    p.loss.rows = p.rows.data();
    p.loss.by_rows = random.coin();
  }
  return out;
}

// Mean over samples, channels and pixels
double pointwise_reference(const Pointwise& p, const Patch& s, const Buffer& pred, const Buffer& target) {
  double sum = 0;
  for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
    sum +=
        p.weight(c, y) * p.value(pred[patch_index(s, b, c, y, x, true)] - target[image_index(s, b, c, y, x)]);
  });
  return sum / static_cast<double>(pixels(s));
}

TEST(PointwiseLoss, IsTheWeightedMeanAndItsGradient) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : kActs) {
      const Patch s = random_patch(random, act);
      const Buffer target = random.buffer(DType::f32, pixels(s)), pred = random.buffer(act, pixels(s));
      const Expected e = reference(s, pred, target);
      for (const Pointwise& p : pointwise_losses(random, s.channels, s.height)) {
        SCOPED_TRACE("kind " + std::to_string(static_cast<int>(p.loss.kind)));
        const double want = pointwise_reference(p, s, pred, target), scale = act == DType::f16 ? 8 : 1024;
        float first = 0;
        for (const int threads : {1, 2, 3}) {
          const Running running(isa, threads);
          Buffer sums(DType::f32, s.batch * (2 + s.channels)), rmse(DType::f32, s.channels),
              dpred(act, pixels(s));
          for (int64_t c = 0; c < s.channels; ++c) rmse.set(c, 0);
          float loss = 5;
          loss_sums(s, pred.data(), target.f32(), sums.f32(), p.loss);
          cpu::loss(s, sums.f32(), 0.25f, &loss, rmse.f32(), p.loss);
          EXPECT_TRUE(within(loss, 5 + 0.25 * want, 2e-6 + 4e-6 * want));
          if (threads == 1) first = loss;
          EXPECT_EQ(loss, first);
          for (int64_t c = 0; c < s.channels; ++c)  // the metric is the same for every loss
            EXPECT_TRUE(within(rmse[c], 0.25 * e.rmse[c], 1e-5 * e.rmse[c]));
          loss_backward(s, pred.data(), target.f32(), sums.f32(), static_cast<float>(scale), dpred.data(),
                        p.loss);
          EXPECT_TRUE(dpred.intact() && sums.intact() && rmse.intact());
          for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
            const int64_t i = patch_index(s, b, c, y, x, true);
            const double d = scale * p.weight(c, y) * p.slope(pred[i] - target[image_index(s, b, c, y, x)]) *
                             static_cast<double>(s.batch) / static_cast<double>(pixels(s));
            ASSERT_TRUE(
                within(dpred[i], d,
                       1e-6 * (std::abs(d) + scale * p.weight(c, y) / static_cast<double>(pixels(s))) +
                           rounding(act, d)));
          });
        }
      }
    }
}

TEST(PointwiseLoss, GradientAgreesWithFiniteDifferences) {
  Random random;
  const Patch s = whole({.batch = 2, .channels = 3, .height = 8, .width = 12, .p = 4, .act = DType::f32});
  const Buffer target = random.buffer(DType::f32, pixels(s));
  for (const Pointwise& p : pointwise_losses(random, 3, s.height)) {
    // Away from the kinks of |e| and Huber's loss, which finite differences would straddle
    Buffer pred(DType::f32, pixels(s)), up(DType::f32, pixels(s)), down(DType::f32, pixels(s));
    const double delta = p.loss.delta;
    for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
      double e = random.normal();
      while (std::abs(e) < 0.02 || std::abs(std::abs(e) - delta) < 0.02) e = random.normal();
      pred.set(patch_index(s, b, c, y, x, true), target[image_index(s, b, c, y, x)] + e);
    });
    Buffer sums(DType::f32, 2 * 5), dpred(DType::f32, pixels(s));
    loss_sums(s, pred.data(), target.f32(), sums.f32(), p.loss);
    loss_backward(s, pred.data(), target.f32(), sums.f32(), 0.5f, dpred.data(),
                  p.loss);  // mean over two samples
    double slope = 0, magnitude = 0;
    for (int64_t i = 0; i < pixels(s); ++i) {
      const double direction = std::clamp(random.normal(), -3.0, 3.0) / 256;
      up.set(i, pred[i] + direction);
      down.set(i, pred[i] - direction);
      slope += dpred[i] * (up[i] - down[i]);
      magnitude += std::abs(dpred[i] * (up[i] - down[i]));
    }
    const double want = pointwise_reference(p, s, up, target) - pointwise_reference(p, s, down, target);
    EXPECT_TRUE(within(slope, want, 1e-5 * magnitude)) << static_cast<int>(p.loss.kind);
  }
}

// ---- masks: masked points have no effect ----

// Like land or missing observations: some columns of all channels, some points of each
Buffer random_mask(Random& random, const Patch& s) {
  Buffer mask(DType::f32, pixels(s));
  const int64_t land = random.integer(0, 3);
  for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
    const bool counts = s.height * s.width == 1 || ((x + 2 * y) % 4 != land && random.integer(0, 4) > 0);
    mask.set(image_index(s, b, c, y, x), counts ? 1 : 0);
  });
  return mask;
}

// The batch's loss and each channel's RMSE in double, by definition
struct Masked {
  double loss = 0;
  std::vector<double> rmse, slopes;  // slopes: of each pixel, in image order
};
Masked masked_reference(const Pointwise& p, const Patch& s, const Buffer& pred, const Buffer& target,
                        const Buffer& mask) {
  const auto value = [&](int64_t b, int64_t c, int64_t y, int64_t x, auto&& use) {
    const int64_t i = image_index(s, b, c, y, x);
    if (mask[i] != 0) use(i, pred[patch_index(s, b, c, y, x, true)] - target[i], target[i]);
  };
  Masked m{.rmse = std::vector<double>(static_cast<size_t>(s.channels)),
           .slopes = std::vector<double>(static_cast<size_t>(pixels(s)))};
  const auto batch = static_cast<double>(s.batch);
  const bool relative = p.loss.kind == Loss::Kind::relative_l2;
  for (int64_t b = 0; b < s.batch; ++b) {
    double sum = 0, size = 0, count = 0;
    for (int64_t c = 0; c < s.channels; ++c) {
      double squares = 0, area = 0;
      for (int64_t y = 0; y < s.height; ++y)
        for (int64_t x = 0; x < s.width; ++x)
          value(b, c, y, x, [&](int64_t, double e, double t) {
            sum += relative ? e * e : p.weight(c, y) * p.value(e);
            size += t * t;
            count += p.loss.by_rows ? p.rows[y] : 1;
            squares += p.rows[y] * e * e;
            area += p.rows[y];
          });
      if (area > 0) m.rmse[c] += std::sqrt(squares / area) / batch;
    }
    const double over = relative ? size : count;
    if (over == 0) continue;
    m.loss += (relative ? std::sqrt(sum / over) : sum / over) / batch;
    for (int64_t c = 0; c < s.channels; ++c)
      for (int64_t y = 0; y < s.height; ++y)
        for (int64_t x = 0; x < s.width; ++x)
          value(b, c, y, x, [&](int64_t i, double e, double) {
            m.slopes[i] = relative ? e / std::sqrt(sum * size) : p.weight(c, y) * p.slope(e) / count;
          });
  }
  return m;
}

TEST(MaskedLoss, IsOfWhatCountsAlone) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : kActs) {
      const Patch s = random_patch(random, act);
      const Buffer mask = random_mask(random, s);
      Buffer target = random.buffer(DType::f32, pixels(s)), pred = random.buffer(act, pixels(s));
      std::vector<Pointwise> losses = pointwise_losses(random, s.channels, s.height);
      losses.push_back({{.kind = Loss::Kind::relative_l2}, {}, row_weights(s.height, {})});
      losses.back().loss.rows = losses.back().rows.data();
      for (Pointwise& p : losses) {
        SCOPED_TRACE("kind " + std::to_string(static_cast<int>(p.loss.kind)));
        const Masked want = masked_reference(p, s, pred, target, mask);
        // Masked points may hold anything
        Buffer wild(act, pixels(s));
        std::memcpy(wild.data(), pred.data(), static_cast<size_t>(pred.bytes()));
        for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
          if (mask[image_index(s, b, c, y, x)] == 0)
            wild.set(patch_index(s, b, c, y, x, true), random.one_of<double>({NAN, 1e30, -3}));
        });
        p.loss.masked = true, p.loss.mask = mask.f32();
        // Slopes of few unmasked points are large; f16 ends at 65,504.
        const double scale = act == DType::f16 ? 8 : 1024;
        float first = 0;
        for (const int threads : {1, 2, 3}) {
          const Running running(isa, threads);
          Buffer sums(DType::f32, s.batch * loss_sums_size(s.channels, true)), rmse(DType::f32, s.channels),
              dpred(act, pixels(s));
          for (int64_t c = 0; c < s.channels; ++c) rmse.set(c, 0);
          float loss = 5;
          loss_sums(s, wild.data(), target.f32(), sums.f32(), p.loss);
          cpu::loss(s, sums.f32(), 0.25f, &loss, rmse.f32(), p.loss);
          EXPECT_TRUE(within(loss, 5 + 0.25 * want.loss, 2e-6 + 4e-6 * want.loss));
          if (threads == 1) first = loss;
          EXPECT_EQ(loss, first);
          for (int64_t c = 0; c < s.channels; ++c)
            EXPECT_TRUE(within(rmse[c], 0.25 * want.rmse[c], 1e-5 * want.rmse[c]));
          loss_backward(s, wild.data(), target.f32(), sums.f32(), static_cast<float>(scale), dpred.data(),
                        p.loss);
          EXPECT_TRUE(dpred.intact() && sums.intact() && rmse.intact());
          for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
            const int64_t at = image_index(s, b, c, y, x);
            const double d = scale * want.slopes[at], got = dpred[patch_index(s, b, c, y, x, true)];
            if (mask[at] == 0)
              ASSERT_EQ(got, 0);
            else
              ASSERT_TRUE(within(
                  got, d,
                  1e-5 * std::abs(d) + 1e-6 * scale / static_cast<double>(pixels(s)) + rounding(act, d)));
          });
        }
      }
    }
}

TEST(MaskedLoss, OfWhatCountsEverywhereIsTheLoss) {
  Random random;
  const Patch s = whole({.batch = 2, .channels = 3, .height = 8, .width = 12, .p = 4, .act = DType::f32});
  const Buffer pred = random.buffer(DType::f32, pixels(s)), target = random.buffer(DType::f32, pixels(s));
  Buffer ones(DType::f32, pixels(s)), sums(DType::f32, 2 * 5), more(DType::f32, 2 * 9), a(DType::f32, 4),
      b(DType::f32, 4);
  for (int64_t i = 0; i < pixels(s); ++i) ones.set(i, 1);
  for (int64_t i = 0; i < 4; ++i) a.set(i, 0), b.set(i, 0);
  for (Pointwise& p : pointwise_losses(random, 3, s.height)) {
    loss_sums(s, pred.data(), target.f32(), sums.f32(), p.loss);
    cpu::loss(s, sums.f32(), 1, a.f32(), a.f32() + 1, p.loss);
    p.loss.masked = true, p.loss.mask = ones.f32();
    loss_sums(s, pred.data(), target.f32(), more.f32(), p.loss);
    cpu::loss(s, more.f32(), 1, b.f32(), b.f32() + 1, p.loss);
    for (int64_t i = 0; i < 4; ++i) EXPECT_TRUE(within(b[i], a[i], 1e-6 * std::abs(a[i])));
  }
}

TEST(Loss, PerfectPredictionHasZeroLossAndZeroGradient) {
  const Patch s = whole({.batch = 1, .channels = 2, .height = 4, .width = 4, .p = 1, .act = DType::f32});
  Random random;
  const Buffer target = random.buffer(DType::f32, pixels(s));
  Buffer pred(DType::f32, pixels(s)), sums(DType::f32, 4), rmse(DType::f32, 2), dpred(DType::f32, pixels(s));
  for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
    pred.set(patch_index(s, b, c, y, x, true), target[image_index(s, b, c, y, x)]);
  });
  rmse.set(0, 0);
  rmse.set(1, 0);
  float loss = 0;
  loss_sums(s, pred.data(), target.f32(), sums.f32());
  cpu::loss(s, sums.f32(), 1, &loss, rmse.f32());
  loss_backward(s, pred.data(), target.f32(), sums.f32(), 1, dpred.data());
  EXPECT_EQ(loss, 0);
  for (int64_t i = 0; i < pixels(s); ++i) EXPECT_EQ(dpred[i], 0);
}

}  // namespace
}  // namespace isobar::cpu::testing
