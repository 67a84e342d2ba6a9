// The closed form of searches against the replay of linked plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "model/base/error.h"
#include "model/nets/layout/busiest_rank.h"
#include "model/nets/layout/legal_layout.h"
#include "perfmodel/ask/search.h"
#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/step/simulate.h"
#include "tests/perfmodel/support.h"
#include "tests/stages.h"

namespace isobar::perf {
namespace {

// A random net, layout and policy that can be planned, small enough to be replayed.
RunSpec random_spec(std::mt19937_64& random, const std::vector<const char*>& kinds) {
  RunSpec s;
  s.file = "random";
  std::string kind = kinds[random() % kinds.size()];
  const bool rolls = kind == "rolled-out vit", adapts = kind.starts_with("adapted "),
             replays = kind.starts_with("replayed ");
  if (rolls) kind = "vit";
  const bool cut = kind.rfind("cut ", 0) == 0, masked = kind.starts_with("masked ");
  if (masked) s.data.train = "fields.nc", s.data.mask = "missing";
  const bool mixed = kind.starts_with("mixed ");
  if (adapts || cut || masked || replays || mixed) kind.erase(0, kind.find(' ') + 1);
  const auto heads = test::one_of<int64_t>(random, {32, 64});
  const int64_t width = heads * test::one_of<int64_t>(random, {64, 128});
  const auto depth = test::one_of<int64_t>(random, {8, 12, 16});
  s.net.set_kind(kind);
  if (WordsSpec* net = s.net.words()) {
    net->num_heads = heads, net->embed_dim = width, net->depth = depth;
    net->seq_length = test::one_of<int64_t>(random, {1024, 2048, 4096});
    net->vocab_size = 32000;
    if (kind == "llama") net->num_kv_heads = heads / 2, net->ffn_dim = 3 * width;
    if (kind == "gpt") net->tie_embeddings = random() % 2, net->dropout = test::one_of(random, {0.0, 0.1});
    if (mixed) {
      ExpertsSpec& experts = s.net.llama().experts;
      experts.num_experts = test::one_of<int64_t>(random, {8, 64});
      experts.num_experts_per_tok = test::one_of<int64_t>(random, {1, 2, 6});
      experts.num_shared_experts = test::one_of<int64_t>(random, {0, 2});
      experts.expert_ffn_dim = test::one_of<int64_t>(random, {1024, 3072});
      experts.first_k_dense_replace = test::one_of<int64_t>(random, {0, 1, 4});
      experts.expert_imbalance = std::min(test::one_of(random, {0.0, 1.3, 4.0}), experts.most_uneven());
    }
  } else if (kind == "mlp") {
    MlpSpec& mlp = s.net.mlp();
    const auto narrow = test::one_of<int64_t>(random, {64, 512, 4096});
    mlp.hidden.assign(static_cast<size_t>(depth), narrow);
    if (random() % 2 == 0)  // an hourglass
      for (size_t i = mlp.hidden.size() / 3; i < mlp.hidden.size() / 2; ++i) mlp.hidden[i] = narrow / 2;
  } else if (kind == "regional-gnn") {
    RegionalGnnSpec& graph = s.net.regional_gnn();
    graph.latent_size = graph.mlp_hidden_size = test::one_of<int64_t>(random, {64, 256, 512});
    graph.num_gnn_layers = depth;
    graph.mlp_num_hidden_layers = test::one_of<int64_t>(random, {1, 2});
  } else if (kind == "aurora") {
    AuroraSpec& aurora = s.net.aurora();
    aurora.img_height = 96, aurora.img_width = 192, aurora.spacing = 1.5;
    aurora.embed_dim = test::one_of<int64_t>(random, {64, 256, 512});
    aurora.encoder_num_heads = {8, 16, 32};
    aurora.encoder_depths = {2, test::one_of<int64_t>(random, {2, 6}), 2};
    aurora.decoder_depths = aurora.encoder_depths;
    aurora.drop_path = test::one_of<double>(random, {0, 0.2});
    aurora.fp32_ends = random() % 2 == 0;
  } else if (kind == "swin") {
    SwinSpec& swin = s.net.swin();
    swin.img_height = 96, swin.img_width = 192, swin.patch_size = test::one_of<int64_t>(random, {2, 4});
    swin.embed_dim = test::one_of<int64_t>(random, {64, 256, 512});
    swin.encoder_num_heads = {8, 16, 32};
    swin.encoder_depths = {2, test::one_of<int64_t>(random, {2, 6}), 2};
    swin.decoder_depths = {2, 2, test::one_of<int64_t>(random, {1, 2})};
    swin.window = {test::one_of<int64_t>(random, {6, 7}), 12};
    swin.periodic = random() % 2 == 0, swin.relative_position_bias = random() % 4 != 0;
  } else if (kind == "graphcast") {
    GraphcastSpec& globe = s.net.graphcast();
    globe.img_height = 181, globe.img_width = 360,
    globe.mesh_level = test::one_of<int64_t>(random, {3, 4, 5});
    globe.latent_size = globe.mlp_hidden_size = test::one_of<int64_t>(random, {64, 256, 512});
    globe.num_gnn_layers = depth;
  } else if (kind == "unet") {
    UnetSpec& unet = s.net.unet();
    unet.num_heads = heads / 2, unet.embed_dim = width / 2;
    unet.encoder_depth = test::one_of<int64_t>(random, {1, 2, 4});
    unet.bottleneck_depth = test::one_of<int64_t>(random, {2, 6, 8});
    unet.decoder_depth = test::one_of<int64_t>(random, {1, 2, 3});
    unet.img_height = 256, unet.img_width = 512;
  } else {
    VitSpec& vit = s.net.vit();
    vit.num_heads = heads, vit.embed_dim = width, vit.depth = depth;
    vit.img_height = 256, vit.img_width = 512;
  }
  s.layout.tp = test::one_of<int64_t>(random, {1, 2, 4, 8});
  s.layout.cp = test::one_of<int64_t>(random, {1, 1, 2, 4});
  s.layout.pp = test::one_of<int64_t>(random, {1, 1, 2, 4});
  s.layout.dp = test::one_of<int64_t>(random, {1, 2, 8});
  if (const auto ep = test::one_of<int64_t>(random, {1, 2, 4, 8});
      mixed && s.layout.dp * s.layout.cp % ep == 0)
    s.layout.ep = ep;
  s.layout.order = test::one_of<const char*>(random, {"tp-cp-dp-pp", "tp-cp-pp-dp", "dp-tp-cp-pp"});
  s.policy.amp = Amp::bf16;
  s.policy.micro_batch = test::one_of<int64_t>(random, {1, 2, 4});
  const int64_t m = test::one_of<int64_t>(random, {4, 8, 12});
  s.train.global_batch = s.layout.dp * s.policy.micro_batch * m;
  s.policy.sequence_parallel = random() % 2;
  s.policy.recompute =
      test::one_of<Recompute>(random, {Recompute::none, Recompute::selective, Recompute::full});
  if (s.policy.recompute == Recompute::full && random() % 2 == 0) {
    s.policy.recompute_method =
        test::one_of<RecomputeMethod>(random, {RecomputeMethod::uniform, RecomputeMethod::block});
    s.policy.recompute_num_layers = test::one_of<int64_t>(random, {1, 2, 3});
  }
  if (kind == "regional-gnn" || kind == "graphcast")
    s.policy.sequence_parallel = false, (cut ? s.layout.pp : s.layout.tp) = 1;
  if (kind == "aurora" || kind == "swin") s.policy.sequence_parallel = false;
  if (kind == "mlp") {  // which nothing else cuts; a sample is a row
    s.layout.tp = s.layout.cp = 1;
    s.policy.sequence_parallel = false;
    s.policy.micro_batch *= test::one_of<int64_t>(random, {64, 1024, 16384});
    s.train.global_batch = s.layout.dp * s.policy.micro_batch * m;
  }
  s.train.optimizer =
      test::one_of<OptimizerKind>(random, {OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::sgd});
  s.policy.offload_optimizer = random() % 12 == 0;
  s.policy.cp_kind = test::one_of<CpKind>(random, {CpKind::allgather, CpKind::ring, CpKind::ulysses});
  if (kind == "aurora" || kind == "swin") s.policy.cp_kind = CpKind::allgather;
  s.policy.overlap = random() % 4 != 0;
  if (s.net.words() && s.layout.cp == 1 && random() % 3 == 0) s.policy.attention = AttentionKind::unfused;
  // Loaders keep up: waits for them are tested elsewhere.
  if (Images* images = s.net.images(); images && kind != "aurora")
    images->in_channels = images->out_channels = 2;
  s.data.workers = 16;
  if (s.layout.pp > 1) {
    s.policy.schedule = test::one_of<PipelineSchedule>(
        random, {PipelineSchedule::one_f_one_b, PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe,
                 PipelineSchedule::interleaved, PipelineSchedule::zb_h1});
    if (s.policy.schedule == PipelineSchedule::interleaved) s.layout.vpp = 2;
    if (s.policy.schedule == PipelineSchedule::zb_h1) s.policy.recompute = Recompute::none;
  }
  if (adapts) {
    if (random() % 8 == 0) s.train.ema = 0.999;
    s.policy.offload_parameters = random() % 12 == 0;  // at ZeRO stage 3
    s.train.lora_rank = test::one_of<int64_t>(random, {4, 16, 64});
    s.train.lora_targets = {test::one_of<const char*>(random, {"blocks.*.attn", "blocks.*", "*.mlp.fc1"})};
    if (random() % 3 == 0) s.train.freeze = {"blocks.*.attn", "*norm1"};
    if (random() % 4 == 0) {
      s.train.lora_rank = 0, s.train.lora_targets.clear();
      s.train.freeze = {"blocks.*.mlp"};
    }
  }
  if (rolls) {
    s.train.rollout = test::one_of<int64_t>(random, {2, 3, 4, 8});
    s.train.rollout_gradient =
        test::one_of<RolloutGradient>(random, {RolloutGradient::all, RolloutGradient::last});
    s.train.prediction =
        test::one_of<PredictionKind>(random, {PredictionKind::state, PredictionKind::increment});
    s.policy.schedule =
        test::one_of<PipelineSchedule>(random, {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe});
    s.layout.vpp = 1;
  }
  if (replays) {  // one micro-batch, whose prediction returns to the first stage
    s.train.replay_capacity = 50;
    s.train.global_batch = s.layout.dp * s.policy.micro_batch;
    if (s.layout.pp > 1)
      s.policy.schedule = test::one_of<PipelineSchedule>(
          random, {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe, PipelineSchedule::zb_h1});
    if (s.policy.schedule == PipelineSchedule::zb_h1) s.policy.recompute = Recompute::none;
    s.layout.vpp = 1;
  }
  // Roll-outs over unequal stages are not priced by events, so their gaps are larger.
  if (s.layout.pp > 1 && random() % (rolls ? 8 : 3) == 0)
    s.layout.stages =
        test::random_stages(random, nets::limits_of(s.net).inner_parts, s.layout.pp * s.layout.vpp);
  return s;
}

double replayed(const RunSpec& s, const Machine& m) {
  const Conditions where = conditions_of(*m.accelerator, s.layout.world(), s.layout.pp);
  return simulate(s, nets::stages_of(s, {}, nets::busiest_rank(s)), m.values(), where,
                  std::numeric_limits<double>::infinity())
      .step_s;
}

struct Gap {
  double size;  // closed form / replay - 1
  std::string what;
};

// Gaps of `wanted` random layouts, smallest first
std::vector<Gap> gaps_of(int wanted, const std::vector<const char*>& kinds, const std::vector<int64_t>& zero,
                         uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Gap> gaps;
  while (static_cast<int>(gaps.size()) < wanted) {
    RunSpec s = random_spec(random, kinds);
    if (s.layout.dp * s.layout.cp > 1) s.policy.zero = zero[random() % zero.size()];
    s.policy.offload_parameters &= s.policy.zero == 3;
    const Machine m = test::cluster(test::one_of<const char*>(random, {"dgx-a100", "dgx-h100", "frontier"}));
    try {
      const double replay = replayed(s, m);
      LayoutModel model(s, m);
      const double closed = model.cost(layout_of(s)).seconds;
      gaps.push_back({closed / replay - 1, s.net.kind() + " on " + m.name + " " + text_of(layout_of(s)) +
                                               ", m " + std::to_string(s.micro_batches())});
    } catch (const ConfigError&) {  // a layout that the net cannot take
    }
  }
  std::sort(gaps.begin(), gaps.end(),
            [](const Gap& a, const Gap& b) { return std::abs(a.size) < std::abs(b.size); });
  return gaps;
}

void expect_agreement(const std::vector<const char*>& kinds, int draws, const std::vector<int64_t>& zero,
                      double median, double p95) {
  const char* asked = std::getenv("ISOBAR_GAPS");  // number of layouts
  const char* fixed = std::getenv("ISOBAR_GAPS_SEED");
  const uint64_t seed = fixed ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
  const std::vector<Gap> gaps = gaps_of(asked ? std::atoi(asked) : draws, kinds, zero, seed);
  const auto at = [&](double share) {
    return std::abs(gaps[static_cast<size_t>(share * static_cast<double>(gaps.size() - 1))].size);
  };
  if (std::getenv("ISOBAR_GAPS_ALL"))
    for (const Gap& g : gaps) std::printf("GAP %.4f %s\n", g.size, g.what.c_str());
  std::printf("gap of closed form and replay: median %.2f %%, p95 %.2f %%, worst %.2f %%\n", 100 * at(0.5),
              100 * at(0.95), 100 * at(1));
  std::string worst;
  for (size_t i = gaps.size() - std::min<size_t>(gaps.size(), 12); i < gaps.size(); ++i)
    worst += std::to_string(100 * gaps[i].size) + " %: " + gaps[i].what + "\n";
  EXPECT_LT(at(0.5), median) << "seed " << seed << "\n" << worst;
  EXPECT_LT(at(0.95), p95) << "seed " << seed << "\n" << worst;
}

TEST(ClosedFormAndReplay, AgreeOnRandomLayouts) {
  // Targets are 2 % and 5 %. The p95 of draws of 1,000 varies around 4.8 % with a standard error of 0.3
  // points, of which four fit below the bound. ISOBAR_GAPS=n asks for more.
  expect_agreement({"gpt", "llama", "vit"}, 700, {0, 1, 2, 3}, 0.02, 0.06);
}

// Pipelines of these are priced by events (pipeline_events.h). Typical: median 1.0 %, p95 8 %.
TEST(ClosedFormAndReplay, AgreeOnANetOfUnequalPartsWithASkip) {
  expect_agreement({"unet"}, 350, {0, 1, 2, 3}, 0.02, 0.12);
}

// Small nets wait for the host and for many small transfers. Typical: median 1.2 %, p95 8.5 %.
TEST(ClosedFormAndReplay, AgreeOnNetsOfLinearsAlone) {
  expect_agreement({"mlp"}, 600, {0, 1, 2, 3}, 0.03, 0.13);
}

TEST(ClosedFormAndReplay, AgreeOnRollOuts) {
  expect_agreement({"rolled-out vit"}, 200, {0, 1, 2, 3}, 0.03, 0.15);
}

TEST(ClosedFormAndReplay, AgreeOnReplayBuffers) {
  expect_agreement({"replayed vit", "replayed unet"}, 300, {0, 1, 2, 3}, 0.03, 0.15);
}

TEST(ClosedFormAndReplay, AgreeOnFieldsThatAreMissingInPart) {
  expect_agreement({"masked vit", "masked unet"}, 200, {0, 1, 2, 3}, 0.03, 0.15);
}

// Frozen weights are only read and gathered by ZeRO 3; some runs have a moving average, some offloaded
// parameters. Typical: median 0.7 %, p95 6 to 9 %.
TEST(ClosedFormAndReplay, AgreeOnAdaptersAndFrozenParts) {
  expect_agreement({"adapted gpt", "adapted llama", "adapted vit"}, 250, {0, 1, 2, 3}, 0.02, 0.12);
}

// Blocks with and without experts, routers whose gradients are summed over tensor parallelism
TEST(ClosedFormAndReplay, AgreeOnExperts) {
  expect_agreement({"mixed llama"}, 200, {0, 1, 2, 3}, 0.02, 0.12);
}

// In a recomputing pipeline the closed form is too slow by a tenth: it makes recomputation wait for the
// gradient, which only later ops need. Typical: median 0.5 %, p95 8 %.
TEST(ClosedFormAndReplay, AgreeOnGraphNetworks) {
  expect_agreement({"regional-gnn"}, 250, {0, 1, 2, 3}, 0.02, 0.12);
}

// MLPs cut by tensor parallelism, without pipelines. Typical: p95 0.8 %.
TEST(ClosedFormAndReplay, AgreeOnGraphNetworksWhoseMlpsAreCut) {
  expect_agreement({"cut regional-gnn", "cut graphcast"}, 200, {0, 1, 2, 3}, 0.01, 0.05);
}

// The grid's stream bypasses all steps, from encode to decode, which weigh more than many steps. Typical:
// median 0.3 %, p95 9 %.
TEST(ClosedFormAndReplay, AgreeOnGraphcast) {
  expect_agreement({"graphcast"}, 200, {0, 1, 2, 3}, 0.02, 0.14);
}

// Stages of three widths and 60 unequal parts. Typical: median 1.0 %, p95 6 %.
TEST(ClosedFormAndReplay, AgreeOnAurora) {
  expect_agreement({"aurora"}, 200, {0, 1, 2, 3}, 0.02, 0.1);
}

// Windows of up to twelve shapes a block, each a few small ops. Typical: median 1.7 %, p95 8.5 %.
TEST(ClosedFormAndReplay, AgreeOnSwins) {
  expect_agreement({"swin"}, 200, {0, 1, 2, 3}, 0.025, 0.12);
}

}  // namespace
}  // namespace isobar::perf
