// Images, losses, optimizers.
#include <cstring>

#include "model/backend/cuda/kernels/workspace.h"
#include "model/base/latitude.h"
#include "model/base/loss_sums.h"
#include "model/plan/plan.h"
#include "tests/cuda/kernels/kernel_check.h"

namespace isobar::cuda::testing {
namespace {

struct Image {
  int64_t batch, channels, height, width, p, token0, tokens, row0, rows;
  Patch patch(DType act) const {
    return {batch, channels, height, width, p, act, token0, tokens, row0, rows};
  }
  int64_t pixels() const { return batch * channels * height * width; }
  int64_t columns() const { return p * p * channels; }
};
// whole images; some tokens of each; some rows of those; a patch too large for shared memory; one row of
// pixels
const Image kImages[] = {{2, 5, 16, 32, 4, 0, 32, 0, 64},
                         {2, 3, 12, 18, 3, 5, 13, 0, 26},
                         {3, 2, 8, 8, 2, 3, 9, 7, 15},
                         {1, 20, 24, 48, 24, 0, 2, 0, 2},
                         {1, 4, 1, 6, 1, 0, 6, 0, 6}};

TEST(Kernels, PatchGatherIsTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const Image& s : kImages)
    for (const DType act : kActs) {
      const Buffer image = random.buffer(DType::f32, s.pixels());
      Buffer patches(act, s.rows * s.columns());
      const OnDevice gi(image), gp(patches);
      patch_gather(s.patch(act), gi.f32(), gp.data(), nullptr);
      cpu::patch_gather(s.patch(act), image.f32(), patches.data());
      EXPECT_TRUE(gp.read(act).same_bits(patches)) << name_of(act) << " p " << s.p;
    }
}

TEST(Kernels, RollsAndUnrollsAsTheCpu) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (Image s : kImages)
    for (const int64_t history : {1, 3})
      for (const DType act : kActs)
        for (const DType type : {act, DType::f32}) {
          const int64_t predicted = s.channels, of_a_time = predicted + (history > 1 ? 2 : 0),
                        area = s.p * s.p;
          s.channels = history * of_a_time;
          const Buffer prediction = random.buffer(type, s.rows * predicted * area),
                       before = random.buffer(act, s.rows * s.columns()),
                       forcing = random.buffer(DType::f32,
                                               s.batch * (of_a_time - predicted) * s.height * s.width + 1);
          Buffer patches(act, before.size()), carried(act, before.size()),
              back(type, s.rows * predicted * area);
          std::memcpy(patches.data(), before.data(), static_cast<size_t>(before.bytes()));
          const OnDevice gp(prediction), gb(before), gf(forcing), go(patches), gc(carried), gk(back);
          // Overwrites the previous step's, as a push-forward does.
          cuda::roll(s.patch(act), {predicted, history, type}, gp.data(), go.data(), gf.f32(), go.data(),
                     nullptr);
          cpu::roll(s.patch(act), {predicted, history, type}, prediction.data(), patches.data(),
                    forcing.f32(), patches.data());
          EXPECT_TRUE(go.read(act).same_bits(patches))
              << name_of(act) << " p " << s.p << " history " << history;
          cuda::unroll(s.patch(act), {predicted, history, type}, gb.data(), gk.data(), gc.data(), nullptr);
          cpu::unroll(s.patch(act), {predicted, history, type}, before.data(), back.data(), carried.data());
          EXPECT_TRUE(gk.read(type).same_bits(back)) << name_of(act) << " p " << s.p;
          EXPECT_TRUE(gc.read(act).same_bits(carried)) << name_of(act) << " p " << s.p;
          s.channels = predicted;
        }
}

