// Attention on Hopper's instructions against softmax in double: in the emulator, and on such a GPU.
#include "model/backend/cuda/kernels/hopper/attention.h"

#include <array>
#include <cstdlib>
#include <set>

#include "model/backend/cuda/kernels/attention/attention_choice.h"
#include "tests/cuda/kernels/attention_problem.h"

namespace isobar::cuda::testing {
namespace {

// Lengths that end inside, at and beyond tiles; grouped queries; padding between rows; causal both ways
const Shape kHopperShapes[] = {
    {1, 2, 2, 64, 128, 64, 0, false, false},   {2, 2, 1, 70, 150, 48, 8, false, false},
    {1, 2, 2, 150, 129, 96, 0, false, false},  {1, 2, 1, 130, 70, 128, 8, false, false},
    {1, 1, 1, 200, 100, 192, 0, false, false}, {1, 2, 2, 193, 193, 48, 0, true, false},
    {1, 4, 2, 100, 260, 64, 0, true, false},   {1, 1, 1, 140, 75, 96, 0, true, false},
    {1, 1, 1, 257, 257, 192, 8, true, false},  {1, 1, 1, 3, 5, 128, 0, true, false}};
constexpr int64_t kWidths[] = {32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256};

Shape random_shape(Random& random, int64_t d) {
  const int64_t kv_heads = random.integer(1, 2);
  return {1,
          kv_heads * random.integer(1, 2),
          kv_heads,
          random.integer(1, 230),
          random.integer(1, 230),
          d,
          8 * random.integer(0, 1),
          random.coin(),
          false};
}

// Runs `check` in `orders` of the orders of a block's warps that the emulator has, drawn anew
template <class Check>
void in_orders(int orders, Random& random, const Check& check) {
#ifdef ISOBAR_EMULATED
  using emulator::WarpOrder;
  constexpr std::array all = {WarpOrder::in_turn, WarpOrder::first_ahead, WarpOrder::last_ahead};
  const auto first = static_cast<size_t>(random.integer(0, 2));
  for (int i = 0; i < orders; ++i) {
    emulator::set_warp_order(all[(first + static_cast<size_t>(i)) % all.size()]);
    check();
    emulator::set_warp_order(WarpOrder::in_turn);
  }
#else
  (void)orders, (void)random, check();
#endif
}

std::string text_of(const Shape& s, DType act) {
  return std::string(name_of(act)) + " q" + std::to_string(s.tq) + " k" + std::to_string(s.tk) + " d" +
         std::to_string(s.d) + (s.causal ? " causal" : "");
}

void check_forward(const Problem& x, const std::string& what, int orders, Random& random) {
  const Attention& a = x.a;
  ASSERT_TRUE(hopper_takes_forward(a)) << what;
  const Reference want(x);
  const Buffer o(a.act, x.d_o.size()), lse(DType::f32, x.rows());
  const OnDevice gq(x.q), gk(x.k), gv(x.v), go(o), gl(lse);
  in_orders(orders, random, [&] {
    attention_hopper(a, gq.data(), gk.data(), gv.data(), go.data(), gl.f32(), nullptr);
    ISOBAR_CUDA(cudaDeviceSynchronize());
    expect_heads(go.read(a.act), want.o, a.batch * a.tq, a.heads * a.d, a.ld_o, 2 * roundoff(a.act),
                 what + " o");
    const Buffer got = gl.read(DType::f32);
    for (int64_t r = 0; r < x.rows(); ++r) {
      const double lse_of_row = want.lse[static_cast<size_t>(r)];
      if (std::isinf(lse_of_row))  // sees no key
        EXPECT_EQ(got[r], lse_of_row) << what << " lse";
      else
        ASSERT_NEAR(got[r], lse_of_row, 1e-4 + 1e-6 * std::abs(lse_of_row)) << what << " lse";
    }
  });
}

// Errors are relative to the terms of sums that cancel, where `cancels` and where one key has all weights.
void check_backward(const Problem& x, const std::string& what, Random& random, bool cancels = false) {
  const Attention& a = x.a;
  ASSERT_TRUE(hopper_takes_backward(a)) << what;
  cancels |= a.tk == 1;
  const Reference want(x);
  Buffer o(a.act, x.d_o.size()), lse(DType::f32, x.rows());
  for (int64_t i = 0; i < o.size(); ++i) o.set(i, static_cast<float>(want.o[static_cast<size_t>(i)]));
  for (int64_t i = 0; i < lse.size(); ++i) lse.set(i, static_cast<float>(want.lse[static_cast<size_t>(i)]));
  const Buffer dq(a.act, x.q.size()), dk(a.act, x.k.size()), dv(a.act, x.k.size());
  const Buffer scratch(DType::f32, hopper_backward_workspace(a) / 4);
  const OnDevice gq(x.q), gk(x.k), gv(x.v), gdo(x.d_o), go(o), gl(lse), gdq(dq), gdk(dk), gdv(dv),
      gw(scratch);
  in_orders(1, random, [&] {
    attention_hopper_backward(a, gq.data(), gk.data(), gv.data(), go.data(), gl.f32(), gdo.data(), gdq.data(),
                              gdk.data(), gdv.data(), gw.f32(), nullptr);
    ISOBAR_CUDA(cudaDeviceSynchronize());
    const double allowed = 4 * roundoff(a.act);
    expect_heads(gdq.read(a.act), want.dq, a.batch * a.tq, a.heads * a.d, a.ld_q, allowed, what + " dq",
                 cancels ? &want.dq_terms : nullptr);
    expect_heads(gdk.read(a.act), want.dk, a.batch * a.tk, a.kv_heads * a.d, a.ld_kv, allowed, what + " dk",
                 cancels ? &want.dk_terms : nullptr);
    expect_heads(gdv.read(a.act), want.dv, a.batch * a.tk, a.kv_heads * a.d, a.ld_kv, allowed, what + " dv");
  });
}

TEST(Kernels, AttentionOnHopperIsSoftmaxTimesValues) {
  ISOBAR_NEEDS_HOPPER();
  Random random;
  size_t turn = random.coin();  // each shape in one of both types, by turns
  for (const Shape& s : kHopperShapes) {
    const DType act = turn++ % 2 == 0 ? DType::bf16 : DType::f16;
    check_forward(Problem(s, act, random), text_of(s, act), 3, random);
  }
}

TEST(Kernels, AttentionBackwardOnHopperIsTheGradientOfSoftmaxTimesValues) {
  ISOBAR_NEEDS_HOPPER();
  Random random;
  size_t turn = random.coin();
  for (const Shape& s : kHopperShapes) {
    const DType act = turn++ % 2 == 0 ? DType::bf16 : DType::f16;
    check_backward(Problem(s, act, random), text_of(s, act), random);
  }
}

// ISOBAR_RANDOM_ATTENTION: how many shapes of each width
TEST(Kernels, AttentionOnHopperOfEveryWidthAndRandomLengths) {
  ISOBAR_NEEDS_HOPPER();
  Random random;
  const char* const asked = std::getenv("ISOBAR_RANDOM_ATTENTION");
  const int shapes = asked ? std::atoi(asked) : 1;
  for (const int64_t d : kWidths)
    for (int i = 0; i < shapes; ++i) {
      const Shape s = random_shape(random, d);
      const DType act = random.coin() ? DType::bf16 : DType::f16;
      const Problem x(s, act, random);
      check_forward(x, text_of(s, act), 1, random);
      if (hopper_takes_backward(x.a)) check_backward(x, text_of(s, act), random);
    }
}

// Weights are relative to the largest score of the first tiles: scores far above it must be noticed.
TEST(Kernels, AttentionOnHopperFollowsScoresThatGrow) {
  ISOBAR_NEEDS_HOPPER();
  Random random;
  for (const int64_t d : {48, 64, 96, 192}) {
    Shape s = random_shape(random, d);
    s.heads = s.kv_heads = 1, s.tq = 70, s.tk = 600;
    Problem x(s, DType::bf16, random);
    const int64_t loud = random.integer(150, 590);
    for (int64_t i = 0; i < x.k.size(); ++i) {
      const int64_t key = i / x.a.ld_kv % s.tk;
      x.k.set(i, x.k[i] * (key == loud ? 60.0f : key > 300 ? 8.0f : 0.1f));
    }
    check_forward(x, text_of(s, DType::bf16) + " growing", 1, random);
    check_backward(x, text_of(s, DType::bf16) + " growing", random, true);
  }
}

// Lengths of shipped configurations, cut to a few tiles with the same rest
TEST(Kernels, AttentionOnHopperOfShippedShapes) {
  ISOBAR_NEEDS_HOPPER();
  Random random;
  std::set<std::array<int64_t, 4>> seen;
  const auto cut = [](int64_t tokens) { return tokens < 256 ? tokens : 64 + tokens % 192; };
  for (const CudnnRow& row : cudnn_rows()) {
    const Shape s{1, 1, 1, cut(row.tq), cut(row.tk), row.d, 0, row.causal != 0, false};
    if (!seen.insert({s.tq, s.tk, s.d, s.causal}).second) continue;
    const Problem x(s, DType::bf16, random);
    if (!hopper_takes_forward(x.a)) continue;
    check_forward(x, text_of(s, DType::bf16), 1, random);
    if (hopper_takes_backward(x.a)) check_backward(x, text_of(s, DType::bf16), random);
  }
}

TEST(Kernels, AttentionOnHopperLeavesWhatItCannotDo) {
  Random random;
  const Attention plain = Problem(kHopperShapes[0], DType::bf16, random).a;
  EXPECT_TRUE(hopper_takes_backward(plain));
  const auto with = [&](auto change) {
    Attention a = plain;
    change(a);
    return hopper_takes_backward(a);
  };
  EXPECT_FALSE(with([](Attention& a) { a.act = DType::f32; }));
  EXPECT_FALSE(with([](Attention& a) { a.deterministic = true; }));
  EXPECT_FALSE(with([](Attention& a) { a.biased = true; }));
  EXPECT_FALSE(with([](Attention& a) { a.last_more = 1; }));
  EXPECT_FALSE(with([](Attention& a) { a.ld_kv += 4; }));
  EXPECT_FALSE(with([](Attention& a) { a.d = 56; }));
}

}  // namespace
}  // namespace isobar::cuda::testing
