// Nets that PyTorch recorded (tests/fixtures/traced): their plans have its parameters, FLOPs and saved bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "model/base/error.h"
#include "model/base/spec/traced_net.h"
#include "model/base/system/files.h"
#include "model/nets/layout/legal_layout.h"
#include "model/nets/parts.h"
#include "model/nets/traced/eager_memory.h"
#include "model/plan/layout.h"
#include "model/plan/ops/work.h"
#include "tests/plan/plans.h"

namespace isobar::plan {
namespace {

namespace fs = std::filesystem;

std::string fixture(const std::string& name) {
  return source_dir() + "/tests/fixtures/traced/" + name + ".json";
}

RunSpec traced(const std::string& name, std::vector<std::string> more = {}) {
  return load_run_spec(fixture(name), more);
}

std::string refusal(const std::string& file, const std::vector<std::string>& more = {}) {
  try {
    const RunSpec spec = load_run_spec(file, more);
    nets::build_plan(spec, 0, {});
    nets::check_layout(spec);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "(accepted)";
}

double flops_of(const Plan& plan, Pass pass) {
  double flops = 0;
  for (const Routine& r : plan.routines)
    if (r.pass == pass)
      for (int32_t i = r.first; i < r.first + r.count; ++i) flops += work(plan.ops[i], plan).flops;
  return flops;
}

int64_t saved_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const Buffer& b : plan.buffers)
    if (b.kind == BufferKind::saved) bytes += b.bytes();
  for (const BatchTensor& t : plan.batch) bytes -= t.count * size_of(t.dtype);  // which autograd does not own
  return bytes;
}

TEST(Traced, HasPyTorchsParametersAndFlops) {
  for (const char* name : {"vit", "unet"}) {
    const auto net = traced_net(fixture(name));
    for (const char* amp : {"none", "bf16"})
      for (const int64_t samples : {1, 3, 8}) {
        const RunSpec spec =
            traced(name, {"policy.amp=" + std::string(amp), "policy.micro_batch=" + std::to_string(samples),
                          "train.global_batch=" + std::to_string(samples)});
        const Plan plan = nets::build_plan(spec, 0, {});
        const TracedGraph& graph = net->graph(spec.policy.amp);
        EXPECT_EQ(plan.parameter_count(), net->parameter_count());
        EXPECT_EQ(flops_of(plan, Pass::forward), static_cast<double>(graph.forward_flops.at(samples)));
        EXPECT_EQ(flops_of(plan, Pass::backward), static_cast<double>(graph.backward_flops.at(samples)))
            << name;
      }
  }
}

TEST(Traced, KeepsWhatAutogradKeeps) {
  for (const char* name : {"vit", "unet"})
    for (const int64_t samples : {2, 7}) {
      const RunSpec spec = traced(name, {"policy.micro_batch=" + std::to_string(samples),
                                         "train.global_batch=" + std::to_string(samples)});
      const auto expected = static_cast<double>(traced_net(fixture(name))->fp32.saved_bytes.at(samples));
      EXPECT_NEAR(static_cast<double>(saved_bytes(nets::build_plan(spec, 0, {}))), expected, 0.005 * expected)
          << name;
    }
}

// Peak bytes of a step of 64 samples by torch.distributed's MemTracker on fake tensors, PyTorch 2.15: in fp32
// and under autocast, each block checkpointed or not; the step holds no reference to the net's output.
TEST(Traced, MemoryIsThatOfPyTorchsTracker) {
  struct Tracked {
    const char* net;
    bool checkpoint;
    int64_t fp32, bf16;
  };
  for (const Tracked& t : {Tracked{"vit", false, 19489156, 12045636},
                           {"vit", true, 7496068, 5483780},
                           {"unet", false, 10780800, 6120112},
                           {"unet", true, 7240704, 4196672},
                           {"tied", false, 3105772, 2169836},
                           {"tied", true, 1582124, 1059820}})
    for (const bool bf16 : {false, true}) {
      const RunSpec spec = traced(t.net, {"policy.micro_batch=64", "train.global_batch=64",
                                          std::string("policy.recompute=") + (t.checkpoint ? "full" : "none"),
                                          std::string("policy.amp=") + (bf16 ? "bf16" : "none")});
      const auto tracked = static_cast<double>(bf16 ? t.bf16 : t.fp32);
      EXPECT_NEAR(static_cast<double>(nets::step_memory(spec, nets::build_plan(spec, 0, {})).arena) / tracked,
                  1, bf16 ? 0.09 : 0.03)
          << t.net << (t.checkpoint ? " checkpointed" : "") << (bf16 ? " bf16" : "");
    }
}

TEST(Traced, DataParallelRanksHoldBucketsOfAllGradients) {
  const auto memory = [](int64_t dp, const std::string& zero) {
    const RunSpec spec =
        traced("vit", {"policy.micro_batch=8", "train.global_batch=" + std::to_string(8 * dp),
                       "layout.dp=" + std::to_string(dp), zero});
    return nets::step_memory(spec, nets::build_plan(spec, 0, {}))
        .by_kind[static_cast<int>(BufferKind::grads)];
  };
  const int64_t gradients = 4 * traced_net(fixture("vit"))->parameter_count();
  EXPECT_EQ(memory(2, "policy.zero=0") - memory(1, "policy.zero=0"), gradients);
  EXPECT_LT(memory(2, "policy.zero=2"), gradients);
}

TEST(Traced, RecomputesByParts) {
  const std::vector<std::string> one{"policy.micro_batch=4", "train.global_batch=4"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> all = one;
    all.push_back(more);
    return nets::build_plan(traced("vit", all), 0, {});
  };
  const Plan kept = with("policy.recompute=none"), again = with("policy.recompute=full");
  // A block keeps its input, tokens x width f32.
  const int64_t ends = 4 * 32 * 32 * 4;
  int64_t in_blocks = 0;
  for (const Buffer& b : again.buffers)
    if (b.kind == BufferKind::saved && b.part >= 1 && b.part <= 4) in_blocks += b.bytes();
  EXPECT_EQ(in_blocks, 4 * ends);
  EXPECT_LT(saved_bytes(again), saved_bytes(kept) / 3);
  // Checkpointing stops once all is there that backward reads: the block's last product is not repeated.
  const double blocks = 4 * 2.0 * (4 * 32) * 32 * (3 * 32 + 32 + 4 * 32) + 4 * 4.0 * 4 * 4 * 32 * 32 * 8;
  EXPECT_EQ(flops_of(again, Pass::backward) - flops_of(kept, Pass::backward), blocks);
}

TEST(Traced, EveryLayoutThatItTakesFitsTogether) {
  for (const char* name : {"vit", "unet"})
    for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
             {"layout.dp=2", "policy.zero=1"},
             {"layout.dp=2", "policy.zero=3", "policy.amp=bf16"},
             {"layout.pp=2"},
             {"layout.pp=2", "layout.dp=2", "policy.zero=2", "policy.recompute=full"},
             {"layout.pp=3", "policy.amp=fp16", "policy.schedule=gpipe"},
             {"layout.pp=2", "layout.vpp=2", "policy.schedule=interleaved", "net.compiled=true"}}) {
      std::vector<std::string> all{"policy.micro_batch=1", "train.global_batch=8"};
      all.insert(all.end(), layout.begin(), layout.end());
      const RunSpec spec = traced(name, all);
      EXPECT_NO_THROW(nets::check_world(spec, Workspace{})) << name << " " << layout[0];
      int64_t parameters = 0;
      for (int rank = 0; rank < spec.layout.world(); ++rank) {
        const Plan plan = nets::build_plan(spec, rank, {});
        EXPECT_NO_THROW(link(plan, plan.train));
        if (coords_of(spec.layout, rank).dp == 0)
          for (const Param& p : plan.params) parameters += p.count;
      }
      EXPECT_EQ(parameters, traced_net(fixture(name))->parameter_count());
    }
}