TEST(Kernels, LossesAndTheirGradientsAreTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const Image& s : kImages)
    for (const DType act : kActs)
      for (const auto kind : {Loss::Kind::relative_l2, Loss::Kind::mae, Loss::Kind::mse, Loss::Kind::huber}) {
        const Buffer pred = random.buffer(act, s.rows * s.columns()),
                     target = random.buffer(DType::f32, s.pixels());
        const Buffer weights = random.buffer(DType::f32, s.channels, 0.1, 1);
        Loss loss_gpu{};
        loss_gpu.kind = kind;
        loss_gpu.delta = 0.7f;
        // The first channel's large targets weigh more.
        std::vector<float> above(static_cast<size_t>(s.channels), 0.3f),
            intense(static_cast<size_t>(s.channels), 1.0f);
        intense[0] = kind == Loss::Kind::relative_l2 ? 1.0f : 3.0f;
        for (int64_t c = 0; c < s.channels; ++c) {
          loss_gpu.weight[c] = weights.f32()[c];
          loss_gpu.above[c] = above[static_cast<size_t>(c)];
          loss_gpu.intense[c] = intense[static_cast<size_t>(c)];
        }
        const std::vector<double> rows = row_weights(s.height, {});
        Buffer rows32(DType::f32, s.height);
        for (int64_t y = 0; y < s.height; ++y) rows32.set(y, rows[static_cast<size_t>(y)]);
        const OnDevice gr(rows32);
        loss_gpu.rows = gr.f32();
        loss_gpu.by_rows = kind == Loss::Kind::mse || kind == Loss::Kind::huber;
        Buffer mask(DType::f32, s.pixels());
        for (int64_t i = 0; i < mask.size(); ++i) mask.set(i, random.integer(0, 3) > 0 ? 1 : 0);
        const OnDevice gk(mask);
        loss_gpu.masked = random.coin();
        loss_gpu.mask = loss_gpu.masked ? gk.f32() : nullptr;
        const cpu::Loss loss_cpu{kind,
                                 0.7f,
                                 kind == Loss::Kind::relative_l2 ? nullptr : weights.f32(),
                                 above.data(),
                                 intense.data(),
                                 rows.data(),
                                 loss_gpu.by_rows,
                                 loss_gpu.masked,
                                 mask.f32()};
        Buffer sums(DType::f32, s.batch * loss_sums_size(s.channels, loss_gpu.masked)),
            dpred(act, s.rows * s.columns());
        Buffer metrics = random.buffer(DType::f32, 1 + s.channels),
               scalars = random.buffer(DType::f32, plan::kScalars);
        scalars.set(plan::kLossScale, 1024);
        const int64_t padding = random.integer(0, s.batch);
        scalars.set(plan::kPadding, static_cast<double>(padding));
        Buffer scratch(DType::f32, 2 * loss_columns(loss_gpu.masked) * s.channels * s.batch *
                                       loss_partials(s.batch, s.tokens));
        const OnDevice gp(pred), gt(target), gs(sums), gd(dpred), gm(metrics), gc(scalars), gw(scratch);
        loss_sums(s.patch(act), gp.data(), gt.f32(), gs.f32(), loss_gpu, gw.f64(), nullptr);
        cpu::loss_sums(s.patch(act), pred.data(), target.f32(), sums.f32(), loss_cpu);
        const std::string what = std::string(name_of(act)) + " loss " +
                                 std::to_string(static_cast<int>(kind)) + " p " + std::to_string(s.p);
        expect_near(gs.read(DType::f32), sums, 2e-6, what + " sums");
        loss(s.patch(act), gs.f32(), 0.25f, padding > 0 ? gc.f32() : nullptr, gm.f32(), loss_gpu, nullptr);
        cpu::loss(s.patch(act), sums.f32(), 0.25f, metrics.f32(), metrics.f32() + 1, loss_cpu, padding);
        expect_near(gm.read(DType::f32), metrics, 2e-6, what + " metrics");
        for (const bool scaled : {false, true}) {
          loss_backward(s.patch(act), gp.data(), gt.f32(), gs.f32(), 0.5f, scaled ? gc.f32() : nullptr,
                        gd.data(), loss_gpu, nullptr);
          cpu::loss_backward(s.patch(act), pred.data(), target.f32(), sums.f32(), scaled ? 0.5f * 1024 : 0.5f,
                             dpred.data(), loss_cpu);
          expect_near(gd.read(act), dpred, tolerance(act), what + " gradient");
        }
        (void)gw.read(DType::f32);
      }
}

