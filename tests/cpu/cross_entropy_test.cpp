// Cross-entropy of classes and dropout against their formulas in double, by plain loops.
#include <array>

#include "model/base/rng.h"
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

struct RowsOfClasses {
  Classes of;
  Buffer logits, labels;
  std::vector<int64_t> label;
};

Buffer labels_as(DType t, const std::vector<int64_t>& label) {
  Buffer b(DType::f32, static_cast<int64_t>(label.size()));  // four bytes either way
  for (size_t i = 0; i < label.size(); ++i) {
    if (t == DType::i32)
      static_cast<int32_t*>(b.data())[i] = static_cast<int32_t>(label[i]);
    else
      b.f32()[i] = static_cast<float>(label[i]);
  }
  return b;
}

RowsOfClasses random_rows(Random& random, DType act, int64_t most_cols = 40) {
  const int64_t rows = random.integer(1, 70), cols = random.integer(2, most_cols);
  const DType t = random.one_of({DType::f32, DType::i32});
  std::vector<int64_t> label;
  for (int64_t r = 0; r < rows; ++r) label.push_back(random.integer(0, cols - 1));
  Buffer labels = labels_as(t, label);
  return {{rows, cols, act, t}, random.buffer(act, rows * cols, 4), std::move(labels), std::move(label)};
}

struct LossOfRows {
  double loss = 0, right = 0;   // sums over the rows that count
  std::vector<double> softmax;  // [rows, cols]
};

LossOfRows plain(const RowsOfClasses& x, int64_t padding) {
  LossOfRows out;
  for (int64_t r = 0; r < x.of.rows; ++r) {
    double most = -INFINITY, sum = 0;
    int64_t best = 0;
    for (int64_t j = 0; j < x.of.cols; ++j)
      if (const double z = x.logits[r * x.of.cols + j]; z > most) most = z, best = j;
    for (int64_t j = 0; j < x.of.cols; ++j) sum += std::exp(x.logits[r * x.of.cols + j] - most);
    for (int64_t j = 0; j < x.of.cols; ++j)
      out.softmax.push_back(std::exp(x.logits[r * x.of.cols + j] - most) / sum);
    if (r >= x.of.rows - padding) continue;
    out.loss += std::log(sum) + most - x.logits[r * x.of.cols + x.label[r]];
    out.right += best == x.label[r] ? 1 : 0;
  }
  return out;
}

TEST(CrossEntropy, IsItsFormulaWithItsGradientInPlaceToo) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : kActs) {
      const RowsOfClasses x = random_rows(random, act, random.coin() ? 12 : 3000);
      const int64_t padding = random.integer(0, x.of.rows);
      const LossOfRows want = plain(x, padding);
      const double weight = random.one_of({1.0, 0.125}), slope = random.one_of({0.5, 256.0});
      std::vector<float> first;
      for (const int threads : {1, 2, 3}) {
        const Running running(isa, threads);
        Buffer largest(DType::f32, x.of.rows), sums(DType::f32, 2 * x.of.rows),
            dlogits(act, x.of.rows * x.of.cols);
        float metrics[2] = {3, 7};
        cross_entropy_max(x.of, x.logits.data(), largest.f32());
        cross_entropy_sums(x.of, x.logits.data(), x.labels.data(), largest.f32(), sums.f32());
        const bool in_place = threads == 2;
        if (in_place) std::memcpy(dlogits.data(), x.logits.data(), static_cast<size_t>(dlogits.bytes()));
        cross_entropy(x.of, in_place ? dlogits.data() : x.logits.data(), x.labels.data(), largest.f32(),
                      sums.f32(), static_cast<float>(weight), static_cast<float>(slope), padding,
                      dlogits.data(), metrics, threads == 3 ? nullptr : metrics + 1);
        EXPECT_TRUE(largest.intact() && sums.intact() && dlogits.intact());
        EXPECT_TRUE(within(metrics[0], 3 + weight * want.loss, 2e-6 * (3 + weight * want.loss)));
        EXPECT_FLOAT_EQ(metrics[1], static_cast<float>(threads == 3 ? 7 : 7 + weight * want.right));
        for (int64_t i = 0; i < dlogits.size(); ++i) {
          const int64_t r = i / x.of.cols, j = i % x.of.cols;
          const double d = slope * (want.softmax[i] - (j == x.label[r] ? 1 : 0));
          // f32 exponents of differences down to -40: their last bit is 2e-6
          ASSERT_TRUE(within(dlogits[i], d, 6e-6 * slope + rounding(act, d))) << r << " " << j;
        }
        if (threads == 1) first.assign(metrics, metrics + 1);
        EXPECT_EQ(metrics[0], first[0]) << "does not depend on threads";
      }
    }
}

