#include "perfmodel/step/cost.h"
#include "perfmodel/fitting/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/nets/graph/partition.h"
#include "support.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

std::vector<RunSpec> random_specs(int n, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_of = [&](auto... v) {
    const std::vector<int64_t> values{v...};
    return values[random() % values.size()];
  };
  std::vector<RunSpec> out;
  while (static_cast<int>(out.size()) < n) {
    RunSpec s = test::tiny();
    s.net.vit().depth = one_of(1, 2, 5, 8);
    s.net.vit().embed_dim = one_of(32, 64, 128, 256);
    s.net.vit().num_heads = one_of(2, 4);
    s.net.vit().patch_size = one_of(4, 8, 16);
    s.layout.dp = one_of(1, 2, 4);
    s.train.global_batch = s.layout.dp * one_of(1, 2, 4, 8);
    s.policy.micro_batch = 1 + static_cast<int64_t>(random() % 2) * (s.train.global_batch / s.layout.dp - 1);
    s.policy.amp = random() % 2 ? Amp::bf16 : Amp::none;
    s.policy.overlap = random() % 4 != 0;
    s.policy.bucket_mb = 0.02 * static_cast<double>(one_of(1, 10, 100));
    s.data.workers = one_of(0, 1, 2, 4);
    s.data.prefetch = one_of(1, 2, 3);
    s.run.serial = random() % 8 == 0;
    s.run.threads = one_of(0, 1, 2);
    validate(s);
    out.push_back(s);
  }
  return out;
}

// Closed form and replay share only prices; each computes synchronisation of lanes, arrival of data and waits
// on its own.
TEST(ClosedFormAndReplay, AgreeOnCores) {
  std::mt19937_64 random(20);
  std::vector<double> gaps;
  for (const RunSpec& s : random_specs(300, 1)) {
    const Machine m = test::perturbed(test::machine(), 0.5, random);
    const double fast = test::closed(s, m), full = test::replay(s, m).step_s;
    gaps.push_back(std::abs(fast / full - 1));
    EXPECT_LT(gaps.back(), 0.10) << to_json(s).dump() << "\nclosed " << fast << " replay " << full;
  }
  EXPECT_LT(quantile(gaps, 0.5), 0.005);
  EXPECT_LT(quantile(gaps, 0.95), 0.05);
}

TEST(ClosedFormAndReplay, AreNearlyEqualWithoutOverlap) {
  for (RunSpec s : random_specs(40, 2)) {
    s.layout.dp = 1;
    s.data.workers = 0;
    s.train.global_batch = 4;
    s.policy.micro_batch = 2;
    EXPECT_NEAR(test::closed(s, test::machine()) / test::replay(s, test::machine()).step_s, 1, 1e-3);
  }
}

TEST(Replay, SpansKeepLaneOrderAndWaits) {
  RunSpec s = test::tiny();
  s.layout.dp = 2;
  s.policy.micro_batch = 2;
  s.policy.bucket_mb = 0.5;
  s.data.workers = 1;
  const Machine m = test::machine();
  const plan::Plan plan = nets::build_plan(s, 0, {});
  const plan::Program program = plan::link(plan, plan.train);
  const Replay r = simulate(s, plan, program, m.values(), test::conditions(s, m), 1e6);
  ASSERT_EQ(r.timeline.spans.size(), program.instrs.size());
  std::vector<const trace::Span*> by_instr(program.instrs.size(), nullptr);
  for (const trace::Span& span : r.timeline.spans) by_instr.at(span.instr) = &span;
  std::array<int64_t, plan::kLanes> lane_end{};
  int64_t beside = 0;  // collectives that end during compute
  for (size_t i = 0; i < by_instr.size(); ++i) {
    ASSERT_TRUE(by_instr[i]) << i;
    const trace::Span& span = *by_instr[i];
    EXPECT_LE(span.begin_ns, span.end_ns);
    EXPECT_GE(span.begin_ns, lane_end[static_cast<size_t>(span.lane)]);
    lane_end[static_cast<size_t>(span.lane)] = span.end_ns;
    for (int32_t w : program.instrs[i].waits) EXPECT_GE(span.begin_ns, by_instr[w]->end_ns);
    if (span.lane == plan::Lane::dp) ++beside;
  }
  EXPECT_GT(beside, 2);
  EXPECT_LE(*std::max_element(lane_end.begin(), lane_end.end()), r.timeline.steps.at(0).end_ns);
}

