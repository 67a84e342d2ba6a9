// Attention on Hopper's instructions against softmax in double: in the emulator, and on such a GPU.
#include "model/backend/cuda/kernels/hopper/attention.h"

#include <array>

#include "tests/cuda/attention_problem.h"

namespace isobar::cuda::testing {
namespace {

// Lengths that end inside, at and beyond tiles; grouped queries; padding between rows; causal both ways
const Shape kHopperShapes[] = {
    {1, 2, 2, 64, 128, 64, 0, false, false},   {2, 2, 1, 70, 150, 48, 8, false, false},
    {1, 2, 2, 150, 129, 96, 0, false, false},  {1, 2, 1, 130, 70, 128, 8, false, false},
    {1, 1, 1, 200, 100, 192, 0, false, false}, {1, 2, 2, 193, 193, 48, 0, true, false},
    {1, 4, 2, 100, 260, 64, 0, true, false},   {1, 1, 1, 140, 75, 96, 0, true, false},
    {1, 1, 1, 257, 257, 192, 8, true, false},  {1, 1, 1, 3, 5, 128, 0, true, false}};

#ifdef ISOBAR_EMULATED
#define ISOBAR_NEEDS_HOPPER() (void)0
#else
#define ISOBAR_NEEDS_HOPPER() \
  ISOBAR_NEEDS_KERNELS();     \
  if (use_device("the test", 0).major != 9) GTEST_SKIP() << "needs a GPU of compute capability 9.0"
#endif

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

TEST(Kernels, AttentionOnHopperIsSoftmaxTimesValues) {
  ISOBAR_NEEDS_HOPPER();
  Random random;
  size_t turn = random.coin();  // each shape in one of both types, by turns
  for (const Shape& s : kHopperShapes)
    for (const DType act : {turn++ % 2 == 0 ? DType::bf16 : DType::f16}) {
      const Problem x(s, act, random);
      ASSERT_TRUE(hopper_takes_forward(x.a));
      const std::string what = text_of(s, act);
      const Reference want(x);
      const Buffer o(act, x.d_o.size()), lse(DType::f32, x.rows());
      const OnDevice gq(x.q), gk(x.k), gv(x.v), go(o), gl(lse);
      in_orders(3, random, [&] {
        attention_hopper(x.a, gq.data(), gk.data(), gv.data(), go.data(), gl.f32(), nullptr);
        ISOBAR_CUDA(cudaDeviceSynchronize());
        expect_heads(go.read(act), want.o, s.batch * s.tq, s.heads * s.d, x.a.ld_o, 2 * roundoff(act),
                     what + " o");
        const Buffer got = gl.read(DType::f32);
        for (int64_t r = 0; r < x.rows(); ++r) {
          const double lse_of_row = want.lse[static_cast<size_t>(r)];
          if (std::isinf(lse_of_row))  // sees no key
            EXPECT_EQ(got[r], lse_of_row) << what << " lse";
          else
            ASSERT_NEAR(got[r], lse_of_row, 1e-4) << what << " lse";
        }
      });
    }
}

TEST(Kernels, AttentionBackwardOnHopperIsTheGradientOfSoftmaxTimesValues) {
  ISOBAR_NEEDS_HOPPER();
  Random random;
  size_t turn = random.coin();  // each shape in one of both types, by turns
  for (const Shape& s : kHopperShapes)
    for (const DType act : {turn++ % 2 == 0 ? DType::bf16 : DType::f16}) {
      const Problem x(s, act, random);
      const Attention& a = x.a;
      const std::string what = text_of(s, act);
      ASSERT_TRUE(hopper_takes_backward(a)) << what;
      const Reference want(x);
      Buffer o(act, x.d_o.size()), lse(DType::f32, x.rows());
      for (int64_t i = 0; i < o.size(); ++i) o.set(i, static_cast<float>(want.o[static_cast<size_t>(i)]));
      for (int64_t i = 0; i < lse.size(); ++i)
        lse.set(i, static_cast<float>(want.lse[static_cast<size_t>(i)]));
      for (const HopperDivision division : hopper_divisions(s.d)) {
        const Buffer dq(act, x.q.size()), dk(act, x.k.size()), dv(act, x.k.size());
        const Buffer scratch(DType::f32, hopper_backward_workspace(a) / 4);
        const OnDevice gq(x.q), gk(x.k), gv(x.v), gdo(x.d_o), go(o), gl(lse), gdq(dq), gdk(dk), gdv(dv),
            gw(scratch);
        in_orders(1, random, [&] {
          attention_hopper_backward(a, gq.data(), gk.data(), gv.data(), go.data(), gl.f32(), gdo.data(),
                                    gdq.data(), gdk.data(), gdv.data(), gw.f32(), nullptr, division);
          ISOBAR_CUDA(cudaDeviceSynchronize());
          const double allowed = 4 * roundoff(act);
          const std::string which = what + ", " + name_of(division);
          expect_heads(gdq.read(act), want.dq, s.batch * s.tq, s.heads * s.d, a.ld_q, allowed, which + " dq");
          expect_heads(gdk.read(act), want.dk, s.batch * s.tk, s.kv_heads * s.d, a.ld_kv, allowed,
                       which + " dk");
          expect_heads(gdv.read(act), want.dv, s.batch * s.tk, s.kv_heads * s.d, a.ld_kv, allowed,
                       which + " dv");
        });
      }
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
