// Gathers, segment sums and the norm of messages against double precision: all types, odd sizes, every
// instruction set.
#include <numeric>

#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

struct Edges {  // of one sample, by receiver
  int64_t senders, receivers;
  std::vector<int32_t> sender, receiver, offsets;
  int64_t count() const { return static_cast<int64_t>(sender.size()); }
};

// Includes receivers without edges
Edges random_edges(Random& random) {
  Edges e{random.integer(1, 40), random.integer(1, 30), {}, {}, {}};
  for (int64_t r = 0; r < e.receivers; ++r) {
    e.offsets.push_back(static_cast<int32_t>(e.count()));
    for (int64_t i = random.one_of<int64_t>({0, 1, 2, 9, 33}); i > 0; --i) {
      e.sender.push_back(static_cast<int32_t>(random.integer(0, e.senders - 1)));
      e.receiver.push_back(static_cast<int32_t>(r));
    }
  }
  e.offsets.push_back(static_cast<int32_t>(e.count()));
  return e;
}

int64_t random_width(Random& random) {
  return random.one_of<int64_t>({1, 3, 16, 48, 77, 256, 300});
}

TEST(Gather, AddsTheRowsThatItsIndicesName) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 12; ++round) {
      const DType act = random.act(), base_type = random.coin() ? act : DType::f32;
      Edges e = random_edges(random);
      for (auto* index : {&e.sender, &e.receiver})  // no row of the table
        for (int32_t& i : *index)
          if (random.integer(0, 7) == 0) i = -1;
      const int64_t B = random.integer(1, 3), n = random_width(random);
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const bool with_base = random.coin(), two = random.coin(),
                 in_place = with_base && base_type == act && random.coin();
      const Buffer base = random.buffer(base_type, B * e.count() * n),
                   p = random.buffer(act, B * e.senders * n), q = random.buffer(act, B * e.receivers * n);
      Buffer y(act, B * e.count() * n);
      if (in_place) std::memcpy(y.data(), base.data(), static_cast<size_t>(base.bytes()));
      gather({B, e.count(), n, e.senders, e.receivers, act, base_type},
             in_place    ? y.data()
             : with_base ? base.data()
                         : nullptr,
             p.data(), e.sender.data(), two ? q.data() : nullptr, two ? e.receiver.data() : nullptr,
             y.data());
      EXPECT_TRUE(y.intact());
      for (int64_t b = 0; b < B; ++b)
        for (int64_t i = 0; i < e.count(); ++i)
          for (int64_t j = 0; j < n; ++j) {
            const int64_t at = (b * e.count() + i) * n + j;
            const double from = e.sender[i] < 0 ? 0 : p[(b * e.senders + e.sender[i]) * n + j],
                         more = two && e.receiver[i] >= 0 ? q[(b * e.receivers + e.receiver[i]) * n + j] : 0,
                         old = with_base ? base[at] : 0;
            const double size = std::abs(from) + std::abs(more) + std::abs(old);
            ASSERT_TRUE(within(y[at], from + more + old, 2 * kFloatRoundoff * size + rounding(act, size)))
                << "edge " << i << " column " << j;
          }
    }
}

TEST(SegmentSum, AddsARunOfRowsOrThoseOfAnOrder) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 12; ++round) {
      const DType act = random.act();
      const Edges e = random_edges(random);
      const int64_t B = random.integer(1, 3), n = random_width(random);
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      std::vector<int32_t> order(e.sender.size());
      std::iota(order.begin(), order.end(), 0);
      const bool ordered = random.coin();
      if (ordered)
        for (size_t i = 1; i < order.size(); ++i)
          std::swap(order[i], order[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i)))]);
      const Buffer x = random.buffer(act, B * e.count() * n);
      Buffer y(act, B * e.receivers * n);
      segment_sum({B, e.count(), n, e.receivers, act}, x.data(), e.offsets.data(),
                  ordered ? order.data() : nullptr, y.data());
      EXPECT_TRUE(y.intact());
      for (int64_t b = 0; b < B; ++b)
        for (int64_t s = 0; s < e.receivers; ++s)
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0, size = 0;
            for (int32_t i = e.offsets[s]; i < e.offsets[s + 1]; ++i) {
              const double v = x[(b * e.count() + order[i]) * n + j];
              sum += v, size += std::abs(v);
            }
            const double terms = e.offsets[s + 1] - e.offsets[s];  // half a unit of error for each
            ASSERT_TRUE(within(y[(b * e.receivers + s) * n + j], sum,
                               terms * kFloatRoundoff * size + rounding(act, sum) +
                                   roundoff(act) * terms * kFloatRoundoff * size))
                << "segment " << s << " column " << j;
          }
    }
}

