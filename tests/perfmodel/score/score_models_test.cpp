// Counts of foreign engines against independent closed forms.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "perfmodel/fitting/statistics.h"
#include "perfmodel/score/counts/collective_model.h"
#include "perfmodel/score/counts/memory_model.h"
#include "perfmodel/score/counts/net_counts.h"
#include "perfmodel/score/prices/campaign_fit.h"
#include "perfmodel/score/scoreboard/metrics.h"
#include "perfmodel/step/collective.h"
#include "perfmodel/step/conditions.h"

namespace isobar::perf {
namespace {

struct Draw {
  explicit Draw(unsigned seed) : random(seed) {}
  double one_of(std::initializer_list<double> v) { return *(v.begin() + random() % v.size()); }
  PublishedRun run() {
    PublishedRun r;
    r.arch = random() % 2 ? Arch::gpt : Arch::llama;
    r.heads = one_of({16, 32, 64});
    r.kv_heads = r.arch == Arch::gpt ? r.heads : one_of({8, 16});
    r.head_dim = one_of({64, 96, 128});
    r.hidden = r.heads * r.head_dim;
    r.ffn = 4 * r.hidden;
    r.layers = one_of({16, 32, 48});
    r.vocab = one_of({32000, 51200, 128256});
    r.attended = r.seq = one_of({1024, 2048, 8192});
    r.gpu = chip_named(std::vector<std::string>{"A100-80GB", "H100", "B200", "V100"}[random() % 4]);
    r.precision = random() % 4 ? Precision::bf16 : Precision::fp8;
    r.tp = one_of({1, 2, 4, 8});
    r.pp = one_of({1, 2, 4, 8});
    r.dp = one_of({1, 2, 16, 64});
    r.gpus = r.tp * r.pp * r.dp;
    r.micro_batch = one_of({1, 2, 4});
    r.global_batch = r.dp * r.micro_batch * one_of({1, 2, 8, 32});
    r.zero = one_of({0, 1, 3});
    r.recompute = static_cast<Recompute>(random() % 3);
    r.attention = static_cast<AttentionKernel>(random() % 4);
    r.sequence_parallel = random() % 2;
    return r;
  }
  std::mt19937 random;
};

// Narayanan 2021: 96 B s L h^2 (1 + s / 6h + V / 16 L h) FLOPs with full recomputation.
TEST(StepModel, CountsTheFlopsOfNarayanan2021) {
  Draw draw(std::random_device{}());
  for (int i = 0; i < 200; ++i) {
    PublishedRun r = draw.run();
    r.arch = Arch::gpt;
    r.kv_heads = r.heads;
    r.tp = r.pp = 1;
    r.precision = Precision::bf16;
    r.recompute = Recompute::full;
    r.attention = AttentionKernel::unfused;
    const StepCounts c = count_step(r);
    const double rate = r.gpu->reached(Precision::bf16), tokens = r.micro_batch * r.seq;
    const NetCounts& n = count_net(r);
    const double bytes =
        n.first.forward.bytes + n.first.backward.bytes + n.last.forward.bytes + n.last.backward.bytes;
    const double head = c.vocabulary_s - r.micro_batch * bytes / r.gpu->memory_rate;
    const double counted = (r.layers * (c.gemm_s + c.scores_s) + head) * rate;
    const double h = r.hidden, L = r.layers;
    const double formula = 96 * tokens * L * h * h * (1 + r.seq / (6 * h) + r.vocab / (16 * L * h));
    EXPECT_NEAR(counted / formula, 1, 1e-9);
  }
}

// Korthikanti 2022: a layer keeps s b h (34 + 5 a s / h) bytes.
TEST(MemoryModel, KeepsTheActivationsOfKorthikanti2022) {
  Draw draw(std::random_device{}());
  for (int i = 0; i < 200; ++i) {
    PublishedRun r = draw.run();
    r.arch = Arch::gpt;
    r.kv_heads = r.heads;
    r.tp = 1;
    r.precision = Precision::bf16;
    r.recompute = Recompute::none;
    r.attention = AttentionKernel::unfused;
    const StageMemory s = count_memory(r).stages[0];
    const double sbh = r.seq * r.micro_batch * r.hidden;
    EXPECT_NEAR((s.stream + s.attention + s.ffn + s.scores) / (sbh * (34 + 5 * r.heads * r.seq / r.hidden)),
                1, 1e-9);
  }
}

// Transformer Engine's LayerNormLinear and LayerNormMLP: a product's operand is kept in 8 bits, what a norm,
// an attention or an activation reads in 16.
TEST(MemoryModel, EightBitProductsKeepTheirOperandsInEightBits) {
  Draw draw(std::random_device{}());
  int compared = 0;
  for (int i = 0; i < 200; ++i) {
    PublishedRun r = draw.run();
    r.precision = Precision::bf16;
    const StageMemory wide = count_memory(r).stages[0];
    r.precision = Precision::fp8;
    const StageMemory eight = count_memory(r).stages[0];
    if (r.autocast || wide.whole || r.recompute == Recompute::selective) continue;
    ++compared;
    const double tokens = r.micro_batch * r.seq / r.cp;
    EXPECT_NEAR(wide.stream - eight.stream, tokens * 2 * r.hidden / (r.sequence_parallel ? r.tp : 1),
                1e-9 * wide.stream);
    EXPECT_NEAR(eight.attention - wide.attention, tokens * r.heads * r.head_dim / r.tp,
                1e-9 * wide.attention);
    EXPECT_NEAR(wide.ffn - eight.ffn, tokens * r.ffn / r.tp, 1e-9 * wide.ffn);
  }
  EXPECT_GT(compared, 20);
}

TEST(StepModel, NothingIsFasterThanThePeakAndMoreBandwidthIsNeverSlower) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Draw draw(seed);
  for (int i = 0; i < 5000; ++i) {
    PublishedRun r = draw.run();
    const double base = step_seconds(count_step(r), spec_prices());
    ASSERT_TRUE(std::isfinite(base));
    ASSERT_GE(base, count_step(r).ceiling_s);
    ChipSpec better = *r.gpu;
    for (double* rate : {&better.link_rate, &better.nic_rate, &better.memory_rate, &better.half}) {
      const double before = *rate;
      *rate *= 2;
      r.gpu = &better;
      ASSERT_LE(step_seconds(count_step(r), spec_prices()), base * (1 + 1e-12));
      *rate = before;
    }
  }
}

// Traffic that computation hides costs by its bytes, whatever the network's rate; without overlap by its
// time.
TEST(StepModel, HiddenTrafficIsNotChargedByTheNetworksRate) {
  PublishedRun r;
  r.arch = Arch::llama;
  r.layers = 80;
  r.hidden = 8192;
  r.ffn = 28672;
  r.heads = 64;
  r.kv_heads = 8;
  r.head_dim = 128;
  r.vocab = 32000;
  r.seq = r.attended = 4096;
  r.gpu = chip_named("A100");
  r.gpus = r.dp = 128;
  r.micro_batch = 4;
  r.global_batch = 512;
  r.zero = 3;
  const auto seconds = [&](double nic, bool overlaps) {
    r.nic_rate = nic;
    r.habits.overlaps_gradients = overlaps;
    return step_seconds(count_step(r), spec_prices());
  };
  const double traffic = 3 * 2 * 80 * own_parameters(r).all() * 127 / 128 / 8;  // bytes of a NIC
  const double nic = spec_prices()[index_of(Price::zero3_nic)];
  const double slower = nic * traffic * (1 / 6.25e9 - 1 / 25e9);
  EXPECT_LT(seconds(6.25e9, true) / seconds(25e9, true), 1.03);
  EXPECT_NEAR((seconds(6.25e9, false) - seconds(25e9, false)) / slower, 1, 0.05);
  EXPECT_GT(seconds(0.5e9, true), nic * traffic / 0.5e9);  // nothing hides what is longer
}

TEST(Metrics, AgreeWithTheirDefinitions) {
  Draw draw(std::random_device{}());
  std::normal_distribution<double> normal;
  std::vector<ScoredRow> rows;
  double mape = 0, bias = 0, inside = 0;
  for (int i = 0; i < 40; ++i) {
    ScoredRow r{"r", i < 20 ? "a" : "b", std::exp(normal(draw.random)), std::exp(normal(draw.random)), 0.5,
                2};
    mape += std::abs(r.predicted - r.measured) / r.measured / 40;
    bias += (r.predicted - r.measured) / r.measured / 40;
    inside += r.measured >= 0.5 && r.measured <= 2 ? 1.0 / 40 : 0;
    rows.push_back(r);
  }
  const Scores s = score_rows(rows);
  EXPECT_NEAR(s.mape, mape, 1e-12);
  EXPECT_NEAR(s.bias, bias, 1e-12);
  EXPECT_NEAR(s.coverage, inside, 1e-12);
  double rank = 0, regret = 0;
  for (size_t g = 0; g < 2; ++g) {  // without ties: 1 - 6 sum d^2 / n (n^2 - 1)
    double d2 = 0, best = 1e9, chosen = 0, least = 1e9;
    for (size_t i = 20 * g; i < 20 * g + 20; ++i) {
      double x = 0, y = 0;
      for (size_t k = 20 * g; k < 20 * g + 20; ++k) {
        x += rows[k].measured < rows[i].measured;
        y += rows[k].predicted < rows[i].predicted;
      }
      d2 += (x - y) * (x - y);
      best = std::min(best, rows[i].measured);
      if (rows[i].predicted < least) {
        least = rows[i].predicted;
        chosen = rows[i].measured;
      }
    }
    rank += 0.5 * (1 - 6 * d2 / (20 * 399));
    regret += 0.5 * (chosen / best - 1);
  }
  EXPECT_NEAR(*s.spearman, rank, 1e-12);
  EXPECT_NEAR(*s.regret, regret, 1e-12);
  EXPECT_FALSE(score_rows({rows.begin(), rows.begin() + 4}).regret.has_value());
  // A lucky repetition is no better choice: the first row again, once faster and once slower by a factor.
  std::vector<ScoredRow> repeated = rows;
  repeated[0].choice = "first";
  for (const double factor : {0.1, 10.0}) {
    repeated.push_back(repeated[0]);
    repeated.back().measured *= factor;
  }
  EXPECT_NEAR(*score_rows(repeated).regret, regret, 1e-12);
  EXPECT_NEAR(*score_rows(repeated).spearman, rank, 1e-12);
  EXPECT_NEAR(spearman({1, 1, 2}, {1, 1, 2}), 1, 1e-12);  // ties share a rank
}

// Predictor and scoreboard share the counts of collectives.
TEST(Collectives, AreCountedForTheScoreboardAsForThePredictor) {
  const CollectiveTable t = collectives_from(
      parse_csv("collective,bytes,nodes,gpus,gpu_type,time_us\nallgather,1e9,4,32,A100,5000\n"
                "allgather,1e9,1,8,A100,5000\nreducescatter,1e6,16,16,A100,90\n",
                "made.csv"));
  ASSERT_EQ(t.runs.size(), 3u);
  const ChipSpec& chip = *chip_named("A100");
  for (const CollectiveRun& r : t.runs) {
    const CollectiveCounts c = count_collective(
        r.collective == "allgather" ? plan::OpKind::all_gather : plan::OpKind::reduce_scatter, r.bytes, 4,
        {r.ranks, r.ranks / r.nodes}, Counts{}, Conditions{.processors = 108});
    EXPECT_DOUBLE_EQ(r.traffic.ring_link_s * chip.link_rate, c.wire_host);
    EXPECT_DOUBLE_EQ(r.traffic.ring_nic_s * chip.nic_rate, c.wire_net);
    EXPECT_EQ(r.traffic.near_hops, c.message_host);
    EXPECT_EQ(r.traffic.far_hops, c.message_net);
    EXPECT_GT(c.wire_host + c.wire_net, 0);
  }
}

}  // namespace
}  // namespace isobar::perf
