// Our own attention kernels, scalar, on tensor cores and for few tokens, against softmax in double.
#include <span>

#include "model/backend/cuda/kernels/attention/attention_few.h"
#include "model/backend/cuda/kernels/attention/attention_path.h"
#include "tests/cuda/kernels/attention_problem.h"

namespace isobar::cuda::testing {
namespace {

const Shape kShapes[] = {{2, 3, 3, 33, 33, 16, 0, false, false},
                         {1, 2, 1, 70, 50, 48, 8, false, false},
                         {1, 4, 2, 40, 67, 65, 3, true, false},
                         {1, 1, 1, 65, 40, 128, 0, false, false},
                         {1, 1, 1, 5, 3, 192, 0, false, false},
                         {2, 2, 2, 31, 31, 8, 0, true, true},
                         {1, 2, 2, 34, 66, 12, 4, false, true},
                         {1, 1, 1, 9, 70, 256, 0, false, false},
                         {2, 2, 2, 49, 49, 32, 0, false, false, 96},
                         {3, 4, 2, 49, 70, 24, 4, false, false, 1, true},
                         {2, 1, 1, 66, 33, 32, 0, false, true, 1, true},
                         {1, 2, 1, 150, 150, 16, 0, true, false, 1, false, 1},
                         {1, 2, 2, 130, 170, 24, 4, true, false, 1, false, 37},
                         {1, 1, 1, 140, 141, 32, 0, true, true, 1, false, 70}};
// Perceivers' of Aurora first
const Shape kFewTokenShapes[] = {
    {5, 8, 8, 13, 3, 64, 0, false, false}, {9, 4, 4, 3, 13, 32, 0, false, false},
    {2, 4, 2, 4, 16, 48, 8, false, false}, {3, 2, 2, 7, 9, 33, 3, true, false},
    {1, 2, 2, 8, 8, 12, 4, false, true},   {2, 3, 1, 16, 4, 63, 1, false, true},
    {2, 1, 1, 1, 2, 8, 0, false, false},   {2, 2, 2, 5, 6, 64, 0, false, false, 96},
    {1, 3, 3, 2, 11, 50, 2, false, false}, {2, 2, 1, 5, 9, 16, 0, true, false, 1, false, 4}};

// Runs all of `shapes` by one path
void check_attention(AttentionPath path, std::span<const Shape> shapes) {
  Random random;
  for (const Shape& s : shapes)
    for (const DType act : kActs) {
      if (s.tf32 && act != DType::f32) continue;
      const bool tf32 = s.tf32 || (path == AttentionPath::tensor_cores && act == DType::f32);
      const Problem x(s, act, random);
      const Reference want(x);
      Buffer o(act, x.d_o.size()), lse(DType::f32, x.rows()), dq(act, x.q.size()), dk(act, x.k.size()),
          dv(act, x.k.size()), delta(DType::f32, x.rows()), dbias(DType::f32, x.bias.size());
      const OnDevice gq(x.q), gk(x.k), gv(x.v), gdo(x.d_o), go(o), gl(lse), gdq(dq), gdk(dk), gdv(dv),
          gw(delta), gb(x.bias), gdb(dbias);
      Attention a = x.a;
      if (a.biased) a.bias = gb.f32();
      if (path == AttentionPath::few_tokens) {
        ASSERT_TRUE(few_tokens(a));
        attention_few(a, gq.data(), gk.data(), gv.data(), go.data(), gl.f32(), nullptr);
        attention_few_backward(a, gq.data(), gk.data(), gv.data(), go.data(), gl.f32(), gdo.data(),
                               gdq.data(), gdk.data(), gdv.data(), nullptr);
      } else {
        const bool scalar = path == AttentionPath::scalar;
        (scalar ? attention_simt : attention_mma)(a, gq.data(), gk.data(), gv.data(), go.data(), gl.f32(),
                                                  nullptr);
        (scalar ? attention_simt_backward : attention_mma_backward)(
            a, gq.data(), gk.data(), gv.data(), go.data(), gl.f32(), gdo.data(), gdq.data(), gdk.data(),
            gdv.data(), gw.f32(), nullptr);
      }
      if (a.biased)
        attention_dbias(a, gq.data(), gk.data(), gv.data(), gl.f32(), gdo.data(), gw.f32(), gdb.f32(),
                        nullptr);
      const double unit = tf32 ? 1.0 / 1024 : roundoff(act);
      const double forward = act == DType::f32 && !tf32 ? 3e-6 : 2 * unit;
      // The rounding of o enters every gradient by do o, and few keys do not average it.
      const double units = path == AttentionPath::few_tokens ? 8 : 4;
      const double backward = act == DType::f32 && !tf32 ? 1e-5 : units * unit;
      const std::string what = std::string(name_of(act)) + " q" + std::to_string(s.tq) + " k" +
                               std::to_string(s.tk) + " d" + std::to_string(s.d);
      expect_heads(go.read(act), want.o, s.batch * s.tq, s.heads * s.d, a.ld_o, forward, what + " o");
      expect_heads(gdq.read(act), want.dq, s.batch * s.tq, s.heads * s.d, a.ld_q, backward, what + " dq",
                   &want.dq_terms);
      expect_heads(gdk.read(act), want.dk, s.batch * s.tk, s.kv_heads * s.d, a.ld_kv, backward, what + " dk",
                   &want.dk_terms);
      expect_heads(gdv.read(act), want.dv, s.batch * s.tk, s.kv_heads * s.d, a.ld_kv, backward, what + " dv");
      if (a.biased)
        expect_heads(gdb.read(DType::f32), want.dbias, s.heads * s.tk, s.tq, s.tq, backward, what + " dbias");
      const Buffer got = gl.read(DType::f32);
      for (int64_t r = 0; r < x.rows(); ++r)
        ASSERT_NEAR(got[r], want.lse[static_cast<size_t>(r)], tf32 ? 1e-2 : 1e-4) << what << " lse";
    }
}

TEST(Kernels, ScalarAttentionIsSoftmaxTimesValuesAndItsGradient) {
  ISOBAR_NEEDS_KERNELS();
  check_attention(AttentionPath::scalar, kShapes);
}

TEST(Kernels, AttentionOnTensorCoresIsSoftmaxTimesValuesAndItsGradient) {
  ISOBAR_NEEDS_KERNELS();
  check_attention(AttentionPath::tensor_cores, kShapes);
}

TEST(Kernels, AttentionOfFewTokensIsSoftmaxTimesValuesAndItsGradientWithoutWorkspace) {
  ISOBAR_NEEDS_KERNELS();
  check_attention(AttentionPath::few_tokens, kFewTokenShapes);
  Random random;
  Attention perceiver = Problem(kFewTokenShapes[0], DType::bf16, random).a;
  perceiver.batch = 64800;
  for (const bool backward : {false, true}) {
    EXPECT_EQ(attention_path(perceiver, backward, 9, true), AttentionPath::few_tokens);
    EXPECT_EQ(attention_workspace(perceiver, backward, 9), 0);
  }
}

// Neither the kernels of few tokens nor cuDNN's take a bias.
TEST(Kernels, BiasedAttentionTakesOurOwnKernelsAndTheirWorkspace) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const Shape& shape : {kFewTokenShapes[0], Shape{2, 4, 4, 72, 72, 32, 0, false, false}}) {
    Attention a = Problem(shape, DType::bf16, random).a;
    a.biased = true;
    for (const bool backward : {false, true}) {
      EXPECT_EQ(attention_path(a, backward, 9, true), AttentionPath::tensor_cores);
      EXPECT_EQ(attention_workspace(a, backward, 9), backward ? 4 * a.batch * a.heads * a.tq : 0);
    }
  }
}

