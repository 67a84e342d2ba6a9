// cuBLASLt's products and cuDNN's attention against the CPU's kernels; all but descriptors need a GPU.
#include "model/backend/cuda/kernels/workspace.h"
#include "model/backend/cuda/libraries/attention_cudnn.h"
#include "model/backend/cuda/libraries/gemm.h"
#include "tests/cuda/kernels/attention_shapes.h"
#include "tests/cuda/kernels/kernel_check.h"

namespace isobar::cuda::testing {
namespace {

TEST(OnGpu, ProductsAreTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  const Device device = use_device("test", 0);
  Random random;
  const Streams streams;
  const DeviceArena workspace(kGemmWorkspace);
  for (const GemmChoice choice : {GemmChoice::heuristic, GemmChoice::timed}) {
    Gemms gemms(choice);
    for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{128, 384, 256},
                                  {405, 1152, 384},
                                  {77, 63, 51},
                                  {1, 8, 8},
                                  {384, 96, 4050}})
      for (const auto& [in, out] : {std::pair{DType::f32, DType::f32},
                                    {DType::bf16, DType::bf16},
                                    {DType::f16, DType::f16},
                                    {DType::bf16, DType::f32},
                                    {DType::f16, DType::f32}})
        for (int form = 0; form < 4; ++form)
          for (const bool tf32 : {false, true}) {
            if (tf32 && in != DType::f32) continue;
            const bool accumulate = out == DType::f32 && form % 2 == 1, bias = !accumulate && form == 2;
            GemmKey key{m, n, k, form == 3, form != 1, in, out, bias, accumulate, tf32};
            const Buffer a = random.buffer(in, m * k), b = random.buffer(in, k * n);
            Buffer bias32 = random.buffer(DType::f32, n), bias_out(out, n);
            for (int64_t j = 0; j < n; ++j) bias_out.set(j, bias32[j]), bias32.set(j, bias_out[j]);
            Buffer c = accumulate ? random.buffer(DType::f32, m * n) : Buffer(out, m * n);
            const OnDevice ga(a), gb(b), gbias(bias_out), gc(c);
            const GemmOperands x{ga.data(), gb.data(), bias ? gbias.data() : nullptr, gc.data()};
            key.align = alignment_of(x);
            if (choice == GemmChoice::timed) {  // timing adds to C: use another one
              const OnDevice other(c);
              gemms.prepare(key, {x.a, x.b, x.bias, other.data()}, workspace.data(), kGemmWorkspace,
                            streams[plan::Lane::compute]);
              streams.sync();
            } else {
              gemms.prepare(key, x, workspace.data(), kGemmWorkspace, streams[plan::Lane::compute]);
            }
            gemms.run(key, x, workspace.data(), kGemmWorkspace, streams[plan::Lane::compute]);
            streams.sync();
            cpu::gemm({m, n, k, key.trans_a, key.trans_b, in, in, out, bias, accumulate, tf32}, a.data(),
                      b.data(), bias32.f32(), c.data());
            // Tensor cores may truncate tf32 operands where the CPU rounds them.
            const double allowed = tf32 ? 2e-3 : tolerance(out) + 3e-6;
            expect_near(gc.read(out), c, allowed, text_of(key));
          }
  }
  EXPECT_GE(device.major, 8);
}

// Descriptors need the library, but no GPU.
TEST(Libraries, ProductsAreChosenForTheMultiprocessorsThatTheyAreGiven) {
  try {
    Gemms::library_version();
  } catch (const std::runtime_error& e) {
    GTEST_SKIP() << e.what();
  }
  const GemmKey key{128, 384, 256, false, true, DType::bf16, DType::bf16};
  EXPECT_EQ(Gemms::sms_in_descriptor(key, 0), 0) << "the device's";
  EXPECT_EQ(Gemms::sms_in_descriptor(key, 108), 108);
  EXPECT_EQ(Gemms::sms_in_descriptor(key, 1), 1);
}