TEST(Traced, SharedWeightsLieOnceOrAtBothEnds) {
  for (const char* zero : {"0", "1", "3"}) {
    const RunSpec spec = traced("tied", {"policy.micro_batch=2", "train.global_batch=8", "layout.dp=2",
                                         "policy.zero=" + std::string(zero)});
    const Plan plan = nets::build_plan(spec, 0, {});
    EXPECT_EQ(plan.parameter_count(), traced_net(fixture("tied"))->parameter_count());
    EXPECT_NO_THROW(nets::check_world(spec, Workspace{})) << zero;
  }
  // Both ends of a pipeline hold a copy, and sum its gradients.
  for (const char* policy : {"policy.zero=0", "policy.zero=2", "policy.amp=bf16"}) {
    const RunSpec spec = traced(
        "tied", {"layout.pp=2", "layout.dp=2", "policy.micro_batch=2", "train.global_batch=8", policy});
    EXPECT_NO_THROW(nets::check_world(spec, Workspace{})) << policy;
    int64_t held = 0, sums = 0;
    for (int rank = 0; rank < spec.layout.world(); ++rank) {
      const Plan plan = nets::build_plan(spec, rank, {});
      EXPECT_NO_THROW(link(plan, plan.train));
      if (coords_of(spec.layout, rank).dp != 0) continue;
      for (const Param& p : plan.params) held += p.count;
      for (const Op& op : plan.ops) sums += op.path == "optimizer/embedding/all_reduce" ? 1 : 0;
    }
    EXPECT_EQ(held, traced_net(fixture("tied"))->parameter_count() + 64 * 16) << policy;
    EXPECT_EQ(sums, 2);
  }
}

