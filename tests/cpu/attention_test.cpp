// Attention against a double-precision softmax with the whole Tq x Tk matrix.
#include "model/base/system/denormals.h"
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

struct Case {
  Attention a;
  Buffer q, k, v, d_o;
};

Case random_case(Random& random, DType act, int64_t d, int64_t tq, int64_t tk) {
  const int64_t kv_heads = random.integer(1, 2), heads = kv_heads * random.integer(1, 3),
                batch = random.integer(1, 2);
  const int64_t gap = random.integer(0, 5);
  Attention a{.batch = batch,
              .heads = heads,
              .kv_heads = kv_heads,
              .tq = tq,
              .tk = tk,
              .d = d,
              .scale = static_cast<float>((random.coin() ? 1.0 : 2.0) / std::sqrt(static_cast<double>(d))),
              .causal = random.coin(),
              .act = act,
              .ld_q = heads * d + gap,
              .ld_kv = kv_heads * d * 2 + gap,
              .ld_o = heads * d + gap,
              .last_counts = random.coin() ? 1 : random.integer(2, 100)};
  if (a.causal && random.coin()) a.token0 = random.integer(0, tk + 20);
  if (a.causal && random.coin()) a.window = random.integer(1, random.coin() ? 20 : tk + 10);
  return {a, random.buffer(act, batch * tq * a.ld_q), random.buffer(act, batch * tk * a.ld_kv),
          random.buffer(act, batch * tk * a.ld_kv), random.buffer(act, batch * tq * a.ld_o)};
}

// Reference values of one query of one head
struct Row {
  std::vector<double> p;         // probabilities [tk]
  std::vector<double> o, o_abs;  // [d]: sum p v, sum p |v|
  std::vector<double> v_abs;     // [d]: sum |v|
  double lse, score_error;       // score_error: bound of f32 rounding in a score
};

bool visible(const Attention& a, int64_t i, int64_t j) {
  const int64_t place = i + (a.token0 < 0 ? a.tk - a.tq : a.token0);
  return !a.causal || (j <= place && (a.window == 0 || j > place - a.window));
}

Row reference_row(const Attention& a, const Buffer& q, const Buffer& k, const Buffer& v, int64_t b, int64_t h,
                  int64_t i) {
  const int64_t kv = h / (a.heads / a.kv_heads);
  Row r{.p = std::vector<double>(a.tk),
        .o = std::vector<double>(a.d),
        .o_abs = std::vector<double>(a.d),
        .v_abs = std::vector<double>(a.d)};
  double top = -INFINITY, largest = 0;
  for (int64_t j = 0; j < a.tk; ++j) {
    double s = 0, squares = 0;
    for (int64_t c = 0; c < a.d; ++c) {
      const double term =
          q[(b * a.tq + i) * a.ld_q + h * a.d + c] * k[(b * a.tk + j) * a.ld_kv + kv * a.d + c];
      s += term;
      squares += term * term;
    }
    r.p[j] = visible(a, i, j) ? s * static_cast<double>(a.scale) : -INFINITY;
    if (j + 1 == a.tk) r.p[j] += std::log(static_cast<double>(a.last_counts));
    top = std::max(top, r.p[j]);
    // d roundings of partial sums that reach s past noise of the terms' norm, seven deviations of them; then
    // those of the scale, of powers of two and back, and of the sum of exponentials
    const double roundings =
        4 * std::sqrt(static_cast<double>(a.d)) * (std::abs(s) + std::sqrt(squares)) + 5 * std::abs(s);
    largest = std::max(largest, roundings * static_cast<double>(a.scale));
  }
  double sum = 0;
  for (double& p : r.p) sum += p = std::isinf(p) ? 0.0 : std::exp(p - top);
  for (int64_t j = 0; j < a.tk; ++j) {
    if (sum > 0) r.p[j] /= sum;
    for (int64_t c = 0; c < a.d; ++c) {
      const double x = v[(b * a.tk + j) * a.ld_kv + kv * a.d + c];
      r.o[c] += r.p[j] * x;
      r.o_abs[c] += r.p[j] * std::abs(x);
      r.v_abs[c] += std::abs(x);
    }
  }
  r.lse = top + std::log(sum);
  r.score_error = kFloatRoundoff * (largest + 16);
  return r;
}

