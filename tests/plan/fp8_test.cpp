// Plans of fp8: as in Transformer Engine, tensors are kept in bf16, and the blocks' linears multiply in 8
// bits.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "model/plan/ops/work.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

std::vector<std::string> random_fp8_layout(std::mt19937& random) {
  const auto pick = [&](const std::vector<std::string>& from) { return from[random() % from.size()]; };
  const std::string pp = pick({"1", "2"});
  const std::string schedule = pp == "1" ? "1f1b" : pick({"1f1b", "interleaved", "zb-h1"});
  return {"net.depth=4",
          "train.global_batch=8",
          "policy.micro_batch=1",
          "layout.dp=2",
          "layout.pp=" + pp,
          "layout.tp=" + pick({"1", "2", "4"}),
          "layout.cp=" + pick({"1", "2"}),
          "layout.vpp=" + std::string(schedule == "interleaved" ? "2" : "1"),
          "policy.schedule=" + schedule,
          "policy.zero=" + (schedule == "zb-h1" ? pick({"0", "1"}) : pick({"0", "1", "2", "3"})),
          "policy.sequence_parallel=" + pick({"true", "false"}),
          "policy.recompute=" + (schedule == "zb-h1" ? "none" : pick({"none", "selective", "full"}))};
}

Plan plan_in(const std::string& amp, const std::string& net, std::vector<std::string> words, int rank) {
  words.push_back("policy.amp=" + amp);
  return plan_of(net, words, rank);
}

TEST(Fp8, KeepsWhatBf16KeepsAndSendsWhatItSends) {
  const uint32_t seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    const std::string net = round % 2 ? "gpt3-175b" : "llama3-8b";
    const std::vector<std::string> words = random_fp8_layout(random);
    const int rank = static_cast<int>(random() % spec_of(net, words).layout.world());
    const Plan want = plan_in("bf16", net, words, rank), got = plan_in("fp8", net, words, rank);
    EXPECT_EQ(got.memory.arena, want.memory.arena);
    ASSERT_EQ(got.buffers.size(), want.buffers.size());
    for (size_t i = 0; i < want.buffers.size(); ++i) {
      EXPECT_EQ(got.buffers[i].dtype, want.buffers[i].dtype) << want.buffers[i].name;
      EXPECT_EQ(got.buffers[i].bytes(), want.buffers[i].bytes()) << want.buffers[i].name;
    }
    ASSERT_EQ(got.ops.size(), want.ops.size());
    for (size_t i = 0; i < want.ops.size(); ++i) {
      EXPECT_EQ(got.ops[i].path, want.ops[i].path);
      EXPECT_EQ(work(got.ops[i], got).wire_bytes, work(want.ops[i], want).wire_bytes) << want.ops[i].path;
    }
    EXPECT_EQ(totals(got, 1).step.flops, totals(want, 1).step.flops);
  }
}

// FLOPs in 8 bits in closed form: the blocks' linears, forward and twice that backward.
TEST(Fp8, MultipliesTheBlocksLinearsInEightBits) {
  for (const char* net : {"gpt3-175b", "llama3-8b"}) {
    const std::vector<std::string> words = {
        "net.depth=3",          "layout.dp=1",          "layout.tp=1",           "layout.pp=1",
        "train.global_batch=2", "policy.micro_batch=2", "policy.recompute=none", "policy.amp=fp8"};
    const RunSpec spec = spec_of(net, words);
    const Plan plan = nets::build_plan(spec, 0, odd_workspace);
    std::map<bool, double> flops;  // of products in fp8, and of others
    for (const Invocation& i : plan.train) {
      const Routine& r = plan.routines[static_cast<size_t>(i.routine)];
      for (int32_t k = r.first; k < r.first + r.count; ++k) {
        const Op& op = plan.ops[static_cast<size_t>(k)];
        if (op.kind != OpKind::gemm) continue;
        flops[op.as<GemmAttrs>().fp8] += work(op, plan).flops;
        for (const View& v : {op.reads[0], op.reads[1]})  // a bias is in f32
          EXPECT_EQ(plan.buffers[static_cast<size_t>(v.buffer)].dtype, DType::bf16) << op.path;
      }
    }
    const bool llama = spec.net.kind() == "llama";
    const double d = spec.net.width(), kv = llama ? d * 8 / 32 : d, ffn = llama ? 14336 : 4 * d;
    const double block = d * (d + 2 * kv) + d * d + (llama ? 3 : 2) * d * ffn;
    const double tokens = 2.0 * spec.net.tokens();
    EXPECT_EQ(flops[true], 6 * tokens * 3 * block) << net;
    EXPECT_EQ(flops[false], 6 * tokens * d * static_cast<double>(spec.net.words()->vocab_size)) << net;
  }
}

}  // namespace
}  // namespace isobar::plan