// Independent arithmetic: closed-form FLOPs of a ViT's step.
TEST(Terms, MatrixFlopsAreThoseOfTheTextbook) {
  RunSpec s = test::tiny();
  s.policy.micro_batch = 2;
  const VitSpec& net = s.net.vit();
  const double N = static_cast<double>(net.tokens()), D = static_cast<double>(net.embed_dim);
  const double P = static_cast<double>(net.in_channels * net.patch_size * net.patch_size);
  const double L = static_cast<double>(net.depth), B = static_cast<double>(s.train.global_batch);
  const double linear = B * N * (L * 24 * D * D + 4 * P * D);  // forward: blocks, patch embedding and head
  const double gemm = 3 * linear - B * N * 2 * P * D;          // without the image's gradient
  const double product = 2 * B * N * N * D * L;
  const HostShare alone{.ranks_on_host = 1, .threads = 1};
  const Counts n = test::counted(s, test::machine(), alone);
  EXPECT_DOUBLE_EQ(n[index_of(Coef::gemm_f32)], gemm);
  EXPECT_DOUBLE_EQ(n[index_of(Coef::attention_f32)], 2 * product);
  EXPECT_DOUBLE_EQ(n[index_of(Coef::attention_backward_f32)], 5 * product);
  EXPECT_EQ(n[index_of(Coef::gemm_bf16)], 0);
  const double least = (gemm + 7 * product) / test::machine().peaks.at("f32").value;
  EXPECT_NEAR(test::ceiling(s, test::machine(), alone) / least, 1, 1e-12);
  EXPECT_NEAR(test::cost(s, test::machine(), alone).ceiling / least, 1, 1e-12);
}

// Every head has a score for each pair of tokens, whatever its width: narrow heads cost more per FLOP.
TEST(Terms, AttentionOfCoresPaysForScoresBesideProducts) {
  const Machine m = test::machine();
  double of_heads[2] = {};
  for (const int64_t heads : {4, 8}) {
    for (const Amp amp : {Amp::none, Amp::bf16}) {
      RunSpec s = test::tiny();
      s.net.vit().num_heads = heads;
      s.policy.amp = amp;
      const VitSpec& n = s.net.vit();
      const auto N = static_cast<double>(n.tokens());
      const double scores = static_cast<double>(s.train.global_batch * n.depth * heads) * N * N;
      const Replay r = test::replay(s, m, {.ranks_on_host = 1, .threads = 1});
      const auto count = [&](Coef c) { return r.busiest.counts[index_of(c)]; };
      const bool half = amp == Amp::bf16;
      EXPECT_DOUBLE_EQ(count(half ? Coef::softmax_bf16 : Coef::softmax_f32), scores);
      EXPECT_DOUBLE_EQ(count(half ? Coef::softmax_backward_bf16 : Coef::softmax_backward_f32), scores);
      EXPECT_EQ(count(half ? Coef::softmax_f32 : Coef::softmax_bf16), 0);
      if (!half) of_heads[heads / 8] = r.step_s;
    }
  }
  EXPECT_GT(of_heads[1], of_heads[0]);  // the same FLOPs
}

// Attention packs its operands element by element: with few tokens this is a larger share of its time.
TEST(Terms, AttentionOfCoresPaysForWhatItPacks) {
  for (const Amp amp : {Amp::none, Amp::bf16}) {
    RunSpec s = test::tiny();
    s.policy.amp = amp;
    const plan::Plan plan = nets::build_plan(s, 0, {});
    for (const plan::Op& op : plan.ops) {
      const bool backward = op.kind == plan::OpKind::attention_backward;
      if (op.kind != plan::OpKind::attention && !backward) continue;
      // q, k, v and o; backward q, k, v, o, its gradient and three results, beside the row sums
      const auto& a = op.as<plan::AttentionAttrs>();
      const auto rows = static_cast<double>(a.batch * a.tq * a.heads);
      const double numbers = (backward ? 8 : 4) * rows * static_cast<double>(a.d);
      const Counts n = count_op(op, plan, 1, {.threads = 1, .cores = 2});
      EXPECT_GE(n[index_of(Coef::attention_bytes)], 4 * numbers) << name_of(amp);
      EXPECT_LE(n[index_of(Coef::attention_bytes)], 4 * numbers + 8 * rows) << name_of(amp);
    }
  }
}