// Rounding of a product's operand that is not an input
double operand_roundoff(const Attention& a) {
  return a.tf32 ? kF16Roundoff : a.act == DType::f32 ? 0 : roundoff(a.act);
}

// … and its loss below f16's normal range
double operand_underflow(const Attention& a) {
  return a.act == DType::f16 ? 0x1p-25 : 0;
}

// Relative error allowed in a probability; with 16 bits or tf32 it is rounded for the product
double probability_error(const Attention& a, const Row& r) {
  return r.score_error * 2 + (a.act != DType::f32 || a.tf32 ? operand_roundoff(a) + 1e-5 : 1e-6);
}

void check_forward(const Case& c) {
  const Attention& a = c.a;
  Buffer o(a.act, a.batch * a.tq * a.ld_o), again(a.act, o.size());
  Buffer lse(DType::f32, a.batch * a.heads * a.tq);
  Buffer work(DType::f32, attention_workspace(a, false, omp_get_max_threads()) / 4);
  attention_forward(a, c.q.data(), c.k.data(), c.v.data(), o.data(), lse.f32(), work.data());
  attention_forward(a, c.q.data(), c.k.data(), c.v.data(), again.data(), lse.f32(), work.data());
  EXPECT_TRUE(o.same_bits(again));
  EXPECT_TRUE(o.intact() && lse.intact() && work.intact());
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t i = 0; i < a.tq; ++i) {
      for (int64_t h = 0; h < a.heads; ++h) {
        const Row r = reference_row(a, c.q, c.k, c.v, b, h, i);
        const float got = lse.f32()[(b * a.heads + h) * a.tq + i];
        if (std::isinf(r.lse))
          ASSERT_EQ(got, -INFINITY);
        else
          ASSERT_TRUE(within(got, r.lse, r.score_error + 1e-5));
        for (int64_t x = 0; x < a.d; ++x) {
          const double bound = r.o_abs[x] * probability_error(a, r) + rounding(a.act, r.o[x]) +
                               operand_underflow(a) * r.v_abs[x];
          ASSERT_TRUE(within(o[(b * a.tq + i) * a.ld_o + h * a.d + x], r.o[x], bound))
              << "o, batch " << b << " query " << i << " head " << h << " column " << x;
        }
      }
      for (int64_t x = a.heads * a.d; x < a.ld_o; ++x)
        ASSERT_TRUE(std::isnan(o[(b * a.tq + i) * a.ld_o + x])) << "wrote between the rows";
    }
}

struct Gradients {
  std::vector<double> dq, dk, dv;              // dense [batch, t, heads, d]
  std::vector<double> dq_err, dk_err, dv_err;  // bounds
  std::vector<double> o, lse;
};

// The textbook backward; delta comes from the kernel's o
Gradients reference_backward(const Case& c, const Buffer& o) {
  const Attention& a = c.a;
  const double half = operand_roundoff(a), tiny = operand_underflow(a);
  const int64_t nq = a.batch * a.tq * a.heads * a.d, nk = a.batch * a.tk * a.kv_heads * a.d;
  Gradients g{.dq = std::vector<double>(nq),
              .dk = std::vector<double>(nk),
              .dv = std::vector<double>(nk),
              .dq_err = std::vector<double>(nq),
              .dk_err = std::vector<double>(nk),
              .dv_err = std::vector<double>(nk)};
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.tq; ++i) {
        const int64_t kv = h / (a.heads / a.kv_heads);
        const Row r = reference_row(a, c.q, c.k, c.v, b, h, i);
        const double p_err = probability_error(a, r);
        double delta = 0, delta_abs = 0;
        for (int64_t x = 0; x < a.d; ++x) {
          const double term =
              c.d_o[(b * a.tq + i) * a.ld_o + h * a.d + x] * o[(b * a.tq + i) * a.ld_o + h * a.d + x];
          delta += term;
          delta_abs += std::abs(term);
        }
        for (int64_t j = 0; j < a.tk; ++j) {
          double dp = 0, dp_abs = 0;
          for (int64_t x = 0; x < a.d; ++x) {
            const double term =
                c.d_o[(b * a.tq + i) * a.ld_o + h * a.d + x] * c.v[(b * a.tk + j) * a.ld_kv + kv * a.d + x];
            dp += term;
            dp_abs += std::abs(term);
          }
          const double ds = r.p[j] * (dp - delta);
          const double ds_err = r.p[j] * (dp_abs + delta_abs) * (r.score_error * 2 + 1e-5) +
                                // its own rounding, and that of p
                                std::abs(ds) * (half * (a.act == DType::bf16 ? 1.02 : 2.04) + 1e-6) +
                                tiny * (1 + std::abs(dp - delta));
          for (int64_t x = 0; x < a.d; ++x) {
            const int64_t at_q = ((b * a.tq + i) * a.heads + h) * a.d + x;
            const int64_t at_k = ((b * a.tk + j) * a.kv_heads + kv) * a.d + x;
            const double q = c.q[(b * a.tq + i) * a.ld_q + h * a.d + x] * static_cast<double>(a.scale);
            const double k = c.k[(b * a.tk + j) * a.ld_kv + kv * a.d + x] * static_cast<double>(a.scale);
            const double d_o = c.d_o[(b * a.tq + i) * a.ld_o + h * a.d + x];
            g.dq[at_q] += ds * k;
            g.dq_err[at_q] += ds_err * std::abs(k);
            g.dk[at_k] += ds * q;
            g.dk_err[at_k] += ds_err * std::abs(q);
            g.dv[at_k] += r.p[j] * d_o;
            g.dv_err[at_k] += (r.p[j] * p_err + tiny) * std::abs(d_o);
          }
        }
      }
  return g;
}