// Megatron's cut of a block: ranks share products and attention, and sum two results in each pass.
TEST(Traced, WordsCutLinearLayersOverRanks) {
  const std::vector<std::string> cut{
      "net.tensor=['blocks.*.attn.qkv: columns', 'blocks.*.attn.proj: rows', 'blocks.*.fc1: columns', "
      "'blocks.*.fc2: rows']",
      "policy.micro_batch=2", "train.global_batch=4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), cut.begin(), cut.end());
    return traced("vit", more);
  };
  for (const char* amp : {"policy.amp=none", "policy.amp=bf16"}) {
    const RunSpec spec = with({"layout.tp=2", amp});
    EXPECT_NO_THROW(nets::check_world(spec, Workspace{}));
    const Plan whole = nets::build_plan(with({amp}), 0, {}), half = nets::build_plan(spec, 0, {});
    EXPECT_EQ(half.parameter_count(), whole.parameter_count());
    int64_t held = 0, all_reduces = 0;
    for (const Param& p : half.params) held += p.count;
    for (const Op& op : half.ops) all_reduces += op.lane == Lane::tp ? 1 : 0;
    // Width 32: of a block's 12 x 32 x 32 weights and 7 x 32 biases before the second factor half is held.
    EXPECT_EQ(whole.parameter_count() - held, 4 * (12 * 32 * 32 + 7 * 32) / 2);
    EXPECT_EQ(all_reduces, 4 * (2 + 2 + 2));                // of a block: forward, backward, validation
    const double ends = 2.0 * 2 * 32 * 32 * (3 * 16 + 10);  // patches and head, 2 samples of 32 tokens
    EXPECT_EQ(flops_of(half, Pass::forward), (flops_of(whole, Pass::forward) - ends) / 2 + ends) << amp;
    EXPECT_LT(saved_bytes(half), saved_bytes(whole));
  }
  EXPECT_NO_THROW(
      nets::check_world(with({"layout.tp=2", "layout.pp=2", "policy.zero=1", "layout.dp=2"}), Workspace{}));
  for (const auto& [words, says] :
       std::map<std::string, std::string>{{"['blocks.*.attn.qkv: columns']", "proj"},
                                          {"['blocks.*.fc1: columns', 'blocks.*.fc2: columns']", "fc2"},
                                          {"['blocks.*.norm1: columns']", "no linear layer"},
                                          {"['blocks.0.fc1: columns', 'blocks.0.fc2: rows']", "its equal"},
                                          {"['blocks.*.fc9: rows']", "no linear layer"},
                                          {"['blocks.*.fc1: sideways']", "neither"},
                                          {"['embed: columns']", "no linear layer"}})
    EXPECT_NE(
        refusal(fixture("vit"), {"layout.tp=2", "train.global_batch=16", "net.tensor=" + words}).find(says),
        std::string::npos)
        << words << ": "
        << refusal(fixture("vit"), {"layout.tp=2", "train.global_batch=16", "net.tensor=" + words});
}