// On GPUs f32 attention runs in scalar arithmetic, tf32 attention on tensor cores, like its products.
TEST(Terms, AttentionInTf32IsPricedByTensorCoresOnAnAccelerator) {
  const Machine m = load_machine(source_dir() + "/configs/machines/dgx-h100.yaml");
  const Conditions where = conditions_of(*m.accelerator, 1);
  const Counts rate = rates(m.values(), where);
  const auto seconds_and_counts = [&](Amp amp, plan::OpKind kind) {
    RunSpec s = test::tiny();
    s.policy.amp = amp;
    const plan::Plan plan = nets::build_plan(s, 0, {});
    Counts counts{};
    double seconds = 0;
    for (const plan::Op& op : plan.ops)
      if (op.kind == kind)
        seconds += op_seconds(shape_of(op, plan, where), rate, where, cache_share(m, 1), &counts);
    return std::pair(seconds, counts);
  };
  struct Prices {
    plan::OpKind kind;
    Coef f32, tf32, bf16;
  };
  for (const auto& [kind, f32, tf32, bf16] :
       {Prices{plan::OpKind::attention, Coef::attention_f32, Coef::attention_tf32, Coef::attention_bf16},
        Prices{plan::OpKind::attention_backward, Coef::attention_backward_f32, Coef::attention_backward_tf32,
               Coef::attention_backward_bf16}}) {
    const auto [slow, slow_counts] = seconds_and_counts(Amp::none, kind);
    const auto [middle, middle_counts] = seconds_and_counts(Amp::tf32, kind);
    const auto [fast, fast_counts] = seconds_and_counts(Amp::bf16, kind);
    EXPECT_GT(slow, 1.5 * middle);
    EXPECT_GT(middle, 1.5 * fast);
    EXPECT_GT(slow_counts[index_of(f32)], 0);
    EXPECT_EQ(middle_counts[index_of(f32)], 0);
    EXPECT_DOUBLE_EQ(middle_counts[index_of(tf32)], slow_counts[index_of(f32)]);
    EXPECT_EQ(fast_counts[index_of(tf32)], 0);
    EXPECT_DOUBLE_EQ(fast_counts[index_of(bf16)], slow_counts[index_of(f32)]);
    for (const Coef c : {Coef::softmax_f32, Coef::softmax_bf16, Coef::softmax_backward_f32,
                         Coef::softmax_backward_bf16, Coef::attention_bytes})  // part of the FLOPs charged
                                                                               // there
      EXPECT_EQ(slow_counts[index_of(c)] + middle_counts[index_of(c)] + fast_counts[index_of(c)], 0);
  }
}

TEST(Terms, RingAllReduceMovesTwiceTheGradientsLessOneShare) {
  RunSpec s = test::tiny();
  s.layout.dp = 4;
  const plan::Plan plan = nets::build_plan(s, 0, {});
  const auto wire = [&](const RunSpec& of, int64_t ranks_on_host) {
    return test::counted(of, test::machine(),
                         {.ranks_on_host = ranks_on_host, .threads = 1})[index_of(Coef::wire_host)];
  };
  double gradients = 0;
  for (const plan::Buffer& b : plan.buffers)
    if (b.kind == plan::BufferKind::grads) gradients += static_cast<double>(b.bytes());
  const double metrics = 4.0 * static_cast<double>(plan.metrics.count);
  EXPECT_DOUBLE_EQ(wire(s, 4), 2 * 3.0 / 4 * (gradients + metrics));
  EXPECT_EQ(wire(test::tiny(), 1), 0);
}