// As on ranks with some columns each, which reduce per-row values
TEST(CrossEntropy, OfSomeColumnsAddsUpToThatOfAll) {
  Random random;
  const RowsOfClasses x = random_rows(random, DType::f32);
  const int64_t cut = random.integer(1, x.of.cols - 1), rows = x.of.rows;
  Buffer largest(DType::f32, rows), sums(DType::f32, 2 * rows);
  cross_entropy_max(x.of, x.logits.data(), largest.f32());
  cross_entropy_sums(x.of, x.logits.data(), x.labels.data(), largest.f32(), sums.f32());
  std::vector<double> together(static_cast<size_t>(2 * rows), 0);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, cut}, {cut, x.of.cols}}) {
    Buffer part(DType::f32, rows * (end - begin));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = begin; j < end; ++j)
        part.set(r * (end - begin) + j - begin, x.logits[r * x.of.cols + j]);
    Classes c = x.of;
    c.cols = end - begin, c.column0 = begin;
    Buffer own(DType::f32, 2 * rows);
    cross_entropy_sums(c, part.data(), x.labels.data(), largest.f32(), own.f32());
    for (int64_t i = 0; i < 2 * rows; ++i) together[static_cast<size_t>(i)] += own[i];
  }
  for (int64_t i = 0; i < 2 * rows; ++i)
    EXPECT_TRUE(within(together[static_cast<size_t>(i)], sums[i], 1e-5 * (1 + std::abs(sums[i]))));
}

TEST(CrossEntropy, OfEqualLogitsTheFirstIsTheClassAndNaNStaysNaN) {
  const Classes c{2, 3};
  Buffer logits(DType::f32, 6), largest(DType::f32, 2), sums(DType::f32, 4), d(DType::f32, 6);
  for (int i = 0; i < 6; ++i) logits.set(i, i < 3 ? 1.5 : 0.5 * i);
  const Buffer labels = labels_as(DType::f32, {1, 0});
  const auto accuracy = [&](const Buffer& of) {
    float metrics[2] = {0, 0};
    cross_entropy_max(c, logits.data(), largest.f32());
    cross_entropy_sums(c, logits.data(), of.data(), largest.f32(), sums.f32());
    cross_entropy(c, logits.data(), of.data(), largest.f32(), sums.f32(), 1, 1, 0, d.data(), metrics,
                  metrics + 1);
    return std::pair(metrics[0], metrics[1]);
  };
  EXPECT_EQ(accuracy(labels).second, 0) << "three are equal, and the first is class 0";
  EXPECT_EQ(accuracy(labels_as(DType::f32, {0, 2})).second, 2);
  logits.set(1, NAN);
  EXPECT_TRUE(std::isnan(accuracy(labels).first));
  EXPECT_TRUE(std::isnan(d[0]));
}

TEST(CrossEntropy, SoftmaxOfHugeLogitsIsFinite) {
  Random random;
  const int64_t rows = random.integer(1, 30), cols = random.integer(1, 2000);
  const Buffer logits = random.buffer(DType::f32, rows * cols, random.coin() ? 1 : 1e30);
  Buffer p(DType::f32, rows * cols);
  softmax(rows, cols, logits.f32(), p.f32());
  for (int64_t r = 0; r < rows; ++r) {
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < cols; ++j) most = std::max(most, logits[r * cols + j]);
    for (int64_t j = 0; j < cols; ++j) sum += std::exp(logits[r * cols + j] - most);
    for (int64_t j = 0; j < cols; ++j)
      ASSERT_TRUE(within(p[r * cols + j], std::exp(logits[r * cols + j] - most) / sum, 2e-6));
  }
  EXPECT_TRUE(p.intact());
}

// The factors one by one, from rng.h
double factor_of(uint64_t seed, uint64_t stream, int64_t step, float rate, int64_t i) {
  const auto words = philox(seed, (uint64_t{0x64726f70} << 32) ^ (stream << 40) ^ static_cast<uint64_t>(step),
                            static_cast<uint64_t>(i / 4));
  return static_cast<double>(words[static_cast<size_t>(i % 4)] >> 8) / (1 << 24) < static_cast<double>(rate)
             ? 0
             : 1 / (1 - static_cast<double>(rate));
}