TEST(Kernels, PartsOfTheKeysMergeIntoAttentionOverAll) {
  ISOBAR_NEEDS_KERNELS();
  Random random;
  for (const DType act : kActs) {
    const Problem x({2, 2, 2, 19, 40, 24, 0, false, false}, act, random);
    const Reference want(x);
    Buffer sum(DType::f32, x.d_o.size()), lse_sum(DType::f32, x.rows());
    const OnDevice gq(x.q), gs(sum), gls(lse_sum);
    int64_t begin = 0;
    for (const int64_t keys : {13, 27}) {
      Attention part = x.a;
      part.tk = keys;
      Buffer k(act, x.a.batch * keys * x.a.ld_kv), v(act, k.size());
      for (int64_t b = 0; b < x.a.batch; ++b)
        for (int64_t i = 0; i < keys * x.a.ld_kv; ++i) {
          k.set(b * keys * x.a.ld_kv + i, x.k[(b * x.a.tk + begin) * x.a.ld_kv + i]);
          v.set(b * keys * x.a.ld_kv + i, x.v[(b * x.a.tk + begin) * x.a.ld_kv + i]);
        }
      Buffer o(act, x.d_o.size()), lse(DType::f32, x.rows());
      const OnDevice gk(k), gv(v), go(o), gl(lse);
      attention_simt(part, gq.data(), gk.data(), gv.data(), go.data(), gl.f32(), nullptr);
      attention_merge(part, begin == 0, go.data(), gl.f32(), gs.f32(), gls.f32(), nullptr);
      begin += keys;
    }
    expect_heads(gs.read(DType::f32), want.o, x.a.batch * x.a.tq, x.a.ld_o, x.a.ld_o, 2 * tolerance(act),
                 std::string(name_of(act)) + " merged");
    const Buffer got = gls.read(DType::f32);
    for (int64_t r = 0; r < x.rows(); ++r) EXPECT_NEAR(got[r], want.lse[static_cast<size_t>(r)], 1e-4);
  }
}

}  // namespace
}  // namespace isobar::cuda::testing