TEST(Terms, GroupsThatSpanHostsPayTheNetworkAndShareItsLinks) {
  RunSpec s = test::tiny();
  s.layout.tp = s.layout.dp = 2;
  s.policy.micro_batch = 2;
  const auto host = index_of(Coef::wire_host), net = index_of(Coef::wire_net);
  const auto messages_host = index_of(Coef::message_host), messages_net = index_of(Coef::message_net);
  // two ranks each send as much as they reduce: 4 times a block in activations
  const auto activations = static_cast<double>(4 * s.net.vit().depth * s.train.global_batch / s.layout.dp *
                                               s.net.tokens() * s.net.vit().embed_dim * 4);
  const auto terms = [&](const char* order, int64_t ranks_on_host) {
    s.layout.order = order;
    return test::counted(s, test::machine(), {.ranks_on_host = ranks_on_host, .threads = 1});
  };
  const Counts together = terms("tp-dp-cp-pp", 4), inside = terms("tp-dp-cp-pp", 2),
               across = terms("dp-tp-cp-pp", 2), apart = terms("tp-dp-cp-pp", 1);
  EXPECT_EQ(together[net] + together[messages_net], 0);
  EXPECT_NEAR(inside[host], activations, 100);  // and a norm's sum
  EXPECT_NEAR(across[net], 2 * activations, 100) << "both tensor parallel groups pass each host's link";
  EXPECT_NEAR(inside[net], 2 * (together[host] - activations), 200);
  EXPECT_NEAR(across[host], together[host] - activations, 100);
  EXPECT_EQ(apart[host] + apart[messages_host], 0);
  EXPECT_EQ(apart[net], together[host]) << "a host with one rank shares its link with nobody";
  for (const Counts& n : {inside, across, apart})
    EXPECT_EQ(n[messages_host] + n[messages_net], together[messages_host]);
}

TEST(Terms, ARingOverSeveralRanksOfAHostPassesItsLinkOnce) {
  RunSpec s = test::tiny();
  s.layout.dp = 8;
  const Counts one = test::counted(s, test::machine(), {.ranks_on_host = 8, .threads = 1}),
               two = test::counted(s, test::machine(), {.ranks_on_host = 4, .threads = 1});
  EXPECT_GT(one[index_of(Coef::wire_host)], 0);
  EXPECT_EQ(two[index_of(Coef::wire_net)], one[index_of(Coef::wire_host)]);
  EXPECT_EQ(two[index_of(Coef::wire_host)], 0);
}

// In closed form and replay, and not if hosts do not matter.
TEST(Cost, TensorParallelismAcrossASlowLinkLosesToInside) {
  Machine m = test::machine();
  m[Coef::wire_net].value = 8e-9;  // 1 Gbit/s
  RunSpec s = test::tiny();
  s.layout.tp = s.layout.dp = 2;
  const auto seconds_of = [&](const char* order, int64_t ranks_on_host) {
    s.layout.order = order;
    const HostShare host{.ranks_on_host = ranks_on_host, .threads = 1};
    return std::pair{test::closed(s, m, host), test::replay(s, m, host).step_s};
  };
  const auto inside = seconds_of("tp-dp-cp-pp", 2), across = seconds_of("dp-tp-cp-pp", 2);
  EXPECT_GT(across.first, 1.2 * inside.first);
  EXPECT_GT(across.second, 1.2 * inside.second);
  EXPECT_EQ(seconds_of("tp-dp-cp-pp", 4), seconds_of("dp-tp-cp-pp", 4));
}

// A fully busy core makes intra-host transfers itself; network transfers overlap. In closed form and replay.
TEST(Cost, TheNetworkMovesWhatCoresHaveNoTimeFor) {
  RunSpec s = load_run_spec(source_dir() + "/configs/models/regional-gnn-tiny.yaml",
                            {"layout.cp=2", "run.threads=1", "policy.edge_chunks=2", "train.global_batch=8"});
  Machine m = test::machine();
  for (const Coef c : {Coef::message_host, Coef::message_net}) m[c].value = 1e-6;
  m[Coef::wire_net].value = m[Coef::wire_host].value = 1e-12;  // the wire's time is negligible
  m[Coef::overlap_slowdown].value = m[Coef::lockstep].value = m[Coef::imbalance].value = 1e-12;
  const auto cp = static_cast<size_t>(plan::Lane::cp);
  const auto exposed = [&](int64_t ranks_on_host) {
    m.identity.cores = ranks_on_host;  // no spare core
    const HostShare host{.ranks_on_host = ranks_on_host, .threads = 1};
    const Replay full = test::replay(s, m, host);
    EXPECT_NEAR(test::closed(s, m, host) / full.step_s, 1, 0.1);
    return full.busiest.exposed[cp] / full.busiest.lanes[cp];
  };
  EXPECT_GT(exposed(2), 0.9);
  EXPECT_LT(exposed(1), 0.5);
}

