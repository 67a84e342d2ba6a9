// Denormals cost no time and appear nowhere: every kernel thread flushes them, and exponentials produce none
// even without flushing.
#include <chrono>
#include <functional>
#include <thread>

#include "model/backend/cpu/parallel.h"
#include "tests/base/denormals.h"
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

Attention attention_of(DType act, int64_t tokens, int64_t d) {
  return {.batch = 1,
          .heads = 2,
          .kv_heads = 2,
          .tq = tokens,
          .tk = tokens,
          .d = d,
          .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d))),
          .causal = false,
          .act = act,
          .ld_q = 2 * d,
          .ld_kv = 2 * d,
          .ld_o = 2 * d};
}

// One attention of normal numbers, forward and backward
struct Scores {
  Scores(Random& random, DType act, int64_t tokens, int64_t d, double sigma)
      : a(attention_of(act, tokens, d)),
        q(random.buffer(act, tokens * a.ld_q, sigma)),
        k(random.buffer(act, tokens * a.ld_kv, sigma)),
        v(random.buffer(act, tokens * a.ld_kv)),
        d_o(random.buffer(act, tokens * a.ld_o)),
        o(act, d_o.size()),
        dq(act, q.size()),
        dk(act, k.size()),
        dv(act, v.size()),
        lse(DType::f32, a.heads * tokens),
        work(DType::f32, std::max(attention_workspace(a, false, omp_get_max_threads()),
                                  attention_workspace(a, true, omp_get_max_threads())) /
                             4) {}
  void forward() { attention_forward(a, q.data(), k.data(), v.data(), o.data(), lse.f32(), work.data()); }
  void backward() {
    attention_backward(a, q.data(), k.data(), v.data(), o.data(), lse.f32(), d_o.data(), dq.data(), dk.data(),
                       dv.data(), a.ld_q, a.ld_kv, work.data());
  }
  Attention a;
  Buffer q, k, v, d_o, o, dq, dk, dv, lse, work;
};

TEST(Denormals, AreZerosOnEveryThreadOfEveryKernel) {
  constexpr int kThreads = 3;
  constexpr int64_t kRows = 256, kCols = 512, n = kRows * kCols;  // enough for all threads
  Random random;
  Buffer x = random.buffer(DType::f32, n), y = random.buffer(DType::f32, n), z(DType::f32, n);
  Buffer h = random.buffer(DType::bf16, n), w = random.buffer(DType::bf16, n), r(DType::bf16, n);
  Buffer sums(DType::f32, kCols);
  const struct {
    const char* name;
    std::function<void()> run;
  } kernels[] = {
      {"activation", [&] { activation_forward(Activation::gelu, n, DType::f32, x.data(), z.data()); }},
      {"activation_backward",
       [&] {
         activation_backward(Activation::gelu, kRows, kCols, DType::f32, x.data(), y.data(), z.data(),
                             sums.f32(), false);
       }},
      {"cast", [&] { cast(n, DType::f32, DType::bf16, x.data(), r.data()); }},
      {"squared_sum", [&] { squared_sum(n, x.data()); }},
      {"product in f32",
       [&] {
         gemm({256, 256, 512, false, true, DType::f32, DType::f32, DType::f32, false, false}, x.data(),
              y.data(), nullptr, z.data());
       }},
      {"product in bf16",
       [&] {
         gemm({256, 256, 512, false, true, DType::bf16, DType::bf16, DType::bf16, false, false}, h.data(),
              w.data(), nullptr, r.data());
       }},
      {"attention",
       [&] {
         Scores s(random, DType::f32, 200, 16, 1);
         s.forward();
       }},
      {"attention_backward",
       [&] {
         Scores s(random, DType::bf16, 1000, 16, 1);
         s.forward();
#pragma omp parallel
         test::keep_denormals();
         s.backward();
       }},
  };
  for (const auto& kernel : kernels) {
    SCOPED_TRACE(kernel.name);
    bool before[kThreads] = {}, after[kThreads] = {};
    std::thread([&] {  // its OpenMP threads are also new
      omp_set_num_threads(kThreads);
#pragma omp parallel
      test::keep_denormals();
#pragma omp parallel
      before[omp_get_thread_num()] = test::flushes_denormals();
      kernel.run();
#pragma omp parallel
      after[omp_get_thread_num()] = test::flushes_denormals();
    })
        .join();
    for (int t = 0; t < kThreads; ++t) {
      EXPECT_FALSE(before[t]) << "thread " << t << ": the test shows nothing";
      EXPECT_TRUE(after[t]) << "thread " << t;
    }
  }
}

