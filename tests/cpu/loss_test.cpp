// Patches, losses and weighted RMSE against their formulas on whole images, and in parts.
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

// all tokens of all samples
Patch whole(Patch s) {
  s.token0 = s.row0 = 0;
  s.tokens = (s.height / s.p) * (s.width / s.p);
  s.rows = s.batch * s.tokens;
  return s;
}

Patch random_patch(Random& random, DType act) {
  const int64_t p = random.one_of<int64_t>({1, 2, 4, 8, 3});
  return whole({.batch = random.integer(1, 3),
                .channels = random.integer(1, 7),
                .height = p * random.integer(2, 9),
                .width = p * random.integer(1, 9),
                .p = p,
                .act = act});
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
    for (const DType act : kActs) {
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const Patch s = random_patch(random, act);
      const Buffer image = random.buffer(DType::f32, pixels(s));
      Buffer patches(act, pixels(s));
      patch_gather(s, image.f32(), patches.data());
      EXPECT_TRUE(patches.intact());
      for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
        const float pixel = image.f32()[image_index(s, b, c, y, x)];
        const double want = act == DType::f32   ? pixel
                            : act == DType::f16 ? to_float(to_f16(pixel))
                                                : to_float(to_bf16(pixel));
        ASSERT_EQ(patches[patch_index(s, b, c, y, x, false)], want);
      });
    }
}

struct Expected {
  std::vector<double> error, size;  // per sample
  std::vector<double> weighted;     // per sample and channel
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
  e.weighted.resize(s.batch * s.channels);
  for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
    const double truth = target[image_index(s, b, c, y, x)];
    const double off = pred[patch_index(s, b, c, y, x, true)] - truth;
    e.error[b] += off * off;
    e.size[b] += truth * truth;
    e.weighted[b * s.channels + c] += static_cast<double>(s.height) * cosine(y) / cosines * off * off;
  });
  for (int64_t b = 0; b < s.batch; ++b) {
    e.loss += std::sqrt(e.error[b] / e.size[b]) / static_cast<double>(s.batch);
    for (int64_t c = 0; c < s.channels; ++c)
      e.rmse[c] += std::sqrt(e.weighted[b * s.channels + c] / static_cast<double>(s.height * s.width)) /
                   static_cast<double>(s.batch);
  }
  return e;
}