// The parts of a graph are unequal; any rank may have the largest.
TEST(Cost, OfACutGraphTheSlowestRankCounts) {
  for (const char* partition : {"bands", "metis"}) {
    if (partition == std::string("metis") && !nets::has_metis()) continue;
    const RunSpec s = load_run_spec(
        source_dir() + "/configs/models/regional-gnn-tiny.yaml",
        {"layout.cp=3", "run.threads=1", "train.global_batch=4", std::string("net.partition=") + partition});
    const Machine m = test::machine();
    const Conditions where = conditions_of(s, m, {.ranks_on_host = 3, .threads = 1});
    const double cache = cache_share(m, 3);
    double slowest = 0, fastest = 1e9;
    for (int rank = 0; rank < 3; ++rank) {
      const plan::Plan plan = nets::build_plan(s, rank, {});
      const double own = simulate(s, plan, nets::link_step(s, plan, 1), m.values(), where, cache).step_s;
      slowest = std::max(slowest, own), fastest = std::min(fastest, own);
    }
    EXPECT_GT(slowest, 1.01 * fastest) << "25 nodes over 3 ranks";
    const HostShare host{.ranks_on_host = 3, .threads = 1};
    EXPECT_EQ(predict(s, m, {.host = host}).step_s, slowest);
    EXPECT_NEAR(test::closed(s, m, host) / slowest, 1, 0.1);
  }
}

// Ranks that synchronise between ops wait for one another there; replicas, which meet at the end, do not.
TEST(Cost, RanksThatMeetBetweenOpsWaitThere) {
  Machine m = test::machine();
  const auto imbalance = [&](const std::vector<std::string>& layout,
                             const std::string& net = "regional-gnn-tiny") {
    std::vector<std::string> set{"run.threads=1"};
    set.insert(set.end(), layout.begin(), layout.end());
    const RunSpec s = load_run_spec(source_dir() + "/configs/models/" + net + ".yaml", set);
    const HostShare host{.ranks_on_host = s.layout.world(), .threads = 1};
    const RankTimes t = test::replay(s, m, host).busiest;
    const LayoutCost c = test::cost(s, m, host);
    EXPECT_NEAR(c.imbalance / (c.compute + c.optimizer), t.imbalance / t.compute, 1e-9);
    return t.imbalance / t.compute;
  };
  const double once = m[Coef::imbalance].value, between = m[Coef::lockstep].value = 0.1;
  EXPECT_NEAR(imbalance({"layout.dp=4"}), 2 * once, 1e-9);
  EXPECT_NEAR(imbalance({"layout.cp=2"}), once + between, 1e-9);
  EXPECT_NEAR(imbalance({"layout.cp=2", "layout.tp=2", "layout.dp=2"}), 3 * once + 2 * between, 1e-9);
  EXPECT_NEAR(imbalance({"layout.dp=4", "layout.ep=4"}, "moe-tiny"), 2 * once + 2 * between, 1e-9);
  EXPECT_NEAR(imbalance({"layout.dp=2", "layout.cp=2", "layout.ep=2"}, "moe-tiny"), 2 * once + between, 1e-9);
}

// A higher price is never faster, in closed form and replay.
TEST(Cost, IsMonotoneInEveryCoefficient) {
  std::mt19937_64 random(4);
  for (const RunSpec& s : random_specs(40, 4)) {
    const Machine m = test::perturbed(test::machine(), 0.5, random);
    const double before = test::closed(s, m), replayed = test::replay(s, m).step_s;
    for (size_t i = 0; i < kCoefs; ++i) {
      Machine dearer = m;
      dearer.coefficients[i].value *= 1.5;
      EXPECT_GE(test::closed(s, dearer), before * (1 - 1e-12)) << info_of(i).name;
      EXPECT_GE(test::replay(s, dearer).step_s, replayed * (1 - 1e-9)) << info_of(i).name;
    }
  }
}

