// The closed form of layouts against formulas from the literature, placed plans, and physics.
#include "perfmodel/ask/layout_predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "model/plan/layout.h"
#include "perfmodel/ask/search.h"
#include "tests/perfmodel/support.h"

namespace isobar::perf {
namespace {

// GPT as in the papers: attention's matrix in memory, dropout, a vocabulary without padding
RunSpec gpt(int64_t h, int64_t layers, int64_t heads, int64_t s) {
  RunSpec spec;
  spec.file = "test";
  GptSpec net;
  net.embed_dim = h;
  net.depth = layers;
  net.num_heads = heads;
  net.seq_length = s;
  net.vocab_size = 51200;
  net.dropout = 0.1;
  spec.net = net;
  spec.policy.amp = Amp::bf16;
  spec.policy.attention = AttentionKind::unfused;
  spec.policy.micro_batch = 1;
  return spec;
}

double flops_of(const RunSpec& s) {
  LayoutModel model(s, test::cluster());
  return model.cost(layout_of(s)).flops;
}

TEST(LayoutModel, FlopsAreNarayanans) {
  // 72 B s l h^2 (1 + s/6h + V/12lh): three passes of 24 B s l h^2 + 4 B s^2 l h, and the head's 6 B s h V
  // (Narayanan 2021, appendix); recomputation repeats the first, except for its unused last product.
  for (const auto& [tp, pp, dp] : {std::array<int64_t, 3>{1, 1, 1}, {8, 1, 2}, {2, 4, 4}}) {
    RunSpec spec = gpt(4096, 8, 32, 1024);
    spec.layout = {.dp = dp, .tp = tp, .pp = pp};
    spec.train.global_batch = 8 * dp;
    const double B = static_cast<double>(spec.train.global_batch), s = 1024, l = 8, h = 4096, V = 51200;
    const double forward = 24 * B * s * l * h * h + 4 * B * s * s * l * h;
    EXPECT_NEAR(flops_of(spec) / (72 * B * s * l * h * h * (1 + s / (6 * h) + V / (12 * l * h))), 1, 1e-9)
        << tp;
    spec.policy.recompute = Recompute::full;
    EXPECT_NEAR(flops_of(spec) / (3 * forward + 6 * B * s * h * V + forward - 8 * B * s * l * h * h), 1,
                1e-9);
  }
}

double saved_of_block(const RunSpec& s) {
  SectionCache cache(s);
  return cache.of(layout_of(s).key()).parts[1].saved.at(static_cast<double>(s.micro_batch()));
}

TEST(LayoutModel, ActivationsAreKorthikantis) {
  // Korthikanti 2022, table 2; each norm also keeps mean and variance of its rows.
  for (const int64_t b : {1, 4}) {
    RunSpec spec = gpt(4096, 8, 32, 2048);
    const double sbh = 2048.0 * static_cast<double>(b) * 4096, scores = 5.0 * 32 * 2048 / 4096, norms = 0.005;
    spec.policy.micro_batch = spec.train.global_batch = b;
    EXPECT_NEAR(saved_of_block(spec) / sbh, 34 + scores, norms);
    spec.layout.tp = 8;
    EXPECT_NEAR(saved_of_block(spec) / sbh, 10 + (24 + scores) / 8, norms);
    spec.policy.sequence_parallel = true;
    EXPECT_NEAR(saved_of_block(spec) / sbh, (34 + scores) / 8, norms);
    spec.policy.recompute = Recompute::selective;
    EXPECT_NEAR(saved_of_block(spec) / sbh, 32.0 / 8, norms);  // its result is also recomputed
    spec.policy.recompute = Recompute::full;
    EXPECT_NEAR(saved_of_block(spec) / sbh, 2.0 / 8, norms);
  }
}

TEST(LayoutModel, PartsWithoutExpertsDoNotDependOnTheirDivision) {
  SectionCache cache(load_run_spec(source_dir() + "/configs/models/deepseek-moe-16b.yaml", {}));
  const NetSections& whole = cache.of({.tp = 2, .sequence_parallel = true});
  for (const int64_t ep : {2, 64}) {
    const NetSections& divided = cache.of({.tp = 2, .sequence_parallel = true, .ep = ep});
    int without = 0;
    for (size_t i = 0; i < whole.parts.size(); ++i) {
      const PartSections &one = whole.parts[i], &other = divided.parts[i];
      if (other.parameters.expert > 0) continue;
      ++without;
      EXPECT_EQ(one.saved.at(3), other.saved.at(3));
      EXPECT_EQ(one.parameters.all(), other.parameters.all());
      for (const auto pass : {&PartSections::forward, &PartSections::backward}) {
        ASSERT_EQ((one.*pass).size(), (other.*pass).size());
        for (size_t o = 0; o < (one.*pass).size(); ++o) {
          const OpShape &a = (one.*pass)[o].two, &b = (other.*pass)[o].two;
          EXPECT_EQ(a.kind, b.kind);
          EXPECT_EQ(a.bytes, b.bytes);
          EXPECT_EQ(a.work.flops, b.work.flops);
          EXPECT_EQ(a.work.bytes_read, b.work.bytes_read);
        }
      }
    }
    EXPECT_EQ(without, 3) << "embedding, dense blocks, head";
  }
}

TEST(LayoutModel, BubblesAreNarayanans) {
  // Equal stages: (p - 1) / (m v) of the time of all micro-batches
  RunSpec spec = gpt(4096, 64, 32, 2048);
  spec.net.gpt().vocab_size = 128;
  spec.train.global_batch = 32;
  for (const auto& [p, v] : {std::pair<int64_t, int64_t>{4, 1}, {8, 1}, {4, 4}, {8, 2}}) {
    spec.layout = {.pp = p, .vpp = v};
    spec.policy.schedule = v > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_f_one_b;
    LayoutModel model(spec, test::cluster());
    const LayoutCost c = model.cost(layout_of(spec));
    const double all = c.compute + c.host + c.tp + c.slowdown;
    EXPECT_NEAR(c.bubble / all * 32 * static_cast<double>(v) / static_cast<double>(p - 1), 1, 0.02)
        << p << " " << v;
  }
}

TEST(LayoutModel, ShardsAreRajbhandaris) {
  // Bytes of an element (Rajbhandari 2020) with gradients in f32: 18; 6 + 12/n; 2 + 16/n; 18/n
  RunSpec spec = gpt(4096, 8, 32, 1024);
  spec.layout.dp = 8;
  spec.train.global_batch = 8;
  LayoutModel model(spec, test::cluster());
  Layout l = layout_of(spec);
  const double zero0 = model.cost(l).persistent;
  const double n = 8;
  for (const auto& [zero, bytes] : {std::pair<int, double>{1, 6 + 12 / n}, {2, 2 + 16 / n}, {3, 18 / n}}) {
    l.zero = static_cast<int8_t>(zero);
    EXPECT_NEAR(model.cost(l).persistent / zero0, bytes / 18, 1e-9) << zero;
  }
  spec.layout.dp = 1, spec.train.global_batch = 1;
  const plan::Plan plan = nets::build_plan(spec, 0, {});
  EXPECT_NEAR(zero0 / 18 / static_cast<double>(plan.parameter_count()), 1, 1e-4);
}

// Legal layouts of 64 ranks, with any policy
Layout random_layout(std::mt19937_64& random, const RunSpec& s) {
  for (;;) {
    Layout l{.tp = test::one_of(random, {1, 2, 4, 8}),
             .cp = test::one_of(random, {1, 1, 2, 4}),
             .pp = test::one_of(random, {1, 2, 4, 8})};
    if (64 % (l.tp * l.cp * l.pp) != 0) continue;
    l.dp = 64 / (l.tp * l.cp * l.pp);
    l.micro_batch = test::one_of(random, {1, 2, 4, 8});
    if (s.train.global_batch % (l.dp * l.micro_batch) != 0) continue;
    l.sequence_parallel = l.tp > 1 && random() % 2 == 0;
    l.recompute = static_cast<Recompute>(random() % 3);
    l.cp_kind = static_cast<CpKind>(l.cp > 1 ? random() % 3 : 0);
    l.zero = static_cast<int8_t>(random() % 4);
    l.order = static_cast<int8_t>(random() % rank_orders().size());
    const bool experts = s.net.kind() == "llama" && s.net.llama().has_experts();
    if (const int ep = test::one_of(random, {1, 2, 4, 8}); experts && l.dp * l.cp % ep == 0) l.ep = ep;
    if (l.cp_kind == CpKind::ulysses && s.net.words()->kv_heads() / l.tp % l.cp != 0) continue;
    const int64_t m = s.train.global_batch / (l.dp * l.micro_batch);
    if (l.pp > 1 && random() % 3 == 0 && m % l.pp == 0) l.schedule = PipelineSchedule::interleaved, l.vpp = 2;
    if (l.pp > 1 && l.vpp == 1 && l.recompute == Recompute::none && random() % 2 == 0)
      l.schedule = PipelineSchedule::zb_h1;
    return l;
  }
}

RunSpec random_net(std::mt19937_64& random) {
  RunSpec s;
  s.file = "random";
  s.net.set_kind(test::one_of<const char*>(random, {"gpt", "llama"}));
  WordsSpec& net = *s.net.words();
  net.num_heads = test::one_of<int64_t>(random, {8, 16, 64});
  net.embed_dim = net.num_heads * test::one_of<int64_t>(random, {32, 64, 128});
  if (s.net.kind() == "llama")
    net.num_kv_heads = 8, net.ffn_dim = 8 * test::one_of<int64_t>(random, {128, 512, 3584});
  if (s.net.kind() == "llama")
    s.net.llama().experts.num_experts = test::one_of<int64_t>(random, {0, 0, 8, 16});
  net.depth = test::one_of<int64_t>(random, {16, 32});
  net.seq_length = test::one_of<int64_t>(random, {512, 2048, 8192});
  net.vocab_size = test::one_of<int64_t>(random, {1000, 50257, 128256});
  s.policy.amp = test::one_of<Amp>(random, {Amp::none, Amp::tf32, Amp::bf16, Amp::fp8});
  s.layout.dp = 64;
  s.train.global_batch = test::one_of<int64_t>(random, {64, 512});
  return s;
}

TEST(LayoutModel, NeverExceedsTheCeilingIsMonotoneAndTheSameTwice) {
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 random(seed);
  const char* machines[] = {"dgx-a100", "dgx-h100", "dgx-b200", "gb200-nvl72", "frontier", "aurora"};
  // Coefficients of which less is never slower: bandwidths, rates, latencies
  const std::vector<Coef> prices{
      Coef::gemm_bf16, Coef::attention_bf16, Coef::norm,        Coef::gemm_bytes,      Coef::wire_host,
      Coef::wire_net,  Coef::message_host,   Coef::message_net, Coef::collective_call, Coef::op,
      Coef::host_op,   Coef::gemm_f32,       Coef::copy,        Coef::vector,          Coef::optimizer};
  int64_t done = 0;
  while (done < 50'000) {
    RunSpec spec = random_net(random);
    spec.policy.overlap = random() % 4 != 0;
    spec.policy.recompute_method =
        test::one_of<RecomputeMethod>(random, {RecomputeMethod::uniform, RecomputeMethod::block});
    spec.policy.recompute_num_layers = test::one_of<int64_t>(random, {1, 1, 2, 4});
    Machine m = test::cluster(machines[random() % std::size(machines)]);
    // At the physical limit, or above
    for (size_t i = 0; i < kCoefs; ++i) {
      double& v = m.coefficients[i].value;
      v = std::max(m.floor_of(i), v * std::exp(std::normal_distribution<double>(-0.5, 1)(random)));
    }
    LayoutModel model(spec, m), again(spec, m);
    std::vector<Layout> layouts;
    std::vector<double> seconds;
    for (int i = 0; i < 2000; ++i) {
      const Layout l = random_layout(random, spec);
      const LayoutCost c = model.cost(l);
      ASSERT_TRUE(std::isfinite(c.seconds) && std::isfinite(c.memory)) << text_of(l) << " seed " << seed;
      ASSERT_GE(c.seconds, c.ceiling * (1 - 1e-12)) << text_of(l) << " seed " << seed;
      if (i % 10 == 0) layouts.push_back(l), seconds.push_back(c.seconds);
      ++done;
    }
    Counts k = m.values();
    const Coef less = prices[random() % prices.size()];
    k[index_of(less)] *= 0.7;
    again.set_coefficients(m.values());
    for (size_t i = 0; i < layouts.size(); ++i)
      ASSERT_EQ(again.cost(layouts[i]).seconds, seconds[i]) << text_of(layouts[i]) << " seed " << seed;
    again.set_coefficients(k);
    for (size_t i = 0; i < layouts.size(); ++i)
      ASSERT_LE(again.cost(layouts[i]).seconds, seconds[i] * (1 + 1e-6))
          << info_of(less).name << " " << text_of(layouts[i]) << " seed " << seed;
  }
}

// Attention in fp32 may be three products in TF32, faster than the fp32 units.
TEST(LayoutModel, NeverExceedsTheCeilingOfAttentionInSinglePrecision) {
  Machine m = test::cluster("dgx-h100");
  for (size_t i = 0; i < kCoefs; ++i)
    if (info_of(i).peak) m.coefficients[i].value = m.floor_of(i);
  ASSERT_GT(m.peaks.at("tf32").value, 3 * m.peaks.at("f32").value);
  RunSpec spec = gpt(4096, 16, 32, 8192);
  spec.policy.attention = AttentionKind::flash;
  spec.policy.amp = Amp::none;
  const LayoutCost c = LayoutModel(spec, m).cost(layout_of(spec));
  EXPECT_GT(c.ceiling, 0);
  EXPECT_GE(c.seconds, c.ceiling);
}

// The groups of the pipeline's rank with the most, as its plan lists them: each is an NCCL communicator.
TEST(LayoutMemory, HasNcclsBuffersOfThePlansGroups) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  Machine m = test::cluster();
  ASSERT_TRUE(m.accelerator);
  m.accelerator->vendor = "nvidia";
  for (int several = 0; several < 60;) {
    RunSpec spec = random_net(random);
    const Layout l = random_layout(random, spec);
    const RunSpec s = with_layout(spec, l);
    try {
      const LayoutCost c = LayoutModel(spec, m).cost(l);
      size_t most = 0;
      for (const int rank : plan::group_of(s.layout, "pp", 0)) {
        const plan::Plan plan = nets::build_plan(s, rank, {});
        const auto tied = std::count_if(plan.groups.begin(), plan.groups.end(),
                                        [](const plan::Group& g) { return g.name == "embedding"; });
        most = std::max(most, plan.groups.size() - static_cast<size_t>(tied));
      }
      EXPECT_EQ(c.nccl, 24.0 * 9633792 * static_cast<double>(most)) << text_of(l);
      EXPECT_NEAR(c.memory, c.persistent + c.saved + c.scratch + c.process + c.nccl, 1e-6 * c.memory);
      several += l.world() > 1 ? 1 : 0;
      m.accelerator->vendor = "amd";
      EXPECT_EQ(LayoutModel(spec, m).cost(l).nccl, 0) << "another maker's library";
      m.accelerator->vendor = "nvidia";
    } catch (const ConfigError&) {  // a layout that the net cannot take
    }
  }
}

// Gaps of the closed form to the largest arena of a pipeline, 400 random layouts, smallest first
std::vector<double> memory_gaps(const std::vector<int>& zero, uint64_t seed, std::string& worst) {
  std::mt19937_64 random(seed);
  std::vector<double> gaps;
  while (gaps.size() < 400) {
    RunSpec spec = random_net(random);
    spec.policy.amp = test::one_of<Amp>(random, {Amp::bf16, Amp::fp8});
    spec.train.optimizer = test::one_of<OptimizerKind>(random, {OptimizerKind::adam, OptimizerKind::sgd});
    spec.policy.offload_optimizer = random() % 4 == 0;
    spec.policy.recompute_method =
        test::one_of<RecomputeMethod>(random, {RecomputeMethod::uniform, RecomputeMethod::block});
    spec.policy.recompute_num_layers = test::one_of<int64_t>(random, {1, 1, 2, 4});
    Layout l = random_layout(random, spec);
    l.zero = static_cast<int8_t>(l.dp * l.cp > 1 ? zero[random() % zero.size()] : 0);
    if (l.zero >= 2) spec.policy.offload_optimizer = false;  // its memory is known only roughly
    LayoutModel model(spec, test::cluster());
    const RunSpec s = with_layout(spec, l);
    try {
      const LayoutCost c = model.cost(l);
      int64_t arena = 0;
      for (const int rank : plan::group_of(s.layout, "pp", 0))
        arena = std::max(arena, nets::build_plan(s, rank, {}).memory.arena);
      gaps.push_back((c.memory - c.process - c.nccl) / static_cast<double>(arena) - 1);
      if (std::abs(gaps.back()) > 0.05)
        worst += std::to_string(100 * gaps.back()) + " %: " + s.net.kind() + " " + text_of(l) + " " +
                 name_of(s.policy.recompute_method) + std::to_string(s.policy.recompute_num_layers) + " " +
                 name_of(s.train.optimizer) + (s.policy.offload_optimizer ? " offload\n" : "\n");
    } catch (const ConfigError&) {  // a layout that the net cannot take
    }
  }
  std::sort(gaps.begin(), gaps.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  std::printf("memory: median gap %.2f %%, p90 %.2f %%\n", 100 * std::abs(gaps[200]),
              100 * std::abs(gaps[360]));
  return gaps;
}

TEST(LayoutModel, MemoryIsThatOfPlacedPlans) {
  const uint64_t seed = std::random_device{}();
  std::string worst;
  const std::vector<double> gaps = memory_gaps({0, 1}, seed, worst);
  EXPECT_LT(std::abs(gaps[200]), 0.005) << "seed " << seed << "\n" << worst;
  EXPECT_LT(std::abs(gaps[360]), 0.03) << "seed " << seed << "\n" << worst;
}

// Placement decides how gathered units share memory with scratch; a search places its finalists.
TEST(LayoutModel, MemoryIsRoughlyThatOfPlacedPlansWhereUnitsTravel) {
  const uint64_t seed = std::random_device{}();
  std::string worst;
  const std::vector<double> gaps = memory_gaps({2, 3}, seed, worst);
  EXPECT_LT(std::abs(gaps[200]), 0.05) << "seed " << seed << "\n" << worst;
  EXPECT_LT(std::abs(gaps[360]), 0.15) << "seed " << seed << "\n" << worst;
}

}  // namespace
}  // namespace isobar::perf