void expect_rows(const Buffer& got, int64_t rows, int64_t ld, int64_t width, const std::vector<double>& want,
                 const std::vector<double>& bound, const char* name) {
  EXPECT_TRUE(got.intact());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t x = 0; x < width; ++x) {
      const double w = want[i * width + x];
      ASSERT_TRUE(within(got[i * ld + x], w, bound[i * width + x] + rounding(got.type(), w) + 1e-7))
          << name << ", row " << i << " column " << x;
    }
    for (int64_t x = width; x < ld; ++x)
      ASSERT_TRUE(std::isnan(got[i * ld + x])) << name << ": wrote between the rows";
  }
}

void check_backward(const Case& c) {
  const Attention& a = c.a;
  Buffer o(a.act, a.batch * a.tq * a.ld_o), lse(DType::f32, a.batch * a.heads * a.tq);
  for (int64_t b = 0; b < a.batch; ++b)
    for (int64_t h = 0; h < a.heads; ++h)
      for (int64_t i = 0; i < a.tq; ++i) {
        const Row r = reference_row(a, c.q, c.k, c.v, b, h, i);
        lse.f32()[(b * a.heads + h) * a.tq + i] = static_cast<float>(r.lse);
        for (int64_t x = 0; x < a.d; ++x) o.set((b * a.tq + i) * a.ld_o + h * a.d + x, r.o[x]);
      }
  const int64_t ld_dq = a.heads * a.d + 3, ld_dkv = a.kv_heads * a.d + 1;
  Buffer dq(a.act, a.batch * a.tq * ld_dq), dk(a.act, a.batch * a.tk * ld_dkv), dv(a.act, dk.size());
  Buffer dq2(a.act, dq.size()), dk2(a.act, dk.size()), dv2(a.act, dk.size());
  Buffer work(DType::f32, attention_workspace(a, true, omp_get_max_threads()) / 4);
  attention_backward(a, c.q.data(), c.k.data(), c.v.data(), o.data(), lse.f32(), c.d_o.data(), dq.data(),
                     dk.data(), dv.data(), ld_dq, ld_dkv, work.data());
  attention_backward(a, c.q.data(), c.k.data(), c.v.data(), o.data(), lse.f32(), c.d_o.data(), dq2.data(),
                     dk2.data(), dv2.data(), ld_dq, ld_dkv, work.data());
  EXPECT_TRUE(dq.same_bits(dq2) && dk.same_bits(dk2) && dv.same_bits(dv2));
  EXPECT_TRUE(work.intact());
  const Gradients g = reference_backward(c, o);
  expect_rows(dq, a.batch * a.tq, ld_dq, a.heads * a.d, g.dq, g.dq_err, "dq");
  expect_rows(dk, a.batch * a.tk, ld_dkv, a.kv_heads * a.d, g.dk, g.dk_err, "dk");
  expect_rows(dv, a.batch * a.tk, ld_dkv, a.kv_heads * a.d, g.dv, g.dv_err, "dv");
}

