// Images as patches, roll-outs, losses of fields. A rank may hold some rows of patches only.
#include <cmath>
#include <set>

#include "model/base/loss_sums.h"
#include "model/plan/plan.h"
#include "tests/backend/op_case.h"

namespace isobar::testing {
namespace {

struct Image {
  int64_t batch, channels, height, width, p;
  int64_t token0 = 0, tokens = 0, row0 = 0, rows = 0;  // 0: all

  int64_t across() const { return width / p; }
  int64_t held() const { return tokens > 0 ? tokens : height / p * across(); }
  int64_t count() const { return rows > 0 ? rows : batch * held() - row0; }
  int64_t area() const { return p * p; }
  plan::ImageAttrs attrs() const {
    return {.rows = rows,
            .batch = batch,
            .row0 = row0,
            .channels = channels,
            .height = height,
            .width = width,
            .patch = p,
            .token0 = token0,
            .tokens = tokens};
  }
  std::string text(DType t) const {
    return std::string(name_of(t)) + " b" + std::to_string(batch) + " c" + std::to_string(channels) + " " +
           std::to_string(height) + "x" + std::to_string(width) + " p" + std::to_string(p) +
           (tokens > 0 ? " a part" : "");
  }
  /// f(row, sample, y, x) of the first pixel of each held patch
  template <class F>
  void each_row(const F& f) const {
    for (int64_t r = 0; r < count(); ++r) {
      const int64_t place = row0 + r, token = token0 + place % held();
      f(r, place / held(), token / across() * p, token % across() * p);
    }
  }
  int64_t pixel(int64_t of_channels, int64_t b, int64_t c, int64_t y, int64_t x) const {
    return ((b * of_channels + c) * height + y) * width + x;
  }
};

const Image kImages[] = {{2, 3, 8, 12, 4}, {1, 5, 6, 10, 2}, {2, 3, 9, 6, 3, 2, 3, 1, 4}, {3, 2, 1, 1, 1}};

void patch_gather(Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Image& s : kImages) {
      const Operand image = normals(random, DType::f32, s.batch * s.channels * s.height * s.width);
      Numbers patches;
      s.each_row([&](int64_t, int64_t b, int64_t y, int64_t x) {
        for (int64_t c = 0; c < s.channels; ++c)
          for (int64_t i = 0; i < s.area(); ++i)
            patches.push_back(image.before[s.pixel(s.channels, b, c, y + i / s.p, x + i % s.p)]);
      });
      to.push_back({plan::OpKind::patch_gather, s.text(act), s.attrs(), {image}, {written(act, patches)}});
    }
}

// A row has the layout [times][channels of a time][p p] when read, [p p][channels] when predicted. Two of the
// three channels of a time are predicted.
constexpr int64_t kPredicted = 2, kOfATime = 3;

void roll(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const int64_t history : {1, 2, 3})
      for (const Image& of : {Image{2, 0, 4, 6, 2}, Image{2, 0, 9, 6, 3, 2, 3, 1, 4}}) {
        Image s = of;
        s.channels = history * kOfATime;
        const plan::RollAttrs a{.image = s.attrs(), .predicted = kPredicted, .history = history};
        const int64_t of_a_time = kOfATime * s.area(), columns = history * of_a_time,
                      newest = columns - of_a_time;
        const std::string what = s.text(act) + ", " + std::to_string(history) + " times";
        const Operand patches = normals(random, act, s.count() * columns);
        Numbers moved(patches.before.size()),
            prediction(static_cast<size_t>(s.count() * kPredicted * s.area()));
        if (kind == plan::OpKind::unroll) {
          s.each_row([&](int64_t r, int64_t, int64_t, int64_t) {
            for (int64_t i = 0; i < newest; ++i)
              moved[r * columns + of_a_time + i] = patches.before[r * columns + i];
            for (int64_t c = 0; c < kPredicted; ++c)
              for (int64_t i = 0; i < s.area(); ++i)
                prediction[(r * s.area() + i) * kPredicted + c] =
                    patches.before[r * columns + newest + c * s.area() + i];
          });
          to.push_back({kind,
                        what,
                        a,
                        {patches},
                        {written(act, prediction), history > 1 ? written(act, moved) : Operand{}}});
          continue;
        }
        const Operand predicted = normals(random, act, s.count() * kPredicted * s.area()),
                      forcing = normals(random, DType::f32, s.batch * s.height * s.width);
        s.each_row([&](int64_t r, int64_t b, int64_t y, int64_t x) {
          for (int64_t i = 0; i < newest; ++i)
            moved[r * columns + i] = patches.before[r * columns + of_a_time + i];
          for (int64_t i = 0; i < s.area(); ++i) {
            for (int64_t c = 0; c < kPredicted; ++c)
              moved[r * columns + newest + c * s.area() + i] =
                  predicted.before[(r * s.area() + i) * kPredicted + c];
            moved[r * columns + newest + kPredicted * s.area() + i] =
                forcing.before[s.pixel(1, b, 0, y + i / s.p, x + i % s.p)];
          }
        });
        to.push_back(
            {kind, what, a, {predicted, history > 1 ? patches : Operand{}, forcing}, {written(act, moved)}});
      }
}

// ---- losses: all channels of all pixels of a sample ----

struct Scored {
  Image s;
  LossKind loss;
  const Operand &target, &mask;  // mask: {} if all count
  bool masked() const { return static_cast<bool>(mask); }