// Every activation's tail, between its last f32 and 0
TEST(Denormals, NoneComesOutOfAnExponentialWhateverTheThreadDoes) {
  constexpr int64_t n = 40'000;
  for (const Isa isa : isas()) {
    const Running running(isa, 1);
    Buffer u(DType::f32, n), g(DType::f32, n), one(DType::f32, n), du(DType::f32, n), sums(DType::f32, n);
    for (int64_t i = 0; i < n; ++i) {
      u.set(i, -25.0 * static_cast<double>(i) / n);
      one.set(i, 1);
    }
    for (int f = 0; f < kActivations; ++f) {
      std::thread([&] {
        test::keep_denormals();
        kernels().activation_forward[f][of(DType::f32)](n, u.data(), g.data());
        kernels().activation_backward[f][of(DType::f32)](1, n, u.data(), one.data(), du.data(), sums.f32());
      }).join();
      for (int64_t i = 0; i < n; ++i)
        for (const Buffer* out : {&g, &du})
          ASSERT_NE(std::fpclassify(out->f32()[i]), FP_SUBNORMAL)
              << name_of(static_cast<Activation>(f)) << (out == &g ? " of " : "'s slope at ") << u[i];
    }
  }
}

TEST(Denormals, WhatIsNoNumberStaysNone) {
  Random random;
  for (const Isa isa : isas())
    for (const DType act : kActs) {
      const Running running(isa, 1);
      for (const Activation f : kFunctions) {
        Buffer u = random.buffer(act, 33), g(act, 33);
        u.set(7, NAN);
        activation_forward(f, 33, act, u.data(), g.data());
        for (int64_t i = 0; i < 33; ++i) EXPECT_EQ(std::isnan(g[i]), i == 7) << i << ", " << name_of(f);
      }
      Scores s(random, act, 70, 16, 1);
      s.q.set(40 * s.a.ld_q + 3, NAN);  // head 0
      s.forward();
      for (int64_t i = 0; i < 70; ++i)
        for (int64_t x = 0; x < s.a.ld_o; ++x)
          ASSERT_EQ(std::isnan(s.o[i * s.a.ld_o + x]), i == 40 && x < 16) << i << ", " << x;
    }
}

// Ratio of the fastest of many interleaved runs, so that other load affects both.
double ratio_of_times(const std::function<void()>& small, const std::function<void()>& large) {
  using clock = std::chrono::steady_clock;
  double best[2] = {1e9, 1e9};
  for (int i = 0; i < 40; ++i)
    for (const int which : {0, 1}) {
      const auto t0 = clock::now();
      (which == 0 ? small : large)();
      best[which] = std::min(best[which], std::chrono::duration<double>(clock::now() - t0).count());
    }
  return best[1] / best[0];
}

// Inputs of standard deviation 20 underflow in the exponential, which made GELU many times slower on Intel
// CPUs without flushing.
TEST(Denormals, TakeNoLongerThanOtherNumbers) {
  constexpr int64_t n = 1 << 14;
  Random random;
  for (const Isa isa : isas()) {
    const Running running(isa, 1);
    for (const DType act : kActs) {
      SCOPED_TRACE(isobar::name_of(act));
      Buffer u = random.buffer(act, n), u20 = random.buffer(act, n, 20), dg = random.buffer(act, n);
      Buffer g(act, n), du(act, n), sums(DType::f32, 64);
      for (const Activation f : kFunctions) {
        EXPECT_LT(ratio_of_times([&] { activation_forward(f, n, act, u.data(), g.data()); },
                                 [&] { activation_forward(f, n, act, u20.data(), g.data()); }),
                  3);
        const auto backward = [&](const Buffer& x) {
          activation_backward(f, n / 64, 64, act, x.data(), dg.data(), du.data(), sums.f32(), false);
        };
        EXPECT_LT(ratio_of_times([&] { backward(u); }, [&] { backward(u20); }), 3);
      }
      Scores s(random, act, 192, 16, 1), s20(random, act, 192, 16, 20);
      EXPECT_LT(ratio_of_times([&] { s.forward(); }, [&] { s20.forward(); }), 3);
      EXPECT_LT(ratio_of_times([&] { s.backward(); }, [&] { s20.backward(); }), 3);
    }
  }
}

}  // namespace
}  // namespace isobar::cpu::testing