template <class Check>
void for_many_cases(const Check& check) {
  Random random;
  for (const Isa isa : isas())
    for (const int64_t d : {48, 64, 96, 128, 192, 32, 16, 8, 1, 7, 33, 100}) {
      const DType act = random.act();
      const int64_t tq = random.integer(1, 150), tk = random.coin() ? tq : random.integer(1, 250);
      Case c = random_case(random, act, d, tq, tk);
      if (act == DType::f32 && random.coin()) {  // with inputs that tf32 represents exactly
        c.a.tf32 = true;
        for (Buffer* x : {&c.q, &c.k, &c.v, &c.d_o}) round_tf32(x->size(), x->f32(), x->f32());
      }
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      SCOPED_TRACE("d " + std::to_string(d) + " tq " + std::to_string(tq) + " tk " + std::to_string(tk) +
                   " heads " + std::to_string(c.a.heads) + "/" + std::to_string(c.a.kv_heads) + " causal " +
                   std::to_string(c.a.causal) + " " + isobar::name_of(act) + (c.a.tf32 ? " as tf32" : ""));
      check(c);
      if (::testing::Test::HasFatalFailure()) return;
    }
}

TEST(AttentionForward, IsSoftmaxTimesValuesForAnyShape) {
  for_many_cases(check_forward);
}
TEST(AttentionBackward, IsTheTextbookGradientForAnyShape) {
  for_many_cases(check_backward);
}

// More keys than one backward unit spans, so that threads share the queries of a head
TEST(AttentionBackward, ThreadsThatShareAHeadAddTheirPartsOfDq) {
  Random random;
  for (const DType act : kActs)
    for (const int threads : {1, 2, 3, 5}) {
      Case c = random_case(random, act, 16, 70, 384 * 3 + 29);
      const Running running(best_isa(), threads);
      check_backward(c);
      if (HasFatalFailure()) return;
    }
}

TEST(AttentionForward, TokensOfTheWeatherNetAtOneAndTwoThreads) {
  Random random;
  for (const DType act : kActs)
    for (const int threads : {1, 2}) {
      Case c = random_case(random, act, 48, 97, 1013);
      const Running running(best_isa(), threads);
      check_forward(c);
      check_backward(c);
      if (HasFatalFailure()) return;
    }
}

// Attention on tiles by the instructions, or emulated with this CPU's best vectors or any CPU's
struct TilesOf {
  const char* name;
  Isa isa;
  bool plain;
};

std::vector<TilesOf> tiles() {
  std::vector<TilesOf> all{{"plain tiles, portable vectors", Isa::portable, true}};
  if (best_isa() >= Isa::avx512_bf16)
    all.push_back({"plain tiles, AVX-512's vectors", Isa::avx512_bf16, true});
  if (best_isa() >= Isa::amx) all.push_back({"AMX", Isa::amx, false});
  return all;
}

// Products on tiles, by instructions if present and emulated everywhere: odd numbers of tokens, fewer and
// more than a block of keys, masked keys and queries without keys.
TEST(AttentionOnTiles, IsTheTextbookForAnyShape) {
  Random random;
  for (const TilesOf& how : tiles()) {
    for (const int64_t d : {32, 48, 64, 96, 128, 192, 16, 7, 33})
      for (const auto& [tq, tk] :
           {std::pair<int64_t, int64_t>{random.integer(1, 100), random.integer(1, 130)},
            {65, 97},
            {31, 385},
            {20, 1633}}) {
        if (tk > 130 && d > 64) continue;   // a little more than a span of keys: once is enough
        if (tk > 385 && d != 16) continue;  // likewise for the forward's
        Case c = random_case(random, DType::bf16, d, tq, tk);
        const Running running(how.isa, static_cast<int>(random.integer(1, 2)));
        if (how.plain) use_plain_tiles();
        SCOPED_TRACE(std::string(how.name) + ", d " + std::to_string(d) + " tq " + std::to_string(tq) +
                     " tk " + std::to_string(tk) + " heads " + std::to_string(c.a.heads) + "/" +
                     std::to_string(c.a.kv_heads) + " causal " + std::to_string(c.a.causal));
        check_forward(c);
        if (HasFatalFailure()) return;
        check_backward(c);
        if (HasFatalFailure()) return;
      }
  }
}