  double row_weight(int64_t y) const {  // a global grid from pole to pole
    const auto cosine = [&](int64_t at) {
      if (s.height == 1) return 1.0;
      return std::cos(M_PI * (0.5 - static_cast<double>(at) / static_cast<double>(s.height - 1)));
    };
    double all = 0;
    for (int64_t at = 0; at < s.height; ++at) all += cosine(at) / static_cast<double>(s.height);
    return cosine(y) / all;
  }
  double penalty(double e) const {
    if (loss == LossKind::mae) return std::abs(e);
    if (loss == LossKind::huber) return std::abs(e) <= 1 ? e * e / 2 : std::abs(e) - 0.5;
    return e * e;
  }
  // [batch, 2 + C], or [batch, 3 + 2 C] with a mask: loss_sums.h
  Numbers sums(const Numbers& pred) const {
    const int64_t size = loss_sums_size(s.channels, masked());
    Numbers all(static_cast<size_t>(s.batch * size));
    s.each_row([&](int64_t r, int64_t b, int64_t y0, int64_t x0) {
      for (int64_t i = 0; i < s.area(); ++i)
        for (int64_t c = 0; c < s.channels; ++c) {
          const int64_t y = y0 + i / s.p, at = s.pixel(s.channels, b, c, y, x0 + i % s.p);
          if (masked() && mask.before[at] == 0) continue;
          const double e = pred[(r * s.area() + i) * s.channels + c] - target.before[at];
          double* const sum = &all[b * size];
          sum[kErrorSum] += penalty(e);
          sum[kTargetSum] += target.before[at] * target.before[at];
          sum[kChannelErrors + c] += row_weight(y) * e * e;
          if (masked()) {
            sum[points_at(s.channels)] += 1;
            sum[channel_points_at(s.channels) + c] += row_weight(y);
          }
        }
    });
    return all;
  }
  // The loss, then one RMSE a channel; means over the batch
  Numbers metrics(const Numbers& sums) const {
    const int64_t size = loss_sums_size(s.channels, masked());
    Numbers all(static_cast<size_t>(1 + s.channels));
    for (int64_t b = 0; b < s.batch; ++b) {
      const double* const sum = &sums[b * size];
      const auto area = static_cast<double>(s.height * s.width);
      const double share = 1 / static_cast<double>(s.batch);
      all[0] += share * (loss == LossKind::relative_l2
                             ? std::sqrt(sum[kErrorSum] / sum[kTargetSum])
                             : sum[kErrorSum] / (masked() ? sum[points_at(s.channels)]
                                                          : area * static_cast<double>(s.channels)));
      for (int64_t c = 0; c < s.channels; ++c)
        all[1 + c] += share * std::sqrt(sum[kChannelErrors + c] /
                                        (masked() ? sum[channel_points_at(s.channels) + c] : area));
    }
    return all;
  }
};

// Differences must not straddle the kink of |error|.
void keep_apart(const Image& s, const Operand& pred, Operand& target) {
  s.each_row([&](int64_t r, int64_t b, int64_t y, int64_t x) {
    for (int64_t i = 0; i < s.area(); ++i)
      for (int64_t c = 0; c < s.channels; ++c) {
        double& truth = target.before[s.pixel(s.channels, b, c, y + i / s.p, x + i % s.p)];
        if (std::abs(pred.before[(r * s.area() + i) * s.channels + c] - truth) < 1e-3)
          truth = as_held(DType::f32, truth + 0.01);
      }
  });
}

void losses(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  for (const DType act : kActs)
    for (const Image& s : {Image{2, 3, 8, 12, 4}, Image{1, 5, 6, 10, 2}, Image{3, 2, 1, 1, 1}})
      for (const LossKind loss : {LossKind::relative_l2, LossKind::mae, LossKind::mse, LossKind::huber})
        for (const bool masks : {false, true}) {
          if (masks && s.height == 1) continue;
          const int64_t n = s.batch * s.channels * s.height * s.width;
          const Operand pred = normals(random, act, n);
          Operand target = normals(random, DType::f32, n, 2);
          keep_apart(s, pred, target);
          Operand mask;
          for (int64_t i = 0; i < n && masks; ++i) mask.before.push_back(random.integer(0, 3) > 0 ? 1 : 0);
          const Scored of{s, loss, target, mask};
          const Numbers sums = of.sums(pred.before);
          const plan::LossAttrs a{.image = s.attrs(), .kind = loss, .weight = 0.5f};
          OpCase c{kind, s.text(act) + " " + name_of(loss) + (masks ? " masked" : ""), a, {}, {}};
          if (kind == plan::OpKind::loss_sums) {
            c.reads = {pred, target};
            if (masks) c.reads.push_back(mask);
            c.writes = {written(DType::f32, sums)};
          } else if (kind == plan::OpKind::loss) {
            Numbers want = of.metrics(sums);
            for (double& x : want) x *= a.weight;
            c.reads = {given(DType::f32, sums), given(DType::f32, Numbers(plan::kScalars, 0.0))};
            c.writes = {added(random, DType::f32, want)};
          } else {
            // Gradients of each sample's loss, not of the mean
            const Numbers slopes =
                gradient([&](const Numbers& x) { return Numbers{of.metrics(of.sums(x))[0]}; }, pred.before,
                         {static_cast<double>(a.weight) * static_cast<double>(s.batch)});
            c.reads = {pred, target, given(DType::f32, sums), {}};
            if (masks) c.reads.push_back(mask);
            c.writes = {written(act, slopes, act == DType::f32 ? 1e-4 : 0)};
          }
          to.push_back(std::move(c));
        }
}

}  // namespace

void add_image_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to) {
  if (kind == plan::OpKind::patch_gather) patch_gather(random, to);
  if (kind == plan::OpKind::roll || kind == plan::OpKind::unroll) roll(kind, random, to);
  if (kind == plan::OpKind::loss_sums || kind == plan::OpKind::loss || kind == plan::OpKind::loss_backward)
    losses(kind, random, to);
}

}  // namespace isobar::testing
