// Fused layers of small nets, against double precision and the separate ops; and the ops of a program that
// are fused.
#include <algorithm>

#include "model/backend/cpu/cpu_backend.h"
#include "tests/cpu/kernel_testing.h"

namespace isobar::cpu::testing {
namespace {

double activated(Activation f, double u) {
  switch (f) {
    case Activation::gelu:
      return u * 0.5 * std::erfc(-u / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return u * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (u + 0.044715 * u * u * u)));
    case Activation::relu:
      return std::max(u, 0.0);
    case Activation::silu:
      return u / (1 + std::exp(-u));
    case Activation::tanh:
      return std::tanh(u);
  }
  return NAN;
}

// A small net with weights of N(0, 1 / k), so that values stay near size 1
struct SmallNet {
  SmallNet(Random& random, std::vector<int64_t> widths) : widths(std::move(widths)) {
    for (size_t i = 0; i + 1 < this->widths.size(); ++i) {
      const int64_t k = this->widths[i], n = this->widths[i + 1];
      weights.push_back(random.buffer(DType::f32, n * k, 1 / std::sqrt(static_cast<double>(k))));
      biases.push_back(random.buffer(DType::f32, n));
      const bool last = i + 2 == this->widths.size();
      layers.push_back({n, k, nullptr, nullptr, {}});
      if (!last || random.coin()) layers.back().activation = random.one_of(kFunctions);
    }
    for (size_t i = 0; i < layers.size(); ++i)
      layers[i].weight = weights[i].f32(), layers[i].bias = biases[i].f32();
  }
  std::vector<double> row(const float* x) const {
    std::vector<double> now(x, x + widths[0]);
    for (const Layer& l : layers) {
      std::vector<double> next(static_cast<size_t>(l.n));
      for (int64_t j = 0; j < l.n; ++j) {
        double sum = static_cast<double>(l.bias[j]);
        for (int64_t p = 0; p < l.k; ++p)
          sum += now[static_cast<size_t>(p)] * static_cast<double>(l.weight[j * l.k + p]);
        next[static_cast<size_t>(j)] = l.activation ? activated(*l.activation, sum) : sum;
      }
      now = std::move(next);
    }
    return now;
  }
  // One op after the other, as in a plan
  void in_turn(int64_t m, const float* x, float* y) const {
    std::vector<Buffer> results;
    const float* from = x;
    for (const Layer& l : layers) {
      Buffer& to = results.emplace_back(DType::f32, m * l.n);
      gemm({.m = m,
            .n = l.n,
            .k = l.k,
            .trans_b = true,
            .a = DType::f32,
            .b = DType::f32,
            .c = DType::f32,
            .bias = true},
           from, l.weight, l.bias, to.data());
      if (l.activation) activation_forward(*l.activation, m * l.n, DType::f32, to.data(), to.data());
      from = to.f32();
    }
    std::memcpy(y, from, results.back().bytes());
  }
  std::vector<int64_t> widths;
  std::vector<Buffer> weights, biases;
  std::vector<Layer> layers;
};

std::vector<int64_t> random_widths(Random& random) {
  std::vector<int64_t> widths{random.integer(1, 128)};
  for (int64_t left = random.integer(1, 4); left > 0; --left) widths.push_back(16 * random.integer(1, 8));
  if (random.coin()) widths.push_back(random.integer(1, 4));
  return widths;
}

TEST(Layers, AreTheirFormulasOnEveryInstructionSet) {
  Random random;
  for (const Isa isa : isas())
    for (int round = 0; round < 12; ++round) {
      const Running running(isa, static_cast<int>(random.integer(1, 3)));
      const SmallNet net(random, random_widths(random));
      const int64_t m = random.integer(1, 300), in = net.widths.front(), out = net.widths.back();
      const Buffer x = random.buffer(DType::f32, m * in);
      Buffer y(DType::f32, m * out), again(DType::f32, m * out);
      layers(m, net.layers, x.f32(), y.f32());
      layers(m, net.layers, x.f32(), again.f32());
      EXPECT_TRUE(y.intact() && y.same_bits(again));
      for (int64_t i = 0; i < m; ++i) {
        const std::vector<double> want = net.row(x.f32() + i * in);
        for (int64_t j = 0; j < out; ++j)
          ASSERT_TRUE(within(y[i * out + j], want[static_cast<size_t>(j)], 2e-5))
              << "row " << i << " of " << m << ", output " << j;
      }
    }
}

TEST(Layers, HaveTheBitsOfTheSameOpsInTurnWhateverTheRowsAndThreads) {
  if (best_isa() < Isa::avx512) GTEST_SKIP() << "no AVX-512";
  Random random;
  for (const Isa isa : isas()) {
    if (isa < Isa::avx512) continue;
    for (int round = 0; round < 12; ++round) {
      std::vector<int64_t> widths{14, 64, 64, 64, 1};
      if (round > 0) {
        widths = {random.integer(1, 128), 16 * random.integer(1, 4), 16 * random.integer(1, 8)};
        if (random.coin()) widths.push_back(random.integer(1, 4));
      }
      const SmallNet net(random, widths);
      const int64_t m = random.integer(130, 700), in = net.widths.front(), out = net.widths.back();
      for (const Layer& l : net.layers) ASSERT_TRUE(takes_layer(64, l.n, l.k));
      const Buffer x = random.buffer(DType::f32, m * in);
      Buffer whole(DType::f32, m * out), parts(DType::f32, m * out), turns(DType::f32, m * out);
      const auto run = [&](int threads, int64_t first, int64_t count, Buffer& y) {
        const Running running(isa, threads);
        layers(count, net.layers, x.f32() + first * in, y.f32() + first * out);
      };
      run(1, 0, m, whole);
      const int64_t cut = random.integer(1, m - 1);
      run(3, 0, cut, parts);
      run(2, cut, m - cut, parts);
      EXPECT_TRUE(whole.same_bits(parts)) << m << " rows, cut at " << cut;
      const Running running(isa, static_cast<int>(random.integer(1, 2)));
      net.in_turn(m, x.f32(), turns.f32());
      EXPECT_TRUE(whole.same_bits(turns)) << m << " rows";
    }
  }
}

TEST(Layers, DenormalsAreZerosAndANaNStaysInItsRow) {
  Random random;
  for (const Isa isa : isas()) {
    const Running running(isa, 2);
    const SmallNet net(random, {14, 64, 64, 1});
    const int64_t m = 200, in = 14;
    Buffer x = random.buffer(DType::f32, m * in), y(DType::f32, m), zeros(DType::f32, m);
    x.set(77 * in + 3, NAN);
    for (int64_t j = 0; j < in; ++j) x.set(78 * in + j, 0);
    layers(m, net.layers, x.f32(), zeros.f32());
    for (int64_t j = 0; j < in; ++j) x.f32()[78 * in + j] = 1e-40f;
    layers(m, net.layers, x.f32(), y.f32());
    for (int64_t i = 0; i < m; ++i) EXPECT_EQ(std::isnan(y[i]), i == 77) << i;
    EXPECT_EQ(y[78], zeros[78]);
  }
}

// ---- ops of a program ----

struct Chain {  // fetch, then layers and activations, as in a net's eval program
  explicit Chain(DType t = DType::f32) : type(t) {
    x = buffer(type, kRows * 14);
    plan::View from = x;
    for (int i = 0; i < 3; ++i) {
      const int64_t n = i == 2 ? 1 : 64, k = i == 0 ? 14 : 64;
      u.push_back(buffer(type, kRows * n));
      linear(from, u.back(), n, k);
      if (i == 2) break;
      g.push_back(buffer(type, kRows * n));
      plan.ops.push_back(
          {.kind = plan::OpKind::activation,
           .attrs = plan::ActivationAttrs{.rows = kRows, .cols = n, .function = Activation::silu},
           .reads = {u.back()},
           .writes = {g.back()},
           .path = "activation"});
      from = g.back();
    }
  }
  plan::View buffer(DType t, int64_t count) {
    isobar::plan::Buffer b{
        .name = "b", .kind = plan::BufferKind::saved, .dtype = t, .count = count, .offset = end};
    plan.buffers.push_back(b);
    end += (b.bytes() + 63) / 64 * 64;
    plan.memory.arena = end;
    return {static_cast<int32_t>(plan.buffers.size()) - 1, 0, count};
  }
  void linear(const plan::View& from, const plan::View& to, int64_t n, int64_t k) {
    plan.ops.push_back({.kind = plan::OpKind::gemm,
                        .attrs = plan::GemmAttrs{.m = kRows, .n = n, .k = k, .trans_b = true},
                        .reads = {from, buffer(type, n * k), buffer(DType::f32, n)},
                        .writes = {to},
                        .path = "linear"});
  }
  void read(const plan::View& v) {
    plan.ops.push_back({.kind = plan::OpKind::cast,
                        .attrs = plan::ElementsAttrs{.count = v.count},
                        .reads = {v},
                        .writes = {buffer(type, v.count)}});
  }
  plan::Program program() {
    plan.routines = {{"forward", plan::Pass::forward, 0, 0, static_cast<int32_t>(plan.ops.size())}};
    return plan::link(plan, {{0, 0, 0}}, true);
  }
  std::vector<std::pair<int, int>> runs() {
    std::vector<std::pair<int, int>> found;
    for (const RowRun& r : row_runs(plan, program(), {u.back()})) found.emplace_back(r.first, r.end);
    return found;
  }
  static constexpr int64_t kRows = 333;
  const DType type;
  plan::Plan plan;
  int64_t end = 0;
  plan::View x;
  std::vector<plan::View> u, g;
};
using Runs = std::vector<std::pair<int, int>>;

// Ops are numbered linear 0, activation 1, linear 2, activation 3, linear 4.
TEST(RowRuns, AreLayersWhoseResultsNobodyElseReads) {
  if (best_isa() < Isa::avx512) GTEST_SKIP() << "no AVX-512";
  EXPECT_EQ(Chain().runs(), (Runs{{0, 5}}));
  EXPECT_EQ(Chain(DType::bf16).runs(), Runs{});
  Chain u;  // read again, as by a backward pass
  u.read(u.u[1]);
  EXPECT_EQ(u.runs(), (Runs{{0, 3}}));
  Chain g;
  g.read(g.g[0]);
  EXPECT_EQ(g.runs(), (Runs{{0, 2}, {2, 5}}));
  Chain twice;  // two micro-batches: not fused
  twice.program();
  const plan::Program both = plan::link(twice.plan, {{0, 0, 0}, {0, 1, 0}}, true);
  EXPECT_TRUE(row_runs(twice.plan, both, {twice.u.back()}).empty());
  const Running less(Isa::avx2, 1);
  EXPECT_EQ(Chain().runs(), Runs{});
}

TEST(RowRuns, EndWhereAnOpIsNoPlainLayer) {
  if (best_isa() < Isa::avx512) GTEST_SKIP() << "no AVX-512";
  const auto with = [](const auto& change) {
    Chain c;
    change(c.plan.ops[2]);
    return c.runs();
  };
  EXPECT_EQ(with([](plan::Op&) {}), (Runs{{0, 5}}));
  EXPECT_EQ(with([](plan::Op& o) { o.as<plan::GemmAttrs>().accumulate = true; }), (Runs{{0, 2}}));
  EXPECT_EQ(with([](plan::Op& o) { o.as<plan::GemmAttrs>().tf32 = true; }), (Runs{{0, 2}}));
  EXPECT_EQ(with([](plan::Op& o) { o.as<plan::GemmAttrs>().fp8 = true; }), (Runs{{0, 2}}));
  EXPECT_EQ(with([](plan::Op& o) { o.as<plan::GemmAttrs>().trans_a = true; }), (Runs{{0, 2}}));
  EXPECT_EQ(with([](plan::Op& o) { o.reads[2] = plan::View{}; }), (Runs{{0, 2}}));
  EXPECT_EQ(with([](plan::Op& o) { o.as<plan::GemmAttrs>().k = 200; }), (Runs{{0, 2}}));
}

// The second layer's result overwrites the net's input: correct for separate ops, but fused rows must not
// overwrite input rows that are still to be read.
TEST(RowRuns, DoNotWriteOverWhatTheyRead) {
  if (best_isa() < Isa::avx512) GTEST_SKIP() << "no AVX-512";
  Chain c;
  c.plan.buffers[c.g[1].buffer].offset = c.plan.buffers[c.x.buffer].offset;
  EXPECT_EQ(c.runs(), (Runs{{0, 3}}));
}

TEST(RowRuns, GiveTheBitsOfTheirOps) {
  Random random;
  for (const Isa isa : isas()) {
    const Running running(isa, static_cast<int>(random.integer(1, 2)));
    Chain c;
    const plan::Program program = c.program();
    Buffer together(DType::f32, c.end / 4), in_turn(DType::f32, c.end / 4);
    for (const plan::Op& op : c.plan.ops)
      for (const plan::View& v : op.reads)
        if (v.buffer == c.x.buffer || op.kind == plan::OpKind::gemm)
          for (int64_t i = 0; i < v.count; ++i)
            together.set(plan::address(c.plan, v, 0).first / 4 + i, random.normal(0.3));
    std::memcpy(in_turn.data(), together.data(), together.bytes());
    CpuBackend one(c.plan, static_cast<std::byte*>(together.data()));
    CpuBackend other(c.plan, static_cast<std::byte*>(in_turn.data()));
    const std::vector<RowRun> runs = row_runs(c.plan, program, {c.u.back()});
    if (isa >= Isa::avx512) {
      ASSERT_EQ(runs.size(), 1u);
      one.launch(program, runs[0]);
      for (const plan::Op& op : c.plan.ops) other.launch(op, 0, 0);
      const int64_t at = plan::address(c.plan, c.u.back(), 0).first / 4;
      for (int64_t i = 0; i < Chain::kRows; ++i) ASSERT_EQ(together[at + i], in_turn[at + i]) << i;
    } else {
      EXPECT_TRUE(runs.empty());
    }
  }
}

}  // namespace
}  // namespace isobar::cpu::testing