TEST(Traced, CompiledHasFewerKernelsAndTheSameProducts) {
  const Plan eager = nets::build_plan(traced("vit"), 0, {}),
             compiled = nets::build_plan(traced("vit", {"net.compiled=true"}), 0, {});
  EXPECT_LT(compiled.ops.size(), eager.ops.size());
  for (const Pass pass : {Pass::forward, Pass::backward})
    EXPECT_EQ(flops_of(eager, pass), flops_of(compiled, pass));
  EXPECT_LT(totals(compiled, 1).step.bytes(), totals(eager, 1).step.bytes());
}

TEST(Traced, EqualBlocksStandForEachOther) {
  const RunSpec spec = traced("vit");
  const std::vector<Part> parts = nets::parts_of(spec.net);
  ASSERT_EQ(parts.size(), 6u);
  EXPECT_EQ(parts[2].path, "blocks.1");
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(parts[i].same_as, 1);
  EXPECT_EQ(nets::parts_of(nets::distinct_parts(spec.net)).size(), 5u);
  EXPECT_EQ(nets::cuts_of(spec.net, 2), (std::vector<int32_t>{0, 3, 6}));
}

TEST(Traced, RefusesWhatItCannotTake) {
  const std::string vit = fixture("vit");
  for (const auto& [words, says] :
       std::map<std::string, std::string>{{"layout.tp=2", "net.tensor"},
                                          {"layout.cp=2", "not cut"},
                                          {"layout.pp=5", "5 stages"},
                                          {"policy.amp=fp8", "recorded"},
                                          {"policy.recompute=selective", "parts"},
                                          {"policy.attention=unfused", "recorded"}})
    EXPECT_NE(refusal(vit, {words, "train.global_batch=16"}).find(says), std::string::npos)
        << words << ": " << refusal(vit, {words, "train.global_batch=16"});
  const RunSpec spec = traced("vit");
  try {
    nets::require_kernels(spec, nets::build_plan(spec, 0, {}));
    FAIL() << "a recorded net has no kernels";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("run.command"), std::string::npos) << e.what();
  }
}

TEST(Traced, DamagedFilesAreOneError) {
  const fs::path at = fs::path(::testing::TempDir()) / "traced_damaged.json";
  const std::string whole = read_file(fixture("vit"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const size_t i = text.find(from);
    EXPECT_NE(i, std::string::npos) << from;
    text.replace(i, from.size(), to);
    std::ofstream(at) << text;
    return refusal(at.string());
  };
  EXPECT_NE(with("\"version\":1", "\"version\":2").find("version"), std::string::npos);
  EXPECT_NE(with("\"op\":\"native_layer_norm\"", "\"op\":\"linalg_solve\"").find("no price"),
            std::string::npos);
  EXPECT_NE(with("\"definition\":1", "\"definition\":99").find("does not have"), std::string::npos);
  EXPECT_NE(with("\"takes\":1", "\"takes\":100000").find("takes more"), std::string::npos);
  EXPECT_NE(with("float32\"],", "float31\"],").find("float31"), std::string::npos);
  EXPECT_NE(with("\"definitions\"", "\"definitio\"").find("not whole"), std::string::npos);
  std::ofstream(at) << whole.substr(0, whole.size() / 2);
  EXPECT_NE(refusal(at.string()), "(accepted)");
  fs::remove(at);
  EXPECT_NE(refusal(at.string()), "(accepted)");
}

}  // namespace
}  // namespace isobar::plan