TEST(Kernels, CrossEntropyIsTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 2}, {37, 10}, {9, 1000}, {300, 33}})
    for (const DType act : kActs)
      for (const DType type : {DType::f32, DType::i32}) {
        const int64_t column0 = random.integer(0, 3), padding = random.integer(0, rows);
        const Buffer logits = random.buffer(act, rows * cols, 4);
        Buffer labels(DType::f32, rows), largest(DType::f32, rows), sums(DType::f32, 2 * rows),
            dlogits(act, rows * cols), metrics = random.buffer(DType::f32, 2),
                                       scalars(DType::f32, plan::kScalars), scratch(DType::f32, 2 * rows);
        for (int64_t r = 0; r < rows; ++r) {
          const int64_t label = column0 + random.integer(0, cols - 1);
          if (type == DType::i32)
            static_cast<int32_t*>(labels.data())[r] = static_cast<int32_t>(label);
          else
            labels.set(r, static_cast<double>(label));
        }
        for (int i = 0; i < plan::kScalars; ++i) scalars.set(i, 0);
        scalars.set(plan::kLossScale, 512);
        scalars.set(plan::kPadding, static_cast<double>(padding));
        const OnDevice gx(logits), gl(labels), gm(largest), gs(sums), gd(dlogits), go(metrics), gc(scalars),
            gw(scratch);
        const Classes c{rows, cols, act, type, column0};
        const std::string what =
            std::string(name_of(act)) + " " + std::to_string(rows) + " x " + std::to_string(cols);
        cross_entropy_max(c, gx.data(), gm.f32(), nullptr);
        cpu::cross_entropy_max(c, logits.data(), largest.f32());
        EXPECT_TRUE(gm.read(DType::f32).same_bits(largest)) << what;
        cross_entropy_sums(c, gx.data(), gl.data(), gm.f32(), gs.f32(), nullptr);
        cpu::cross_entropy_sums(c, logits.data(), labels.data(), largest.f32(), sums.f32());
        expect_near(gs.read(DType::f32), sums, 2e-6, what + " sums");
        cross_entropy(c, gx.data(), gl.data(), gm.f32(), gs.f32(), 0.25f, gc.f32(), gd.data(), go.f32(), true,
                      gw.f32(), nullptr);
        const float slope = act == DType::f16 ? 0.25f * 512 : 0.25f;
        cpu::cross_entropy(c, logits.data(), labels.data(), largest.f32(), sums.f32(), 0.25f, slope, padding,
                           dlogits.data(), metrics.f32(), metrics.f32() + 1);
        expect_near(gd.read(act), dlogits, tolerance(act), what + " gradient");
        expect_near(go.read(DType::f32), metrics, 2e-6, what + " metrics");
        cross_entropy(c, gx.data(), gl.data(), gm.f32(), gs.f32(), 0.25f, gc.f32(), gx.data(), go.f32(),
                      false, gw.f32(), nullptr);
        expect_near(gx.read(act), dlogits, tolerance(act), what + " gradient over the logits");
      }
}

TEST(Kernels, DropoutIsTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const auto& [n, each] :
       {std::pair<int64_t, int64_t>{1, 1}, {1023, 1}, {40000, 1}, {5, 2049}, {1, 300}})
    for (const DType act : kActs)
      for (const bool training : {true, false}) {
        const Buffer x = random.buffer(act, n * each);
        Buffer want = random.buffer(act, n * each), scalars(DType::f32, plan::kScalars);
        std::memcpy(want.data(), x.data(), static_cast<size_t>(x.bytes()));
        const int64_t first = random.integer(0, int64_t{1} << 33), step = random.integer(1, 100000);
        for (int i = 0; i < plan::kScalars; ++i) scalars.set(i, 0);
        scalars.set(plan::kTraining, training ? 1 : 0);
        scalars.set(plan::kStep, static_cast<double>(act == DType::f16 ? step - 1 : step));
        const DropoutDraw draw{7, static_cast<uint64_t>(random.integer(0, 100)), 0.3f, 0};
        const OnDevice gx(x), gc(scalars);
        dropout(draw, gc.f32(), first, n, each, act, gx.data(), nullptr, nullptr);
        if (training)
          cpu::dropout({draw.seed, draw.stream, draw.rate, step}, first, n, act, want.data(), each);
        EXPECT_TRUE(gx.read(act).same_bits(want)) << name_of(act) << " " << n << " of " << each;
      }
}