TEST(Cost, PartsAddUpToTheStep) {
  std::mt19937_64 random(5);
  for (const RunSpec& s : random_specs(60, 5)) {
    const Machine m = test::perturbed(test::machine(), 0.5, random);
    const Replay r = test::replay(s, m);
    const RankTimes& t = r.busiest;
    double priced = 0, exposed = 0;
    for (size_t i = 0; i < kCoefs; ++i) {
      EXPECT_GE(t.parts[i], 0);
      EXPECT_GE(t.counts[i], 0);
      priced += t.parts[i];
    }
    for (size_t l = 0; l < plan::kLanes; ++l) {
      EXPECT_LE(t.exposed[l], t.lanes[l] * (1 + 1e-12));
      exposed += t.exposed[l];
    }
    EXPECT_NEAR(priced, t.compute + t.step, 1e-9 * r.step_s);
    EXPECT_NEAR(t.compute + exposed + t.slowdown + t.bubble + t.host + t.imbalance + t.step + t.reading +
                    t.stolen + t.data_wait,
                r.step_s, 1e-9 * r.step_s);
    const LayoutCost c = test::cost(s, m, test::host_of(s, m));
    EXPECT_NEAR(c.compute + c.host + c.tp + c.cp + c.slowdown + c.bubble + c.pp + c.dp + c.data +
                    c.optimizer + c.step + c.imbalance,
                c.seconds, 1e-12 * c.seconds);
  }
}

TEST(Cost, LoaderThreadsHideReadingUntilTheyAreTheBottleneck) {
  Machine m = test::machine();
  m.identity.cores = 16;
  RunSpec s = test::tiny();
  const auto time = [&](int64_t workers, double seconds_per_sample) {
    s.data.workers = workers;
    Machine slow = m;
    slow[Coef::read_sample].value = seconds_per_sample;
    const Replay r = test::replay(s, slow, {.ranks_on_host = 1, .threads = 1});
    EXPECT_NEAR(test::closed(s, slow, {.ranks_on_host = 1, .threads = 1}) / r.step_s, 1, 0.01);
    return r;
  };
  const double alone = time(0, 1e-9).step_s - time(0, 1e-9).busiest.reading;
  const double handover = m[Coef::read_handover].value;
  EXPECT_NEAR(time(2, 1e-4).step_s, alone + handover, 1e-9);  // idle cores decode for free
  s.policy.micro_batch = 2;                                   // four times a step
  EXPECT_NEAR(time(2, 1e-4).step_s - time(0, 1e-9).step_s + time(0, 1e-9).busiest.reading, 4 * handover,
              1e-9);
  s.policy.micro_batch = 0;
  EXPECT_NEAR(time(0, 1e-2).busiest.reading, 8 * 1e-2, 0.01);  // no loader thread reads
  EXPECT_NEAR(time(2, 1.0).step_s, 8 * 1.0 / 2, 0.05);         // supply: 8 samples by two workers
  EXPECT_NEAR(time(4, 1.0).step_s, 8 * 1.0 / 4, 0.05);
  m.identity.cores = 1;
  EXPECT_GT(time(1, 1e-2).busiest.stolen, 0.5 * 8 * 1e-2);  // no idle core
}

RunSpec emulator(int64_t batch, int64_t threads) {
  RunSpec s;
  s.net.set_kind(MlpSpec::kKind);
  s.train.global_batch = batch;
  s.train.loss = LossKind::mse;
  s.run.threads = threads;
  validate(s);
  return s;
}

// oneDNN cuts the smallest product in 16 bits into blocks for all threads.
TEST(Cost, ProductsIn16BitsStartATeam) {
  Machine m = test::machine();
  m.identity.cores = 16;
  RunSpec s = emulator(64, 2);
  s.policy.amp = Amp::bf16;
  validate(s);
  const plan::Plan p = nets::build_plan(s, 0, {});
  int64_t products = 0;
  for (const plan::Op& op : p.ops) products += op.kind == plan::OpKind::gemm && size_of(dtype_of(op, p)) == 2;
  ASSERT_GE(products, 3);
  const auto compute = [&](double fork) {
    m[Coef::fork].value = fork;
    return test::replay(s, m, {.ranks_on_host = 1, .threads = 2}).busiest.compute;
  };
  EXPECT_NEAR(compute(1e-3) - compute(1e-9), 1e-3 * static_cast<double>(products), 1e-5);
}