// The softmax's maximum stays while scores rise a little, and follows when they rise more: keys grow along
// the sequence.
void check_rising_scores(Random& random, DType act) {
  for (const double most : {2.0, 40.0, 1000.0}) {
    Case c = random_case(random, act, 16, 40, 500);
    for (int64_t j = 0; j < c.k.size(); ++j)
      c.k.set(j, c.k[j] * most * static_cast<double>(j) / static_cast<double>(c.k.size()));
    SCOPED_TRACE("up to " + std::to_string(most));
    check_forward(c);
    if (::testing::Test::HasFatalFailure()) return;
    if (most < 1000) check_backward(c);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(AttentionOnTiles, ScoresThatRiseFromBlockToBlock) {
  Random random;
  for (const TilesOf& how : tiles()) {
    const Running running(how.isa, 1);
    if (how.plain) use_plain_tiles();
    SCOPED_TRACE(how.name);
    check_rising_scores(random, DType::bf16);
    if (HasFatalFailure()) return;
  }
}
TEST(AttentionForward, ScoresThatRiseFromBlockToBlock) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : kActs) {
      const Running running(isa, 1);
      SCOPED_TRACE(std::string(name_of(isa)) + " " + isobar::name_of(act));
      check_rising_scores(random, act);
      if (HasFatalFailure()) return;
    }
}

// Excludes dq: it is a sum of parts if several threads share a head's keys.
void expect_same_bits_of_any_threads(const Case& c, const TilesOf& how) {
  const Attention& a = c.a;
  std::vector<Buffer> first;
  for (const int threads : {1, 2, 3, 5}) {
    const Running running(how.isa, threads);
    if (how.plain) use_plain_tiles();
    Buffer o(a.act, a.batch * a.tq * a.ld_o), lse(DType::f32, a.batch * a.heads * a.tq);
    Buffer dq(a.act, c.q.size()), dk(a.act, c.k.size()), dv(a.act, c.v.size());
    Buffer work(DType::f32,
                std::max(attention_workspace(a, false, threads), attention_workspace(a, true, threads)) / 4);
    attention_forward(a, c.q.data(), c.k.data(), c.v.data(), o.data(), lse.f32(), work.data());
    attention_backward(a, c.q.data(), c.k.data(), c.v.data(), o.data(), lse.f32(), c.d_o.data(), dq.data(),
                       dk.data(), dv.data(), a.ld_q, a.ld_kv, work.data());
    if (first.empty()) {
      for (Buffer* x : {&o, &lse, &dk, &dv}) first.push_back(std::move(*x));
      continue;
    }
    EXPECT_TRUE(o.same_bits(first[0]) && lse.same_bits(first[1])) << how.name << ", threads " << threads;
    EXPECT_TRUE(dk.same_bits(first[2]) && dv.same_bits(first[3])) << how.name << ", threads " << threads;
  }
}

TEST(Attention, AnyNumberOfThreadsGivesTheSameBits) {
  Random random;
  for (const DType act : kActs) {
    const Case c = random_case(random, act, 16, 150, 500);
    for (const Isa isa : isas()) expect_same_bits_of_any_threads(c, {name_of(isa), isa, false});
    if (act == DType::bf16)
      for (const TilesOf& how : tiles()) expect_same_bits_of_any_threads(c, how);
  }
}

TEST(Tiles, ThePlainOnesComputeTheSameBits) {
  if (best_isa() < Isa::amx) GTEST_SKIP() << "this machine has no tiles";
  Random random;
  flush_denormals();  // as the instruction does
  for (const double scale : {1.0, 1e-18, 1e18})
    for (const auto& [m, n, pairs] :
         {std::tuple<int64_t, int64_t, int64_t>{16, 16, 16}, {48, 64, 32}, {96, 16, 48}}) {
      const Buffer a = random.buffer(DType::bf16, m * pairs * 2, scale),
                   b = random.buffer(DType::bf16, n * pairs * 2, scale);
      for (const bool add : {false, true}) {
        Buffer want = random.buffer(DType::f32, m * n), got(DType::f32, m * n);
        std::memcpy(got.data(), want.data(), want.bytes());
        const auto product = [&](const KernelTable& k, Buffer& c) {
          k.tile_product(m, n, pairs, a.f32(), pairs, b.f32(), n, c.f32(), n, add);
        };
        product(plain_tile_kernels(), want);
        product(amx_kernels(), got);
        ASSERT_TRUE(want.same_bits(got) && got.intact())
            << m << " x " << n << " x " << pairs << ", scale " << scale;
      }
    }
}