TEST(Kernels, SquaredSumIsTheCpusAndAlwaysTheSame) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const int64_t n : {int64_t{1}, int64_t{8192}, int64_t{30001}})
    for (const DType t : {DType::f32, DType::bf16})
      for (const bool accumulate : {false, true}) {
        const Buffer x = random.buffer(t, n);
        Buffer sum(DType::f32, 1), scratch(DType::f32, 2 * squared_sum_partials(n));
        sum.set(0, 3);
        const OnDevice gx(x), gs(sum), again(sum), gw(scratch);
        squared_sum(n, gx.data(), t, gs.f32(), accumulate, gw.f64(), nullptr);
        squared_sum(n, gx.data(), t, again.f32(), accumulate, gw.f64(), nullptr);
        const double want = cpu::squared_sum(n, x.data(), t) + (accumulate ? 3.0 : 0.0);
        const Buffer got = gs.read(DType::f32);
        EXPECT_NEAR(got[0], want, 5e-7 * want) << n << " " << name_of(t);
        EXPECT_TRUE(got.same_bits(again.read(DType::f32)));
      }
}

TEST(Kernels, LossScaleIsTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  for (const float norm : {4.0f, INFINITY, NAN})
    for (const float good : {0.0f, 9.0f})
      for (const float scale : {65536.0f, 1.0f}) {
        Buffer norm2(DType::f32, 1), scalars(DType::f32, plan::kScalars);
        norm2.set(0, static_cast<double>(norm));
        for (int i = 0; i < plan::kScalars; ++i) scalars.set(i, 1);
        scalars.set(plan::kLossScale, static_cast<double>(scale));
        scalars.set(plan::kGoodSteps, static_cast<double>(good));
        const OnDevice gn(norm2), gs(scalars);
        loss_scale(1.0f, 10, gn.f32(), gs.f32(), nullptr);
        cpu::loss_scale({1.0f, 10}, norm2.f32(), scalars.f32());
        EXPECT_TRUE(gs.read(DType::f32).same_bits(scalars)) << norm << " " << good << " " << scale;
        if (std::isfinite(norm)) {
          EXPECT_TRUE(gn.read(DType::f32).same_bits(norm2));
        }
      }
}

struct Update {
  int64_t n;
  DType grad, copy;
  bool copied, adamw, clipped, skipped, grouped = false;
};
const Update kUpdates[] = {{1000, DType::f32, DType::bf16, true, true, true, false},
                           {1001, DType::f32, DType::f16, true, false, false, false},
                           {64, DType::bf16, DType::bf16, true, true, false, false},
                           {4, DType::f32, DType::bf16, false, false, true, false},
                           {300, DType::f32, DType::bf16, true, true, true, true},
                           {1000, DType::f32, DType::bf16, true, true, true, false, true},
                           {1001, DType::bf16, DType::f16, true, false, false, false, true}};