TEST(OnGpu, ProductsWithEpiloguesAreTheCpus) {
  ISOBAR_NEEDS_KERNELS();
  use_device("test", 0);
  Random random;
  const Streams streams;
  const DeviceArena workspace(kGemmWorkspace);
  Gemms gemms(GemmChoice::heuristic);
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1024, 1536, 384},
                                {4050, 256, 128},
                                {77, 64, 56},
                                {384, 96, 405}})
    for (const DType in : {DType::bf16, DType::f16})
      for (const Fused fused : {Fused::gelu, Fused::gelu_gradient, Fused::bias_gradient})
        for (const bool more : {false, true}) {  // gelu: a bias; bias_gradient: accumulating C
          const bool weights = fused == Fused::bias_gradient;
          const DType out = weights ? DType::f32 : in;
          GemmKey key{m,
                      n,
                      k,
                      weights,
                      fused == Fused::gelu,
                      in,
                      out,
                      fused == Fused::gelu && more,
                      weights && more,
                      false,
                      fused};
          const Buffer a = random.buffer(in, m * k), b = random.buffer(in, k * n, 0.1);
          Buffer bias32 = random.buffer(DType::f32, n), bias(out, n), sums(DType::f32, m);
          for (int64_t j = 0; j < n; ++j) bias.set(j, bias32[j]), bias32.set(j, bias[j]);
          Buffer c = weights && more ? random.buffer(out, m * n) : Buffer(out, m * n);
          Buffer u = fused == Fused::gelu_gradient ? random.buffer(in, m * n, 2) : Buffer(in, m * n);
          const OnDevice ga(a), gb(b), gbias(bias), gc(c), gu(u), gsums(sums);
          GemmOperands x{ga.data(), gb.data(), key.bias ? gbias.data() : nullptr, gc.data()};
          if (weights)
            x.sums = gsums.f32();
          else
            x.aux = gu.data();
          key.align = alignment_of(x);
          const cudaStream_t stream = streams[plan::Lane::compute];
          if (!gemms.prepare(key, x, workspace.data(), kGemmWorkspace, stream)) {
            std::cout << "cuBLASLt has no algorithm for " << text_of(key) << ": runs as two ops\n";
            EXPECT_TRUE(weights || in != DType::bf16 || m != 1024)
                << "which it has on Hopper: " << text_of(key);
            continue;
          }
          gemms.run(key, x, workspace.data(), kGemmWorkspace, stream);
          streams.sync();
          const cpu::Gemm product{m,           n,
                                  k,           key.trans_a,
                                  key.trans_b, in,
                                  in,          fused == Fused::gelu_gradient ? DType::f32 : out,
                                  key.bias,    key.accumulate,
                                  false};
          // The tensor cores' tanh is accurate to 2^-11.
          const double allowed = tolerance(out) + (weights ? 3e-6 : 1e-3);
          if (fused == Fused::gelu) {
            cpu::gemm(product, a.data(), b.data(), bias32.f32(), u.data());
            cpu::activation_forward(Activation::gelu_tanh, m * n, in, u.data(), c.data());
            expect_near(gu.read(in), u, tolerance(in) + 3e-6, text_of(key) + " before gelu");
          } else if (fused == Fused::gelu_gradient) {
            Buffer dg(DType::f32, m * n), u32(DType::f32, m * n), du(DType::f32, m * n);
            cpu::gemm(product, a.data(), b.data(), nullptr, dg.data());
            cpu::cast(m * n, in, DType::f32, u.data(), u32.data());
            cpu::activation_backward(Activation::gelu_tanh, m, n, DType::f32, u32.data(), dg.data(),
                                     du.data(), nullptr, false);
            cpu::cast(m * n, DType::f32, in, du.data(), c.data());
          } else {
            cpu::gemm(product, a.data(), b.data(), nullptr, c.data());
            cpu::column_sum(k, m, in, a.data(), sums.f32(), false);
            expect_sums_near(
                gsums.read(DType::f32), sums, k, [&](int64_t r, int64_t j) { return a[r * m + j]; },
                text_of(key) + " sums");
          }
          expect_near(gc.read(out), c, allowed, text_of(key));
        }
}