TEST(Loss, ForwardIsRelativeL2AndLatitudeWeightedRmse) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : kActs) {
      const Patch s = random_patch(random, act);
      const Buffer pred = random.buffer(act, pixels(s)), target = random.buffer(DType::f32, pixels(s), 2);
      const Expected e = reference(s, pred, target);
      const double weight = random.one_of({1.0, 0.25});
      float first = 0;
      for (const int threads : {1, 2, 3}) {
        const Running running(isa, threads);
        const int64_t n = 2 + s.channels;
        Buffer sums(DType::f32, s.batch * n), rmse(DType::f32, s.channels);
        for (int64_t c = 0; c < s.channels; ++c) rmse.set(c, 10);
        float loss = 5;
        loss_sums(s, pred.data(), target.f32(), sums.f32());
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
  double weight(int64_t c) const { return weights.empty() ? 1 : weights[c]; }
};

std::vector<Pointwise> pointwise_losses(Random& random, int64_t channels) {
  std::vector<Pointwise> out;
  for (const Loss::Kind kind : {Loss::Kind::mae, Loss::Kind::mse, Loss::Kind::huber})
    for (const bool weighted : {false, true}) {
      out.push_back({{.kind = kind, .delta = static_cast<float>(0.2 + std::abs(random.normal()))}, {}});
      for (int64_t c = 0; weighted && c < channels; ++c)
        out.back().weights.push_back(static_cast<float>(3 * std::abs(random.normal())));
    }
  for (Pointwise& p : out)
    if (!p.weights.empty()) p.loss.weights = p.weights.data();
  return out;
}

// Mean over samples, channels and pixels
double pointwise_reference(const Pointwise& p, const Patch& s, const Buffer& pred, const Buffer& target) {
  double sum = 0;
  for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
    sum += p.weight(c) * p.value(pred[patch_index(s, b, c, y, x, true)] - target[image_index(s, b, c, y, x)]);
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
      for (const Pointwise& p : pointwise_losses(random, s.channels)) {
        SCOPED_TRACE("kind " + std::to_string(static_cast<int>(p.loss.kind)));
        const double want = pointwise_reference(p, s, pred, target), scale = 1024;
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
          for (int64_t c = 0; c < s.channels; ++c)  // the metric is that of every loss
            EXPECT_TRUE(within(rmse[c], 0.25 * e.rmse[c], 1e-5 * e.rmse[c]));
          loss_backward(s, pred.data(), target.f32(), sums.f32(), static_cast<float>(scale), dpred.data(),
                        p.loss);
          EXPECT_TRUE(dpred.intact() && sums.intact() && rmse.intact());
          for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
            const int64_t i = patch_index(s, b, c, y, x, true);
            const double d = scale * p.weight(c) * p.slope(pred[i] - target[image_index(s, b, c, y, x)]) *
                             static_cast<double>(s.batch) / static_cast<double>(pixels(s));
            ASSERT_TRUE(within(dpred[i], d,
                               1e-6 * (std::abs(d) + scale * p.weight(c) / static_cast<double>(pixels(s))) +
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
  for (const Pointwise& p : pointwise_losses(random, 3)) {
    // Away from the kinks of |e| and of Huber's loss, which finite differences would straddle
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

// 0 = first cut <= … <= last cut = n
std::vector<int64_t> random_cuts(Random& random, int64_t n, bool may_be_empty) {
  std::vector<int64_t> cuts{0};
  const int64_t parts = random.integer(1, 5);
  for (int64_t i = 1; i < parts; ++i) cuts.push_back(random.integer(may_be_empty ? 0 : 1, n));
  cuts.push_back(n);
  std::sort(cuts.begin(), cuts.end());
  if (!may_be_empty) cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

// The whole as ranks hold it: runs of tokens (context), and of the rows that these make (sequence)
std::vector<Patch> random_parts(Random& random, const Patch& s) {
  std::vector<Patch> parts;
  const std::vector<int64_t> tokens = random_cuts(random, s.tokens, false);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    Patch part = s;
    part.token0 = tokens[i];
    part.tokens = tokens[i + 1] - tokens[i];
    const std::vector<int64_t> rows = random_cuts(random, s.batch * part.tokens, true);
    for (size_t j = 0; j + 1 < rows.size(); ++j) {
      part.row0 = rows[j];
      part.rows = rows[j + 1] - rows[j];
      parts.push_back(part);
    }
  }
  return parts;
}

// the row of the whole that row r of a part is
int64_t row_of_whole(const Patch& s, const Patch& part, int64_t r) {
  const int64_t sample = (part.row0 + r) / part.tokens;
  return sample * s.tokens + part.token0 + (part.row0 + r) % part.tokens;
}

int64_t patch_size(const Patch& s) {
  return s.p * s.p * s.channels;
}

// the part's rows of what the whole holds
Buffer rows_of(const Patch& s, const Patch& part, const Buffer& all) {
  Buffer mine(all.type(), part.rows * patch_size(s));
  const int64_t bytes = patch_size(s) * size_of(all.type());
  for (int64_t r = 0; r < part.rows; ++r)
    std::memcpy(static_cast<char*>(mine.data()) + r * bytes,
                static_cast<const char*>(all.data()) + row_of_whole(s, part, r) * bytes, bytes);
  return mine;
}

TEST(Parts, OfPatchesAndOfTheGradientMakeUpTheWhole) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 20; ++round) {
      const DType act = random.act();
      const Running running(isa, static_cast<int>(random.integer(1, 3)));
      const Patch s = random_patch(random, act);
      const Buffer image = random.buffer(DType::f32, pixels(s)),
                   target = random.buffer(DType::f32, pixels(s));
      const Buffer pred = random.buffer(act, pixels(s));
      Buffer sums(DType::f32, s.batch * (2 + s.channels));  // only the first two of a sample may be read
      for (int64_t b = 0; b < s.batch; ++b)
        for (int64_t i = 0; i < 2; ++i) sums.set(b * (2 + s.channels) + i, 1 + std::abs(random.normal()));
      Buffer patches(act, pixels(s)), dpred(act, pixels(s));  // the naive reference, on images
      for_pixels(s, [&](int64_t b, int64_t c, int64_t y, int64_t x) {
        const int64_t pixel = image_index(s, b, c, y, x), i = patch_index(s, b, c, y, x, true);
        patches.set(patch_index(s, b, c, y, x, false), image[pixel]);
        dpred.set(i, 0.5 * (pred[i] - target[pixel]) /
                         std::sqrt(sums[b * (2 + s.channels)] * sums[b * (2 + s.channels) + 1]));
      });
      std::vector<int> held(s.rows, 0);
      for (const Patch& part : random_parts(random, s)) {
        SCOPED_TRACE("tokens from " + std::to_string(part.token0) + ": " + std::to_string(part.tokens) +
                     ", rows from " + std::to_string(part.row0) + ": " + std::to_string(part.rows));
        const int64_t n = part.rows * patch_size(s);
        const Buffer part_pred = rows_of(s, part, pred), want = rows_of(s, part, dpred);
        Buffer part_patches(act, n), part_dpred(act, n);
        patch_gather(part, image.f32(), part_patches.data());
        loss_backward(part, part_pred.data(), target.f32(), sums.f32(), 0.5f, part_dpred.data());
        ASSERT_TRUE(part_patches.intact() && part_dpred.intact());
        ASSERT_TRUE(part_patches.same_bits(rows_of(s, part, patches)));
        for (int64_t i = 0; i < n; ++i)
          ASSERT_TRUE(within(part_dpred[i], want[i], 1e-6 + 2 * rounding(act, want[i]))) << "at " << i;
        for (int64_t r = 0; r < part.rows; ++r) ++held[row_of_whole(s, part, r)];
      }
      EXPECT_EQ(held, std::vector<int>(s.rows, 1));
    }
}

TEST(Parts, OfTheSumsAddUpToTheWholeForAnyNumberOfThreads) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 10; ++round) {
      const DType act = random.act();
      const Patch s = random_patch(random, act);
      const Buffer pred = random.buffer(act, pixels(s)), target = random.buffer(DType::f32, pixels(s), 2);
      const Expected e = reference(s, pred, target);
      const int64_t per_sample = 2 + s.channels;
      std::vector<double> total(s.batch * per_sample);
      for (const Patch& part : random_parts(random, s)) {
        const Buffer mine = rows_of(s, part, pred);
        std::vector<bool> held(s.batch);
        for (int64_t r = 0; r < part.rows; ++r) held[(part.row0 + r) / part.tokens] = true;
        Buffer first(DType::f32, s.batch * per_sample);
        for (const int threads : {1, 2, 3}) {
          const Running running(isa, threads);
          Buffer sums(DType::f32, s.batch * per_sample);
          loss_sums(part, mine.data(), target.f32(), sums.f32());
          ASSERT_TRUE(sums.intact());
          if (threads == 1) std::memcpy(first.data(), sums.data(), sums.bytes());
          ASSERT_TRUE(sums.same_bits(first));
        }
        for (int64_t i = 0; i < first.size(); ++i) {
          total[i] += first[i];
          if (!held[i / per_sample]) {
            ASSERT_EQ(first[i], 0) << "of a sample that is not held";
          }
        }
      }
      Buffer sums(DType::f32, s.batch * per_sample), rmse(DType::f32, s.channels);
      for (int64_t b = 0; b < s.batch; ++b)
        for (int64_t i = 0; i < per_sample; ++i) {
          const double want = i == 0 ? e.error[b] : i == 1 ? e.size[b] : e.weighted[b * s.channels + i - 2];
          ASSERT_TRUE(within(total[b * per_sample + i], want, 3e-6 * want)) << "sum " << i;
          sums.set(b * per_sample + i, total[b * per_sample + i]);
        }
      for (int64_t c = 0; c < s.channels; ++c) rmse.set(c, 0);
      float value = 0;
      cpu::loss(s, sums.f32(), 1, &value, rmse.f32());
      EXPECT_TRUE(within(value, e.loss, 3e-6 * e.loss));
      for (int64_t c = 0; c < s.channels; ++c) EXPECT_TRUE(within(rmse[c], e.rmse[c], 3e-6 * e.rmse[c]));
    }
}

}  // namespace
}  // namespace isobar::cpu::testing