// Large scores: the running maximum must protect the exponential
TEST(AttentionForward, HugeScoresDoNotOverflow) {
  Random random;
  for (const Isa isa : isas()) {
    const Running running(isa, 1);
    const Attention a{.batch = 1,
                      .heads = 1,
                      .kv_heads = 1,
                      .tq = 5,
                      .tk = 200,
                      .d = 4,
                      .scale = 1,
                      .causal = false,
                      .act = DType::f32,
                      .ld_q = 4,
                      .ld_kv = 4,
                      .ld_o = 4};
    Buffer q = random.buffer(DType::f32, 20, 30), k = random.buffer(DType::f32, 800, 30);
    Buffer v = random.buffer(DType::f32, 800), o(DType::f32, 20), lse(DType::f32, 5);
    Buffer work(DType::f32, attention_workspace(a, false, 1) / 4);
    attention_forward(a, q.data(), k.data(), v.data(), o.data(), lse.f32(), work.data());
    for (int64_t i = 0; i < 5; ++i) {
      const Row r = reference_row(a, q, k, v, 0, 0, i);
      for (int64_t x = 0; x < 4; ++x) ASSERT_TRUE(within(o[i * 4 + x], r.o[x], 0.01));
      ASSERT_TRUE(within(lse[i], r.lse, 1e-6 * std::abs(r.lse)));
    }
  }
}

// The derivative of the double-precision forward along a random direction, by central differences
TEST(AttentionBackward, AgreesWithFiniteDifferences) {
  Random random;
  Case c = random_case(random, DType::f32, 12, 9, 11);
  const Attention& a = c.a;
  const auto objective = [&](const Case& x) {
    double sum = 0;
    for (int64_t b = 0; b < a.batch; ++b)
      for (int64_t h = 0; h < a.heads; ++h)
        for (int64_t i = 0; i < a.tq; ++i) {
          const Row r = reference_row(a, x.q, x.k, x.v, b, h, i);
          for (int64_t j = 0; j < a.d; ++j) sum += r.o[j] * c.d_o[(b * a.tq + i) * a.ld_o + h * a.d + j];
        }
    return sum;
  };
  Buffer o(DType::f32, a.batch * a.tq * a.ld_o), lse(DType::f32, a.batch * a.heads * a.tq);
  Buffer work(DType::f32, std::max(attention_workspace(a, false, 2), attention_workspace(a, true, 2)) / 4);
  const Running running(best_isa(), 2);
  attention_forward(a, c.q.data(), c.k.data(), c.v.data(), o.data(), lse.f32(), work.data());
  Buffer dq(DType::f32, c.q.size()), dk(DType::f32, c.k.size()), dv(DType::f32, c.v.size());
  attention_backward(a, c.q.data(), c.k.data(), c.v.data(), o.data(), lse.f32(), c.d_o.data(), dq.data(),
                     dk.data(), dv.data(), a.ld_q, a.ld_kv, work.data());
  const double h = 1.0 / 512;  // exact in f32, so the perturbation is nearly exact
  double slope = 0, magnitude = 0;
  Case up{a, Buffer(DType::f32, c.q.size()), Buffer(DType::f32, c.k.size()), Buffer(DType::f32, c.v.size()),
          Buffer(DType::f32, c.d_o.size())};
  Case down{a, Buffer(DType::f32, c.q.size()), Buffer(DType::f32, c.k.size()), Buffer(DType::f32, c.v.size()),
            Buffer(DType::f32, c.d_o.size())};
  const auto perturb = [&](const Buffer& x, const Buffer& grad, Buffer& plus, Buffer& minus) {
    for (int64_t i = 0; i < x.size(); ++i) {
      const double direction = random.normal();
      plus.set(i, x[i] + h * direction);
      minus.set(i, x[i] - h * direction);
      if (std::isnan(grad[i])) continue;  // between the rows
      slope += grad[i] * (plus[i] - minus[i]);
      magnitude += std::abs(grad[i] * (plus[i] - minus[i]));
    }
  };
  perturb(c.q, dq, up.q, down.q);
  perturb(c.k, dk, up.k, down.k);
  perturb(c.v, dv, up.v, down.v);
  EXPECT_TRUE(within(slope, objective(up) - objective(down), 2e-4 * magnitude));
}

}  // namespace
}  // namespace isobar::cpu::testing