// cudnn_plans.cpp checks the declared workspace without a GPU.
TEST(OnGpu, FusedAttentionIsThePlainKernels) {
  ISOBAR_NEEDS_KERNELS();
  const Device device = use_device("test", 0);
  if (!CudnnAttention::built()) GTEST_SKIP() << "built without cuDNN's frontend";
  Random random;
  const Streams streams;
  CudnnAttention fused;
  for (const Attention& a : tested_attentions()) {
    const auto [batch, heads, tq, tk, d, act] = std::tuple(a.batch, a.heads, a.tq, a.tk, a.d, a.act);
    const std::string what = std::string(name_of(act)) + " q" + std::to_string(tq) + " d" + std::to_string(d);
    const Buffer q = random.buffer(act, batch * tq * a.ld_q), k = random.buffer(act, batch * tk * a.ld_kv),
                 v = random.buffer(act, batch * tk * a.ld_kv), d_o = random.buffer(act, batch * tq * a.ld_o);
    const int64_t rows = batch * heads * tq;
    const Buffer o(act, d_o.size()), lse(DType::f32, rows), dq(act, q.size()), dk(act, k.size()),
        dv(act, k.size());
    const int64_t bytes = attention_workspace(a, true, device.major);
    const DeviceArena workspace(std::max<int64_t>(bytes, 4 * rows));
    const OnDevice gq(q), gk(k), gv(v), gdo(d_o), o1(o), o2(o), l1(lse), l2(lse), dq1(dq), dq2(dq), dk1(dk),
        dk2(dk), dv1(dv), dv2(dv);
    const cudaStream_t stream = streams[plan::Lane::compute];
    if (!cudnn_takes(a, true, device.major)) continue;
    fused.prepare(a, false, 1024);
    fused.prepare(a, true, bytes);
    fused.forward(a, gq.data(), gk.data(), gv.data(), o1.data(), l1.f32(), workspace.data(), stream);
    fused.backward(a, gq.data(), gk.data(), gv.data(), o1.data(), l1.f32(), gdo.data(), dq1.data(),
                   dk1.data(), dv1.data(), workspace.data(), stream);
    streams.sync();
    attention_simt(a, gq.data(), gk.data(), gv.data(), o2.data(), l2.f32(), stream);
    attention_simt_backward(a, gq.data(), gk.data(), gv.data(), o2.data(), l2.f32(), gdo.data(), dq2.data(),
                            dk2.data(), dv2.data(), reinterpret_cast<float*>(workspace.data()), stream);
    streams.sync();
    const auto same = [&](const OnDevice& x, const OnDevice& y, int64_t count, int64_t ld, const char* name) {
      const Buffer got = x.read(act), want = y.read(act);
      double error = 0, size = 0;
      for (int64_t r = 0; r < count; ++r)
        for (int64_t c = 0; c < heads * d; ++c) {
          error += std::pow(got[r * ld + c] - want[r * ld + c], 2);
          size += std::pow(want[r * ld + c], 2);
        }
      EXPECT_TRUE(std::sqrt(error / size) <= 4 * roundoff(act))
          << what << " " << name << " " << std::sqrt(error / size);
    };
    same(o1, o2, batch * tq, a.ld_o, "o");
    same(dq1, dq2, batch * tq, a.ld_q, "dq");
    same(dk1, dk2, batch * tk, a.ld_kv, "dk");
    same(dv1, dv2, batch * tk, a.ld_kv, "dv");
    // natural logarithm, [batch, heads, tq]: ring attention merges by it
    expect_near(l1.read(DType::f32), l2.read(DType::f32), 1e-4, what + " lse");
  }
}

}  // namespace
}  // namespace isobar::cuda::testing