TEST(Kernels, AdamAndSgdAreTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const Update& u : kUpdates)
    for (const bool adam_not_sgd : {true, false}) {
      const float unscale = u.skipped ? 0.0f : 1.0f / 128, lr = 1e-2f, norm = 90;
      const Buffer g = random.buffer(u.grad, u.n, 50);
      Buffer p = random.buffer(DType::f32, u.n), m = random.buffer(DType::f32, u.n, 0.1), v(DType::f32, u.n),
             p16 = random.buffer(u.copy, u.n), scalars(DType::f32, plan::kScalars), norm2(DType::f32, 1);
      for (int64_t i = 0; i < u.n; ++i) v.set(i, 1e-3 * std::abs(random.normal()));
      scalars.set(plan::kLearningRate, static_cast<double>(lr));
      scalars.set(plan::kStep, 7);
      scalars.set(plan::kLossScale, 128);
      scalars.set(plan::kGoodSteps, 0);
      scalars.set(plan::kUnscale, static_cast<double>(unscale));
      norm2.set(0, static_cast<double>(norm));
      const OnDevice gg(g), gp(p), gm(m), gv(v), gc(p16), gs(scalars), gn(norm2);
      const float clip = u.clipped ? std::min(1.0f, 2.0f / (std::sqrt(norm) + 1e-6f)) : 1.0f;
      void* const copy = u.copied ? gc.data() : nullptr;
      // One group, or several
      std::vector<plan::ParameterGroup> runs = {{static_cast<int32_t>((u.n + 15) / 16), 1, 1}};
      if (u.grouped) runs.insert(runs.begin(), {{1, 0.5f, 0}, {2, 2, 1}, {3, 1, 0}});
      Buffer words(DType::i32, static_cast<int64_t>(3 * runs.size()));
      std::memcpy(words.data(), runs.data(), runs.size() * sizeof(plan::ParameterGroup));
      const OnDevice gr(words);
      const Groups groups = u.grouped ? Groups{static_cast<const plan::ParameterGroup*>(gr.data()),
                                               static_cast<int>(runs.size())}
                                      : Groups{};
      if (adam_not_sgd)
        adam({0.9f, 0.95f, 1e-8f, 0.1f, u.adamw, 2.0f}, u.n, gg.data(), u.grad, gs.f32(),
             u.clipped ? gn.f32() : nullptr, gp.f32(), gm.f32(), gv.f32(), copy, u.copy, groups, nullptr);
      else
        sgd({0.9f, 0.1f, 2.0f}, u.n, gg.data(), u.grad, gs.f32(), u.clipped ? gn.f32() : nullptr, gp.f32(),
            gm.f32(), copy, u.copy, groups, nullptr);
      for (int64_t from = 0, i = 0; !u.skipped && from < u.n; ++i) {
        const plan::ParameterGroup& run = runs[static_cast<size_t>(i)];
        const int64_t n = std::min<int64_t>(u.n, run.end * plan::kGroupElements) - from;
        const auto* const gradient = static_cast<const std::byte*>(g.data()) + from * size_of(u.grad);
        auto* const half = u.copied ? static_cast<std::byte*>(p16.data()) + from * 2 : nullptr;
        if (adam_not_sgd)
          cpu::adam({run.lr * lr, 0.9f, 0.95f, 1e-8f, run.decay * 0.1f, u.adamw, 7, clip * unscale}, n,
                    p.f32() + from, gradient, m.f32() + from, v.f32() + from, half, u.copy, u.grad);
        else
          cpu::sgd({run.lr * lr, 0.9f, run.decay * 0.1f, clip * unscale}, n, p.f32() + from, gradient,
                   m.f32() + from, half, u.copy, u.grad);
        from += n;
      }
      const std::string what = std::string(adam_not_sgd ? "adam " : "sgd ") + std::to_string(u.n);
      const double allowed = u.skipped ? 0 : 1e-6;
      expect_near(gp.read(DType::f32), p, allowed, what + " parameters");
      expect_near(gm.read(DType::f32), m, allowed, what + " first moment");
      expect_near(gv.read(DType::f32), v, allowed, what + " second moment");
      expect_near(gc.read(u.copy), p16, u.skipped || !u.copied ? 0 : roundoff(u.copy), what + " 16-bit copy");
    }
}

TEST(Kernels, AverageAndSwapAreTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const int64_t n : {1, 1000, 70'001})
    for (const bool skipped : {false, true}) {
      Buffer x = random.buffer(DType::f32, n), y = random.buffer(DType::f32, n),
             scalars(DType::f32, plan::kScalars);
      scalars.set(plan::kUnscale, skipped ? 0 : 1);
      const OnDevice gx(x), gy(y), gs(scalars);
      average(n, 0.1f, gx.f32(), gs.f32(), gy.f32(), nullptr);
      if (!skipped) cpu::average(n, 0.1f, x.f32(), y.f32());
      expect_near(gy.read(DType::f32), y, skipped ? 0 : 1e-6, "average");
      const Buffer moved = gy.read(DType::f32);
      swap(n, gx.f32(), gy.f32(), nullptr);
      EXPECT_TRUE(gx.read(DType::f32).same_bits(moved));
      EXPECT_TRUE(gy.read(DType::f32).same_bits(x));
    }
}

}  // namespace
}  // namespace isobar::cuda::testing
