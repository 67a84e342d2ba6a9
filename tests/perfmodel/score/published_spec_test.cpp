// A table's row counted for other engines (to which `isobar score` fits prices) and as a run of Isobar's.
#include "perfmodel/score/published/published_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "model/base/error.h"
#include "model/base/spec/settings_of_others.h"
#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/score/counts/net_counts.h"
#include "perfmodel/score/counts/step_model.h"
#include "perfmodel/score/scoreboard/referee.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

const std::string kConfigs = source_dir() + "/configs/";

/// Random rows of the shipped tables that our plans can express.
std::vector<std::pair<PublishedRun, RunSpec>> plannable_rows(size_t most, std::mt19937& random) {
  std::vector<PublishedRun> runs;
  for (const PublishedTable& t : load_library(kConfigs + "published"))
    runs.insert(runs.end(), t.runs.begin(), t.runs.end());
  std::shuffle(runs.begin(), runs.end(), random);
  std::vector<std::pair<PublishedRun, RunSpec>> out;
  for (const PublishedRun& r : runs) {
    if (out.size() == most) break;
    // PyTorch recomputes whole blocks, our plans all but the last product, and some engines every second
    // product. Frozen weights, fp8 heads and head widths other than hidden / heads are not in our plans.
    const bool operators = r.recompute == Recompute::selective && r.habits.selective_operators;
    if (r.recompute == Recompute::full || operators || r.frozen_weights || r.precision > Precision::bf16 ||
        r.head_dim * r.heads != r.hidden || r.short_end_stages || r.balanced_embedding)
      continue;
    try {
      out.emplace_back(r, spec_of(r));
    } catch (const ConfigError&) {  // not expressible; enough rows remain, below
    }
  }
  return out;
}

TEST(PublishedSpec, ClosedFormsCountTheFlopsOfThePlan) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto rows = plannable_rows(200, random);
  // Flash kernels pad heads to a multiple of 32; plans count the net's size.
  std::erase_if(rows, [](const auto& r) { return std::fmod(r.first.head_dim, 32) != 0; });
  const Machine machine = load_machine(kConfigs + "machines/dgx-a100.yaml");
  ASSERT_GE(rows.size(), 40U);
  rows.resize(40);
  for (const auto& [r, spec] : rows) {
    const StepCounts c = count_step(r);
    const double ranks = r.dp * r.tp * r.cp, wide = r.gpu->peak(r.precision);
    const double matrices = c.ceiling_s * wide * r.pp * ranks;
    const double attention =
        (is_fused(r.attention) ? c.attention_s * wide : c.scores_s * r.gpu->reached(r.precision)) *
        r.micro_batches() * r.layers * ranks;
    LayoutModel model(without_settings_of_others(spec), machine);
    const LayoutCost plan = model.cost(layout_of(spec));
    EXPECT_NEAR((matrices + attention) / plan.flops, 1, 0.01) << r.id << " " << r.layout();
  }
}

/// Parameters of a block's matrices, from its sizes.
double matrices_of(const PublishedRun& r) {
  const double kinds = r.arch == Arch::llama ? 3 : 2, moe = r.experts > 0 ? 1 - r.dense_layers / r.layers : 0;
  const LatentSpec& l = r.latent;
  const double attention = !l.any()
                               ? r.hidden * 2 * (r.heads + r.kv_heads) * r.head_dim
                               : static_cast<double>(l.q_lora_rank) * (r.hidden + r.heads * l.qk_head_dim()) +
                                     static_cast<double>(l.kv_lora_rank) *
                                         (r.hidden + r.heads * (l.qk_nope_head_dim + l.v_head_dim)) +
                                     r.hidden * (l.qk_rope_head_dim + r.heads * l.v_head_dim);
  return attention +
         kinds * r.hidden * ((1 - moe) * r.ffn + moe * (r.experts + r.shared_experts) * r.expert_ffn);
}

TEST(PublishedSpec, ParametersOfBlocksAreThoseOfTheirMatrices) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (auto [r, spec] : plannable_rows(40, random)) {
    r.tp = r.ep = 1;  // cut latents stay whole
    EXPECT_NEAR(own_parameters(r).all() / matrices_of(r), 1, 0.01) << r.id;
    EXPECT_GE(own_parameters(r).all(), matrices_of(r)) << r.id;  // with biases and norms
  }
}

// Published rows of experts are few that plans express: random ones are more.
TEST(PublishedSpec, ClosedFormsCountTheExpertsOfThePlan) {
  std::mt19937 random(std::random_device{}());
  const auto one_of = [&](std::initializer_list<double> v) { return *(v.begin() + random() % v.size()); };
  const Machine machine = load_machine(kConfigs + "machines/dgx-h100.yaml");
  const ChipSpec chip = chip_of(machine);
  for (int i = 0; i < 10; ++i) {
    PublishedRun r;
    r.arch = Arch::llama;
    r.layers = one_of({4, 8});
    r.heads = r.kv_heads = 16;
    r.head_dim = 64;
    r.hidden = 1024;
    r.ffn = 4096;
    r.vocab = 32000;
    r.seq = r.attended = 2048;
    r.gpu = &chip;
    r.experts = one_of({8, 16});
    r.top_k = one_of({1, 2, 4});
    r.expert_ffn = one_of({512, 1024});
    r.shared_experts = one_of({0, 1, 2});
    r.dense_layers = one_of({0, 1});
    if (one_of({0, 1}) > 0) r.latent = {256, 384, 64, 32, 64}, r.head_dim = latent_head_dim(r.latent);
    r.tp = one_of({1, 2});
    r.dp = one_of({1, 4});
    r.ep = r.dp > 1 ? one_of({1, 2, 4}) : 1;
    r.gpus = r.tp * r.dp;
    r.micro_batch = 1;
    r.global_batch = 8;
    r.zero = 0;
    const RunSpec spec = spec_of(r);
    const PublishedRun back = run_of(spec, machine, chip, r.habits);
    EXPECT_EQ(back.ep, r.ep);
    EXPECT_DOUBLE_EQ(count_step(back).expert_s, count_step(r).expert_s);
    EXPECT_DOUBLE_EQ(count_step(back).gemm_s, count_step(r).gemm_s);
    LayoutModel model(spec, machine);
    const double ceiling = count_step(r).ceiling_s * chip.peak(r.precision) * r.tp * r.dp;
    // Kernels pad values to the width of queries.
    const double width = r.latent.any() ? r.heads * 96 : r.hidden;
    const double attention = 3.5 * 4 * 0.5 * r.global_batch * r.seq * r.seq * width * r.layers;
    EXPECT_NEAR((ceiling + attention) / model.cost(layout_of(spec)).flops, 1, 0.01) << r.layout();
  }
}

}  // namespace
}  // namespace isobar::perf