TEST(Dropout, MultipliesByWhatItsPlaceDrawsHoweverItIsCut) {
  Random random;
  for (const DType act : kActs) {
    const Running running(random.one_of({Isa::portable, best_isa()}), static_cast<int>(random.integer(1, 3)));
    const int64_t n = random.integer(1, 30000), first = random.integer(0, int64_t{1} << 33);
    const float rate = random.one_of({0.0f, 0.1f, 0.5f, 0.9f});
    const DropoutDraw draw{static_cast<uint64_t>(random.integer(0, 1 << 30)),
                           static_cast<uint64_t>(random.integer(0, 1000)), rate, random.integer(1, 1 << 23)};
    const Buffer x = random.buffer(act, n);
    Buffer whole(act, n), cut(act, n);
    std::memcpy(whole.data(), x.data(), static_cast<size_t>(x.bytes()));
    std::memcpy(cut.data(), x.data(), static_cast<size_t>(x.bytes()));
    dropout(draw, first, n, act, whole.data());
    const int64_t at = random.integer(0, n);
    dropout(draw, first, at, act, cut.data());
    dropout(draw, first + at, n - at, act, static_cast<char*>(cut.data()) + at * size_of(act));
    EXPECT_TRUE(whole.same_bits(cut));
    EXPECT_TRUE(whole.intact());
    for (int64_t i = 0; i < n; ++i) {
      const double want = x[i] * factor_of(draw.seed, draw.stream, draw.step, rate, first + i);
      ASSERT_TRUE(within(whole[i], want, 2e-7 * std::abs(want) + rounding(act, want))) << i;
    }
  }
}

TEST(Dropout, NeighboursMayShareANumber) {
  Random random;
  for (const DType act : kActs)
    for (const int64_t each : {int64_t{2}, int64_t{77}, int64_t{9001}}) {
      const Running running(random.one_of({Isa::portable, best_isa()}),
                            static_cast<int>(random.integer(1, 3)));
      const int64_t n = random.integer(1, 9), first = random.integer(0, int64_t{1} << 33);
      const DropoutDraw draw{static_cast<uint64_t>(random.integer(0, 1 << 30)), 5, 0.4f,
                             random.integer(1, 1000)};
      const Buffer x = random.buffer(act, n * each);
      Buffer y(act, n * each);
      std::memcpy(y.data(), x.data(), static_cast<size_t>(x.bytes()));
      dropout(draw, first, n, act, y.data(), each);
      EXPECT_TRUE(y.intact());
      for (int64_t i = 0; i < n * each; ++i) {
        const double want = x[i] * factor_of(draw.seed, draw.stream, draw.step, draw.rate, first + i / each);
        ASSERT_TRUE(within(y[i], want, 2e-7 * std::abs(want) + rounding(act, want))) << i << " of " << each;
      }
    }
}

// 4 sigma; 1e-4 of draws are beyond
TEST(Dropout, DropsItsShareAndKeepsTheMean) {
  Random random;
  constexpr int64_t kN = 200000;
  const double rate = random.one_of({0.1, 0.2, 0.5});
  Buffer x(DType::f32, kN);
  for (int64_t i = 0; i < kN; ++i) x.set(i, 1);
  dropout({static_cast<uint64_t>(random.integer(0, 1 << 30)), 3, static_cast<float>(rate),
           random.integer(1, 1000)},
          0, kN, DType::f32, x.data());
  double zeros = 0, sum = 0;
  for (int64_t i = 0; i < kN; ++i) zeros += x[i] == 0, sum += x[i];
  EXPECT_NEAR(zeros / kN, rate, 4 * std::sqrt(rate * (1 - rate) / kN));
  EXPECT_NEAR(sum / kN, 1, 4 * std::sqrt(rate / (1 - rate) / kN));
}

TEST(Dropout, OfOtherStepsStreamsAndSeedsDrawsOtherNumbers) {
  constexpr int64_t kN = 4096;
  const auto drawn = [](const DropoutDraw& d) {
    Buffer x(DType::f32, kN);
    for (int64_t i = 0; i < kN; ++i) x.set(i, 1);
    dropout(d, 0, kN, DType::f32, x.data());
    return x;
  };
  const Buffer one = drawn({1, 2, 0.5f, 3});
  EXPECT_TRUE(one.same_bits(drawn({1, 2, 0.5f, 3})));
  for (const DropoutDraw& other :
       {DropoutDraw{2, 2, 0.5f, 3}, DropoutDraw{1, 3, 0.5f, 3}, DropoutDraw{1, 2, 0.5f, 4}}) {
    const Buffer x = drawn(other);
    int64_t equal = 0;
    for (int64_t i = 0; i < kN; ++i) equal += x[i] == one[i];
    EXPECT_NEAR(static_cast<double>(equal) / kN, 0.5, 4 * 0.5 / 64) << "about half by chance";
  }
}

}  // namespace
}  // namespace isobar::cpu::testing