// The sum over a receiver's edges and the gather by receiver are transposes, as are the gather by sender and
// the sum in sender order: <S x, y> = <x, G y>.
TEST(SegmentSum, IsTheTransposeOfTheGather) {
  Random random;
  for (int round = 0; round < 12; ++round) {
    const Edges e = random_edges(random);
    const int64_t n = random_width(random);
    const Running running(best_isa(), static_cast<int>(random.integer(1, 2)));
    std::vector<int32_t> order(e.sender.size()), offsets(static_cast<size_t>(e.senders) + 1, 0);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return e.sender[a] < e.sender[b]; });
    for (const int32_t s : e.sender) ++offsets[static_cast<size_t>(s) + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    const Buffer nodes = random.buffer(DType::f32, e.senders * n),
                 edges = random.buffer(DType::f32, e.count() * n);
    Buffer gathered(DType::f32, e.count() * n), summed(DType::f32, e.senders * n);
    gather({1, e.count(), n, e.senders, 0, DType::f32, DType::f32}, nullptr, nodes.data(), e.sender.data(),
           nullptr, nullptr, gathered.data());
    segment_sum({1, e.count(), n, e.senders, DType::f32}, edges.data(), offsets.data(), order.data(),
                summed.data());
    double a = 0, b = 0, size = 0;
    for (int64_t i = 0; i < e.count() * n; ++i)
      a += gathered[i] * edges[i], size += std::abs(gathered[i] * edges[i]);
    for (int64_t i = 0; i < e.senders * n; ++i) b += summed[i] * nodes[i];
    EXPECT_NEAR(a, b, static_cast<double>(e.count()) * kFloatRoundoff * size + 1e-30);
  }
}

struct Message {
  ResidualNorm p;
  Buffer x, gamma, beta;
  std::vector<double> mean, rstd;
};

Message random_message(Random& random, DType act) {
  const ResidualNorm p{.rows = random.integer(1, 70),
                       .cols = random.one_of<int64_t>({3, 16, 48, 77, 256, 1000}),
                       .eps = 1e-5f,
                       .period = 0,
                       .act = act};
  Message m{p,
            random.buffer(act, p.rows * p.cols, 1, random.normal(3)),
            random.buffer(DType::f32, p.cols),
            random.buffer(DType::f32, p.cols),
            {},
            {}};
  for (int64_t r = 0; r < p.rows; ++r) {
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < p.cols; ++j) mean += m.x[r * p.cols + j] / static_cast<double>(p.cols);
    for (int64_t j = 0; j < p.cols; ++j)
      variance += std::pow(m.x[r * p.cols + j] - mean, 2) / static_cast<double>(p.cols);
    m.mean.push_back(mean);
    m.rstd.push_back(1 / std::sqrt(variance + static_cast<double>(p.eps)));
  }
  return m;
}

// Normalised values have size 1: an error of x is multiplied by rstd.
double error_of(const Message& m, int64_t r) {
  double size = 0;
  for (int64_t j = 0; j < m.p.cols; ++j) size = std::max(size, std::abs(m.x[r * m.p.cols + j]));
  return 32 * kFloatRoundoff * (1 + size * m.rstd[static_cast<size_t>(r)]);
}

