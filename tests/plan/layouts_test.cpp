// Plans of whole worlds: all ranks of a random legal layout fit together, and wire bytes match closed forms.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "model/base/error.h"
#include "model/plan/layout.h"
#include "model/plan/ops/work.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

using Words = std::vector<std::string>;

RunSpec spec_with(const Words& words) {
  Words all = {"net.depth=5", "net.img_height=40", "train.global_batch=24"};
  all.insert(all.end(), words.begin(), words.end());
  return spec_of("vit-tiny", all);
}

std::vector<Plan> world_of(const RunSpec& spec) {
  std::vector<Plan> plans;
  for (int r = 0; r < spec.layout.world(); ++r) plans.push_back(nets::build_plan(spec, r, odd_workspace));
  return plans;
}

Words random_layout(std::mt19937& random) {
  const auto pick = [&](std::vector<int> from) { return from[random() % from.size()]; };
  const auto text = [](const char* key, int64_t v) { return key + std::to_string(v); };
  const int dp = pick({1, 2, 3}), tp = pick({1, 2, 4}), cp = pick({1, 2, 3}), pp = pick({1, 2, 4});
  const auto word = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
  const std::string schedule =
      pp > 1 ? word({"1f1b", "gpipe", "interleaved", "zb-h1"}) : word({"1f1b", "gpipe"});
  const bool late = schedule == "zb-h1";  // weight gradients are late: needs activations and whole gradients
  const std::string recompute = late ? "none" : word({"none", "selective", "full"});
  std::vector<std::string> axes = {"tp", "cp", "dp", "pp"};
  std::shuffle(axes.begin(), axes.end(), random);
  return {
      text("layout.dp=", dp),
      text("layout.tp=", tp),
      text("layout.cp=", cp),
      text("layout.pp=", pp),
      text("layout.vpp=", schedule == "interleaved" ? 2 : 1),
      "layout.order=" + axes[0] + "-" + axes[1] + "-" + axes[2] + "-" + axes[3],
      "policy.schedule=" + schedule,
      text("policy.micro_batch=", pick({1, 2})),
      std::string("policy.sequence_parallel=") + (pick({0, 1}) ? "true" : "false"),
      "policy.recompute=" + recompute,
      std::string("policy.recompute_method=") + (recompute == "full" && pick({0, 1}) ? "block" : "uniform"),
      text("policy.recompute_num_layers=", recompute == "full" ? pick({1, 2, 3, 9}) : 1),
      "policy.cp_kind=" + word({"allgather", "ring", "ulysses"}),
      text("policy.zero=", late ? pick({0, 1}) : pick({0, 1, 2, 3})),
      "policy.amp=" + word({"none", "tf32", "bf16", "fp16"}),
      "policy.main_grads_dtype=" + (late ? "fp32" : word({"bf16", "fp32", "fp32"})),
      "policy.offload_optimizer=" + word({"true", "false", "false"}),
      "policy.bucket_mb=" + word({"0.02", "0.2", "25"}),
      std::string("policy.overlap=") + (pick({0, 1}) ? "true" : "false")};
}

TEST(Worlds, OfRandomLayoutsFitTogetherAndHoldEveryParameterOnce) {
  const uint32_t seed = std::random_device{}();
  int legal = 0;
  for (uint32_t i = 0; legal < 100; ++i) {
    ASSERT_LT(i, 2000u);
    std::mt19937 random(seed + i);
    const Words words = random_layout(random);
    SCOPED_TRACE("seed " + std::to_string(seed + i) + " " + testing::PrintToString(words));
    std::vector<Plan> plans;
    RunSpec spec;
    try {
      spec = spec_with(words);
      plans = world_of(spec);
    } catch (const ConfigError&) {
      continue;  // interleaved with too few blocks or micro-batches
    }
    ++legal;
    EXPECT_NO_THROW(check(plans));  // sizes, orders, and a dry run of all ranks
    // The writers' shards hold each element of each tensor exactly once.
    std::map<std::string, int64_t> held;
    for (const Plan& plan : plans)
      for (const Param& p : plan.params)
        for (const Shard& s : plan.shards)
          if (p.writer)
            held[p.name] += std::max<int64_t>(
                0, std::min(p.offset + p.count, s.begin + s.count) - std::max(p.offset, s.begin));
    EXPECT_EQ(held.size(), plans[0].tensors.size());
    for (const Tensor& t : plans[0].tensors) {
      int64_t count = 1;
      for (const int64_t extent : t.shape) count *= extent;
      EXPECT_EQ(held[t.name], count) << t.name;
    }
  }
}

TEST(Worlds, ThatDoNotFitTogetherAreRefusedByTheirLayout) {
  const RunSpec spec = spec_with({"layout.dp=2", "layout.pp=2", "policy.micro_batch=2"});
  EXPECT_NO_THROW(nets::check_world(spec, odd_workspace));
  std::vector<Plan> plans = world_of(spec);
  EXPECT_NO_THROW(nets::check_world(spec, plans));
  plans[2].train.pop_back();  // the rank lacks its optimizer, for which others wait
  try {
    nets::check_world(spec, plans);
    FAIL() << "was not refused";
  } catch (const ConfigError& e) {
    const std::string what = e.what();
    for (const char* part :
         {"vit-tiny.yaml: 'layout'", "dp2 tp1 cp1 pp2 vpp1", "tp-cp-dp-pp", "1f1b", "disagree"})
      EXPECT_NE(what.find(part), std::string::npos) << what;
  }
}

struct Traffic {
  int count = 0;
  double elements = 0;  // of the collectives' whole buffers
};

