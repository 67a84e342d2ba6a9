// Patches of images, and losses of ranks' parts of them.
#include "model/base/latitude.h"
#include "tests/cpu/patches.h"

namespace isobar::cpu::testing {
namespace {

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

// A whole as ranks hold it: runs of tokens (context parallelism), and of their rows (sequence parallelism)
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

// The row of the whole for row r of a part
int64_t row_of_whole(const Patch& s, const Patch& part, int64_t r) {
  const int64_t sample = (part.row0 + r) / part.tokens;
  return sample * s.tokens + part.token0 + (part.row0 + r) % part.tokens;
}

int64_t patch_size(const Patch& s) {
  return s.p * s.p * s.channels;
}

// The part's rows of the whole
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
      Buffer sums(DType::f32, s.batch * (2 + s.channels));  // only a sample's first two may be read
      for (int64_t b = 0; b < s.batch; ++b)
        for (int64_t i = 0; i < 2; ++i) sums.set(b * (2 + s.channels) + i, 1 + std::abs(random.normal()));
      Buffer patches(act, pixels(s)), dpred(act, pixels(s));  // naive reference, on images
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
      const std::vector<double> rows = row_weights(s.height, {});
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
          loss_sums(part, mine.data(), target.f32(), sums.f32(), {.rows = rows.data()});
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