TEST(NormResidual, NormalisesThenAdds) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 12; ++round) {
      const DType act = random.act();
      const Message m = random_message(random, act);
      const ResidualNorm& p = m.p;
      const int64_t n = p.rows * p.cols;
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const bool with_h = random.coin(), with_y = random.coin(), with_residual = random.coin();
      const Buffer residual = random.buffer(DType::f32, n);
      Buffer h(act, n), y(DType::f32, n), mean(DType::f32, p.rows), rstd(DType::f32, p.rows);
      norm_residual(p, m.x.data(), with_residual ? residual.f32() : nullptr, m.gamma.f32(), m.beta.f32(),
                    with_h ? h.data() : nullptr, with_y ? y.f32() : nullptr, mean.f32(), rstd.f32());
      EXPECT_TRUE(h.intact() && y.intact() && mean.intact() && rstd.intact());
      for (int64_t r = 0; r < p.rows; ++r) {
        const double error = error_of(m, r);
        ASSERT_TRUE(within(mean[r], m.mean[r], error / m.rstd[r]));
        ASSERT_TRUE(within(rstd[r] / m.rstd[r], 1, error));
        for (int64_t j = 0; j < p.cols; ++j) {
          const int64_t i = r * p.cols + j;
          const double normal = (m.x[i] - m.mean[r]) * m.rstd[r], out = normal * m.gamma[j] + m.beta[j];
          const double bound = std::abs(m.gamma[j]) * error * (1 + std::abs(normal)) +
                               4 * kFloatRoundoff * (std::abs(out) + std::abs(m.beta[j]));
          const double old = with_residual ? residual[i] : 0;
          if (with_h)
            ASSERT_TRUE(within(h[i], out, bound + rounding(act, std::abs(out) + bound))) << r << " " << j;
          else
            ASSERT_TRUE(std::isnan(h[i]));
          if (with_y)
            ASSERT_TRUE(
                within(y[i], old + out, bound + 2 * kFloatRoundoff * (std::abs(old) + std::abs(out))));
          else
            ASSERT_TRUE(std::isnan(y[i]));
        }
      }
    }
}

TEST(NormResidualBackward, IsTheNormsDerivative) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 8; ++round) {
      const DType act = random.act();
      const Message m = random_message(random, act);
      const ResidualNorm& p = m.p;
      const int64_t n = p.rows * p.cols;
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      const Buffer dh = random.buffer(act, n);
      Buffer mean(DType::f32, p.rows), rstd(DType::f32, p.rows), dx(act, n);
      for (int64_t r = 0; r < p.rows; ++r) mean.set(r, m.mean[r]), rstd.set(r, m.rstd[r]);
      const bool accumulate = random.coin(), with_bias = random.coin();
      Buffer sums[3] = {random.buffer(DType::f32, p.cols), random.buffer(DType::f32, p.cols),
                        random.buffer(DType::f32, p.cols)};
      std::vector<double> want[3], size[3];
      for (int i = 0; i < 3; ++i) {
        want[i].assign(p.cols, 0), size[i].assign(p.cols, 0);
        for (int64_t j = 0; accumulate && j < p.cols; ++j)
          want[i][j] = sums[i][j], size[i][j] = std::abs(sums[i][j]);
      }
      norm_residual_backward(p, m.x.data(), mean.f32(), rstd.f32(), m.gamma.f32(), dh.data(), dx.data(),
                             sums[0].f32(), sums[1].f32(), with_bias ? sums[2].f32() : nullptr, accumulate);
      EXPECT_TRUE(dx.intact());
      for (int64_t r = 0; r < p.rows; ++r) {
        double mean_g = 0, mean_gx = 0, largest = 0;
        for (int64_t j = 0; j < p.cols; ++j) {
          const double g = dh[r * p.cols + j] * m.gamma[j];
          const double normal = (m.x[r * p.cols + j] - m.mean[r]) * m.rstd[r];
          mean_g += g / static_cast<double>(p.cols), mean_gx += g * normal / static_cast<double>(p.cols);
          largest = std::max(largest, std::abs(g));
        }
        for (int64_t j = 0; j < p.cols; ++j) {
          const int64_t i = r * p.cols + j;
          const double normal = (m.x[i] - m.mean[r]) * m.rstd[r];
          const double d = m.rstd[r] * (dh[i] * m.gamma[j] - mean_g - normal * mean_gx);
          const double bound = 4 * error_of(m, r) * m.rstd[r] * largest * (1 + std::abs(normal));
          ASSERT_TRUE(within(dx[i], d, bound + rounding(act, std::abs(d) + bound))) << r << " " << j;
          const double terms[3] = {dh[i] * normal, dh[i], d};
          for (int s = 0; s < 3; ++s) {
            want[s][j] += terms[s];
            size[s][j] += std::abs(terms[s]) +
                          (s == 0 ? std::abs(dh[i]) * error_of(m, r) / kFloatRoundoff / 70 : 0) +
                          (s == 2 ? bound / kFloatRoundoff / 70 : 0);
          }
        }
      }
      for (int s = 0; s < (with_bias ? 3 : 2); ++s)
        for (int64_t j = 0; j < p.cols; ++j)
          ASSERT_TRUE(within(sums[s][j], want[s][j], 80 * kFloatRoundoff * size[s][j])) << "sum " << s;
    }
}

}  // namespace
}  // namespace isobar::cpu::testing