/// Ops of one block on a lane, in one pass.
std::map<OpKind, Traffic> traffic(const Plan& plan, Lane lane, Pass pass) {
  std::map<OpKind, Traffic> out;
  for (const Routine& r : plan.routines) {
    if (r.pass != pass) continue;
    for (int i = r.first; i < r.first + r.count; ++i) {
      const Op& op = plan.ops[i];
      if (op.lane != lane || op.path.rfind("block01/", 0) != 0) continue;
      Traffic& t = out[op.kind];
      ++t.count;
      const int64_t read = op.reads.empty() ? 0 : op.reads[0].count,
                    wrote = op.writes.empty() ? 0 : op.writes[0].count;
      t.elements += static_cast<double>(std::max(read, wrote));
    }
  }
  return out;
}

TEST(Worlds, TensorParallelBlocksReduceTwiceEachWay) {
  const RunSpec spec = spec_with({"layout.tp=4", "policy.amp=bf16"});
  const Plan plan = nets::build_plan(spec, 1, no_workspace);
  const double rows = static_cast<double>(spec.micro_batch() * spec.net.tokens() * spec.net.vit().embed_dim);
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const auto t = traffic(plan, Lane::tp, pass);
    ASSERT_EQ(t.size(), 1u);
    EXPECT_EQ(t.at(OpKind::all_reduce).count, 2);
    EXPECT_EQ(t.at(OpKind::all_reduce).elements, 2 * rows);
  }
  for (const Op& op : plan.ops) {
    if (op.lane == Lane::tp) {
      EXPECT_EQ(plan.buffers[op.reads[0].buffer].dtype, DType::bf16) << op.path;
    }
  }
}

TEST(Worlds, SequenceParallelBlocksGatherAndScatterFourAndSixTimes) {
  const RunSpec spec = spec_with({"layout.tp=4", "policy.sequence_parallel=true"});
  const Plan plan = nets::build_plan(spec, 3, no_workspace);
  const double rows = static_cast<double>(spec.micro_batch() * spec.net.tokens() * spec.net.vit().embed_dim);
  const auto forward = traffic(plan, Lane::tp, Pass::forward),
             backward = traffic(plan, Lane::tp, Pass::backward);
  EXPECT_EQ(forward.at(OpKind::all_gather).count, 2);
  EXPECT_EQ(forward.at(OpKind::reduce_scatter).count, 2);
  EXPECT_EQ(backward.at(OpKind::all_gather).count,
            4);  // two are inputs, kept cut, for weight gradients
  EXPECT_EQ(backward.at(OpKind::reduce_scatter).count, 2);
  EXPECT_EQ(forward.at(OpKind::all_gather).elements + forward.at(OpKind::reduce_scatter).elements, 4 * rows);
  EXPECT_EQ(backward.at(OpKind::all_gather).elements + backward.at(OpKind::reduce_scatter).elements,
            6 * rows);
  // ring volumes: (t-1)/t of each whole buffer
  double wire = 0;
  for (const Op& op : plan.ops)
    if (op.lane == Lane::tp && op.path.rfind("block01/", 0) == 0) wire += work(op, plan).wire_bytes;
  EXPECT_NEAR(wire, 3.0 / 4 * 10 * rows * 4, 1);
}

TEST(Worlds, ContextParallelBlocksGatherKeysAndValuesOnceEachWay) {
  const RunSpec spec = spec_with({"layout.cp=3", "layout.tp=2"});
  const Plan plan = nets::build_plan(spec, 5, no_workspace);
  const double kv = static_cast<double>(spec.micro_batch() * spec.net.tokens() *
                                        spec.net.vit().embed_dim);  // 2 D / tp wide
  const auto forward = traffic(plan, Lane::cp, Pass::forward),
             backward = traffic(plan, Lane::cp, Pass::backward);
  EXPECT_EQ(forward.at(OpKind::all_gather).count, 1);
  EXPECT_EQ(forward.at(OpKind::all_gather).elements, kv);
  EXPECT_EQ(backward.at(OpKind::reduce_scatter).count, 1);
  EXPECT_EQ(backward.at(OpKind::reduce_scatter).elements, kv);
}

TEST(Worlds, PipelinesSendOnceAMicroBatchAndChunk) {
  for (const int64_t vpp : {1, 2}) {
    const RunSpec spec =
        spec_with({"layout.pp=2", "layout.vpp=" + std::to_string(vpp), "policy.micro_batch=2",
                   std::string("policy.schedule=") + (vpp > 1 ? "interleaved" : "1f1b")});
    std::map<Lane, int64_t> sends;
    for (const Plan& plan : world_of(spec))
      for (const Instr& i : link(plan, plan.train).instrs)
        if (plan.ops[i.op].kind == OpKind::send) {
          ++sends[plan.ops[i.op].lane];
          EXPECT_EQ(plan.ops[i.op].reads[0].count, 2 * spec.net.tokens() * spec.net.vit().embed_dim);
        }
    EXPECT_EQ(sends[Lane::send_forward], 12 * (2 * vpp - 1));
    EXPECT_EQ(sends[Lane::send_backward], 12 * (2 * vpp - 1));
  }
}

TEST(Worlds, UnevenTokensAreThoseOfThePublishedSplit) {
  EXPECT_EQ(split_evenly(4050, 4), (std::vector<int64_t>{1013, 1013, 1013, 1011}));
  EXPECT_EQ(split_evenly(4050, 8).back(), 501);
  EXPECT_EQ(split_evenly(4050, 16).back(), 240);
  EXPECT_EQ(split_evenly(4050, 32).back(), 113);
  EXPECT_EQ(split_evenly(4, 3), (std::vector<int64_t>{1, 1, 2}));  // ceil would leave the last without any
}

}  // namespace
}  // namespace isobar::plan
