// Google Benchmark cases of attention on one CPU thread, relative to the machine's matrix-product rate.
//
//   build/attention_benchmark                                            # every case, some two minutes
//   build/attention_benchmark --benchmark_filter='forward/f32/4050/'     # PASS/TYPE/TOKENS/HEAD SIZE
//   ISOBAR_MAX_ISA=avx2 build/attention_benchmark                        # another instruction set
//   build/attention_benchmark --benchmark_format=json                    # as tests/studies/results keeps it
//
// Counters: FLOP/s, counting 4 T^2 d forward and 10 T^2 d backward (work.h), and its share of the machine's
// f32 product rate (dnnl_sgemm, 4050 x 1536 x 384, measured before each case; also for bf16, so that both
// types share one scale).
#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "model/backend/cpu/isa/kernel_table.h"
#include "model/backend/cpu/isa/kernels.h"

namespace isobar::micro {
namespace {

std::vector<float> random_floats(int64_t n) {
  static std::mt19937 engine(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) v = normal(engine);
  return x;
}

// n elements of type t in kernel layout
struct Operand {
  Operand(DType t, int64_t n) : bytes(static_cast<size_t>(n * size_of(t) + 64)) {
    const std::vector<float> x = random_floats(n);
    cpu::cast(n, DType::f32, t, x.data(), at());
  }
  void* at() { return bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64; }
  std::vector<char> bytes;
};

double seconds(const std::chrono::steady_clock::time_point& since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

// FLOP/s of the fastest of several calls
double sgemm_rate() {
  constexpr int64_t m = 4050, n = 1536, k = 384;
  static const std::vector<float> a = random_floats(m * k), b = random_floats(k * n);
  static std::vector<float> c(static_cast<size_t>(m * n));
  double best = 0;
  for (int i = 0; i < 6; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    cpu::gemm({.m = m, .n = n, .k = k, .trans_b = true, .a = DType::f32, .b = DType::f32, .c = DType::f32},
              a.data(), b.data(), nullptr, c.data());
    best = std::max(best, 2.0 * static_cast<double>(m) * n * k / seconds(begin));
  }
  return best;
}

void run(benchmark::State& state, DType t, bool backward) {
  const int64_t tokens = state.range(0), d = state.range(1), n = tokens * d;
  const cpu::Attention a{1, 1, 1, tokens, tokens, d, 1 / std::sqrt(static_cast<float>(d)), false, t, d, d, d};
  Operand q(t, n), k(t, n), v(t, n), o(t, n), d_o(t, n), dq(t, n), dk(t, n), dv(t, n);
  std::vector<float> lse(static_cast<size_t>(tokens));
  std::vector<float> workspace(static_cast<size_t>(cpu::attention_workspace(a, true, 1) / 4 + 16) +
                               static_cast<size_t>(cpu::attention_workspace(a, false, 1) / 4 + 16));
  void* const scratch = workspace.data() + (16 - reinterpret_cast<uintptr_t>(workspace.data()) / 4 % 16) % 16;
  cpu::attention_forward(a, q.at(), k.at(), v.at(), o.at(), lse.data(), scratch);
  const double products = sgemm_rate();
  for (auto _ : state) {
    if (backward)
      cpu::attention_backward(a, q.at(), k.at(), v.at(), o.at(), lse.data(), d_o.at(), dq.at(), dk.at(),
                              dv.at(), d, d, scratch);
    else
      cpu::attention_forward(a, q.at(), k.at(), v.at(), o.at(), lse.data(), scratch);
    benchmark::ClobberMemory();
  }
  const double flops = (backward ? 10.0 : 4.0) * static_cast<double>(tokens) * static_cast<double>(n) *
                       static_cast<double>(state.iterations());
  using benchmark::Counter;
  state.counters["FLOP/s"] = Counter(flops, Counter::kIsRate);
  state.counters["of sgemm"] = Counter(flops / products, Counter::kIsRate);
  state.counters["sgemm"] = products;
}

int all_cases(int argc, char** argv) {
  omp_set_num_threads(1);
  for (const DType t : {DType::f32, DType::bf16})
    for (const bool backward : {false, true}) {
      const std::string name =
          std::string(backward ? "backward/" : "forward/") + (t == DType::f32 ? "f32" : "bf16");
      auto* cases = benchmark::RegisterBenchmark(
          name.c_str(), [t, backward](benchmark::State& state) { run(state, t, backward); });
      for (const int64_t tokens : {512, 4050, 16200})
        for (const int64_t d : {32, 48, 64, 128, 192}) cases->Args({tokens, d});
      cases->UseRealTime()->Unit(benchmark::kMillisecond);
    }
  benchmark::AddCustomContext("isa", cpu::name_of(cpu::best_isa()));
  benchmark::AddCustomContext("bf16", cpu::bf16_mode());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace isobar::micro

int main(int argc, char** argv) {
  try {
    return isobar::micro::all_cases(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 2;
  }
}
