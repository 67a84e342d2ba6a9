// Predictions of nets that PyTorch recorded: the closed form of searches agrees with the replay of linked
// plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/base/error.h"
#include "model/nets/layout/busiest_rank.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/step/engine_prices.h"
#include "perfmodel/step/op_terms.h"
#include "perfmodel/step/simulate.h"
#include "tests/perfmodel/support.h"

namespace isobar::perf {
namespace {

RunSpec recorded_net(const std::string& name, std::vector<std::string> more, int64_t micro_batch = 64) {
  more.insert(more.end(), {"train.global_batch=4096", "policy.micro_batch=" + std::to_string(micro_batch)});
  RunSpec s = load_run_spec(source_dir() + "/tests/fixtures/traced/" + name + ".json", more);
  s.data.workers = 16;  // loaders keep up
  return s;
}

double replay_of_recorded(const RunSpec& s, const Machine& given) {
  const Machine m = machine_of(s, given);
  const Conditions where = conditions_of(s, m);
  return simulate(s, nets::stages_of(s, {}, nets::busiest_rank(s)), m.values(), where,
                  std::numeric_limits<double>::infinity())
      .step_s;
}

// Nets of fixtures are so small that launches set the pace, which a pipeline's closed form knows less
// exactly.
TEST(RecordedNets, ClosedFormAndReplayAgree) {
  const Machine m = test::cluster("dgx-h100");
  std::vector<double> gaps;
  for (const char* name : {"vit", "unet"})
    for (const std::vector<std::string>& layout :
         std::vector<std::vector<std::string>>{{"layout.dp=1"},
                                               {"layout.dp=4", "policy.zero=1", "net.compiled=true"},
                                               {"layout.dp=4", "policy.zero=2", "policy.amp=bf16"},
                                               {"layout.dp=2", "policy.zero=3"},
                                               {"layout.pp=2"},
                                               {"layout.pp=2", "policy.recompute=full", "policy.amp=bf16"},
                                               {"layout.dp=2", "layout.pp=3"}})
      for (const int64_t samples : {64, 512}) {
        const RunSpec s = recorded_net(name, layout, samples);
        LayoutModel model(s, m);
        gaps.push_back(std::abs(model.cost(layout_of(s)).seconds / replay_of_recorded(s, m) - 1));
        EXPECT_LT(gaps.back(), 0.12) << name << " " << layout[0] << ", micro-batch " << samples;
      }
  std::sort(gaps.begin(), gaps.end());
  EXPECT_LT(gaps[gaps.size() / 2], 0.015);
}

TEST(RecordedNets, CompiledStepsAreFasterAndLaunchesCost) {
  const Machine m = test::cluster("dgx-h100");
  const double eager = replay_of_recorded(recorded_net("vit", {}), m),
               compiled = replay_of_recorded(recorded_net("vit", {"net.compiled=true"}), m);
  EXPECT_LT(compiled, 0.95 * eager);
  // Four times the samples a micro-batch are a quarter of the launches, which set the pace of so small a net.
  EXPECT_LT(replay_of_recorded(recorded_net("vit", {}, 256), m), 0.5 * eager);
}

// PyTorch 2.11's steps on an H100 and an H200, bf16, milliseconds; prices were set by the H100's first four
// (configs/engines/pytorch.yaml).
struct PyTorchStep {
  const char *machine, *net, *engine;
  int64_t batch;
  double ms, most_off;
};
constexpr PyTorchStep kPyTorchSteps[] = {{"dgx-h100", "vit1536", "pytorch", 4, 131.2, 0.06},
                                         {"dgx-h100", "vit1536", "pytorch-compiled", 4, 119.2, 0.03},
                                         {"dgx-h100", "vit384", "pytorch", 16, 109.3, 0.03},
                                         {"dgx-h100", "vit384", "pytorch-compiled", 16, 91.3, 0.04},
                                         {"dgx-h200", "vit1536", "pytorch", 4, 125.6, 0.08},
                                         {"dgx-h200", "vit1536", "pytorch-compiled", 4, 114.7, 0.08},
                                         {"dgx-h200", "vit384", "pytorch", 16, 104.4, 0.08},
                                         {"dgx-h200", "vit384", "pytorch-compiled", 16, 87.9, 0.08}};

RunSpec with_engine(RunSpec s, const PyTorchStep& t) {
  s.train.global_batch = s.policy.micro_batch = t.batch;
  s.policy.amp = Amp::bf16;
  s.data.workers = 16;  // loaders keep up
  s.run.device = RunDevice::automatic;
  if (s.net.recorded()) s.net.traced().compiled = engine_named(t.engine).habits.compiled;
  return s;
}

TEST(PyTorchEngine, StepsAreThoseOfTheCards) {
  for (const PyTorchStep& t : kPyTorchSteps) {
    const Machine m = test::cluster(t.machine);
    const std::string fixture = source_dir() + "/tests/fixtures/traced/" + t.net + ".json";
    const double recorded = predict(with_engine(load_run_spec(fixture, {}), t), m, {}).step_s;
    EXPECT_NEAR(1e3 * recorded / t.ms, 1, t.most_off) << t.machine << " " << t.net << " " << t.engine;
    // Isobar's plan of the same net
    RunSpec own;
    own.net.vit().embed_dim = std::atoi(t.net + 3);
    own.net.vit().depth = 12;
    own.net.vit().num_heads = 8;
    own = with_engine(own, t);
    const Machine as_run = run_by(engine_named(t.engine), m, false);
    EXPECT_NEAR(1e3 * predict(own, as_run, {}).step_s / t.ms, 1, 0.08)
        << t.machine << " " << t.net << " " << t.engine;
  }
}

// Reference: PyTorch's convolutions on a core, whose groups of 16 channels reach 0.53 of the rate of whole
// ones.
TEST(PyTorchEngine, NarrowGroupsUseCoresLittle) {
  const Machine m = test::cluster("example-2core");
  const auto rate = [&](plan::OpKind kind, double channels) {
    OpShape s{.kind = kind, .price = plan::PriceClass::product, .dtype = DType::f32};
    s.work.flops = 1e10;
    s.m = 1e4, s.n = channels, s.k = 9 * channels, s.batch = 512 / channels;
    return s.work.flops / op_seconds(s, m.values(), {.threads = 1}, 1e9, nullptr);
  };
  const double whole = rate(plan::OpKind::gemm, 16);
  EXPECT_NEAR(rate(plan::OpKind::grouped_gemm, 16) / whole, 0.53, 0.06);
  EXPECT_NEAR(rate(plan::OpKind::grouped_gemm, 64) / whole, 0.9, 0.1);
}

TEST(PyTorchEngine, FitsAreOfItsRunsAlone) {
  Machine m = test::cluster("dgx-h100");
  const Machine eager = run_by(engine_named("pytorch"), m, true);
  EXPECT_EQ(parse_machine(to_yaml(eager), "eager.yaml").engine, "pytorch");
  EXPECT_EQ(run_by(engine_named("pytorch"), eager, true)[Coef::norm].value, eager[Coef::norm].value);
  EXPECT_THROW(run_by(engine_named("pytorch"), eager, false), ConfigError);
  EXPECT_THROW(predict(recorded_net("vit", {"net.compiled=true"}), eager, {}), ConfigError);
  // A calibrated file knows the card's products, which PyTorch calls too.
  m.timed["tokens"] = {1, 2};
  EXPECT_EQ(run_by(engine_named("pytorch"), m, true)[Coef::gemm_bf16].value, m[Coef::gemm_bf16].value);
  EXPECT_NE(run_by(engine_named("pytorch"), m, true)[Coef::norm].value, m[Coef::norm].value);
}

}  // namespace
}  // namespace isobar::perf