// Too few rows for a second thread cost one thread's time and start no team; with many rows the cost falls
// with the threads, plus that of each team.
TEST(Cost, SmallOpsAreNotCutOverThreads) {
  Machine m = test::machine();
  m.identity.cores = 16;
  for (const Coef c : {Coef::share_compute, Coef::share_memory}) m[c].value = 1e-9;
  const auto compute = [&](int64_t batch, int64_t threads, double fork) {
    m[Coef::fork].value = fork;
    return test::replay(emulator(batch, threads), m, {.ranks_on_host = 1, .threads = threads})
        .busiest.compute;
  };
  // 64 rows of 64: 4,096 elements, half of the work for which a thread is started
  const double alone = compute(64, 1, 1e-9);
  for (const int64_t threads : {2, 3, 8, 16}) {
    EXPECT_NEAR(compute(64, threads, 1e-9), alone, 0.01 * alone) << threads;
    EXPECT_NEAR(compute(64, threads, 1e-3), alone, 0.01 * alone) << threads;
  }
  // 65,536 rows: by Amdahl's law with m's threads.serial
  const double many = compute(65536, 1, 1e-9), serial = m[Coef::threads_serial].value;
  EXPECT_NEAR(compute(65536, 8, 1e-9) / many, (1 + 7 * serial) / 8, 0.02);
  EXPECT_GT(compute(65536, 8, 1e-3), compute(65536, 8, 1e-9) + 10 * 3 * 1e-3);  // log2(8), some ten ops
}

/// By the compute thread
double reading_seconds(const RunSpec& s, const Machine& m) {
  const Conditions where = conditions_of(s, m, {.ranks_on_host = 1, .threads = 1});
  return read_time(reading_of(s, where), m.values(), rates(m.values(), where)).serial;
}

// The format follows from data.train's name; a Zarr's chunks are read and decoded.
TEST(Cost, FieldsAreReadAtThePriceOfTheirFormat) {
  Machine m = test::machine();
  m[Coef::read_sample].value = 1e-9;
  m[Coef::read_hdf5].value = 1e-10, m[Coef::read_netcdf].value = 2e-10;
  m[Coef::read_zarr].value = 3e-10, m[Coef::read_decode].value = 7e-10;
  RunSpec s = test::tiny();
  s.data.workers = 0;
  const double bytes = 4.0 * static_cast<double>(s.net.sample_numbers() * s.train.global_batch);
  for (const auto& [path, price] : {std::pair{"era5/train", 1e-10},
                                    {"2019.h5", 1e-10},
                                    {"era5.nc", 2e-10},
                                    {"single.nc,levels.zarr", 2e-10},
                                    {"era5.zarr", 1e-9},
                                    {"era5.zarr/", 1e-9},
                                    {"era5.zarr.zip", 1e-9}}) {
    s.data.train = path;
    EXPECT_NEAR(reading_seconds(s, m) / (bytes * price), 1, 1e-3) << path;
  }
  s.data.train = "era5.zarr";
  EXPECT_EQ(read_kind(s), "read_decode");
  s.data.train = "era5.nc";
  EXPECT_EQ(read_kind(s), "read_netcdf");
}

// A row of 14 numbers and its target is no image: neither its bytes nor its fixed part cost the same.
TEST(Cost, RowsAreReadAtTheirOwnPrices) {
  Machine m = test::machine();
  m[Coef::read_sample].value = 1e-3;  // of images
  m[Coef::read_table].value = 5e-10;
  m[Coef::read_row].value = 3e-8;
  RunSpec s = emulator(1000, 1);
  const auto read = [&] { return reading_seconds(s, m); };
  EXPECT_NEAR(read(), 1000 * (60 * 5e-10 + 3e-8), 1e-12);  // noise, in memory like a table
  s.data.train = "rows.csv";
  s.data.inputs = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"};
  s.data.targets = {"o"};
  EXPECT_NEAR(read(), 1000 * (60 * 5e-10 + 3e-8), 1e-12);
}

}  // namespace
}  // namespace isobar::perf
