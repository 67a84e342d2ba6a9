// Ops priced by measured times of their own shapes.
#include "perfmodel/step/shapes.h"

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "model/base/error.h"
#include "model/plan/ops/op_table.h"
#include "perfmodel/fitting/calibrate.h"
#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/machine/device.h"
#include "tests/perfmodel/support.h"

namespace isobar::perf {
namespace {

using nlohmann::json;

RunSpec emulator(const std::string& amp, int64_t batch, int64_t threads) {
  return load_run_spec(source_dir() + "/configs/models/mlp-emulator.yaml",
                       {"policy.amp=" + amp, "train.global_batch=" + std::to_string(batch),
                        "run.threads=" + std::to_string(threads)});
}

double price(const plan::Op& op, const plan::Plan& plan, const Machine& m, const Conditions& where) {
  return seconds(count_op(op, plan, cache_share(m, where.ranks_on_host), where), rates(m.values(), where));
}

bool timed(const plan::Op& op) {
  return op.kind != plan::OpKind::fetch && !plan::is_collective(op.kind);
}

// Benchmarks of an emulator's ops, each off its class's price by a random factor, as isobar calibrate --for
// writes them; `took`: seconds by name
json benchmarks(const Machine& truth, std::mt19937_64& random, std::map<std::string, double>& took) {
  std::uniform_real_distribution<double> off(-1.5, 1.5);
  json rows = json::array();
  const auto add = [&](const std::string& name, const json& counters, double seconds) {
    json row = counters;
    row["name"] = row["run_name"] = name + "/iterations:1/repeats:3/manual_time";
    row["time_unit"] = "us";
    row["real_time"] = 1e6 * seconds;
    rows.push_back(row);
  };
  add("peak/f32", {{"flops", 1e9}}, 1e9 / truth.peaks.at("f32").value);
  add("peak/bf16", {{"flops", 1e9}}, 1e9 / truth.peaks.at("bf16").value);
  add("stream/f32", {{"bytes", 1e9}}, 1e9 / truth.peaks.at("memory").value);
  for (const char* amp : {"none", "bf16"})
    for (const int64_t threads : {1, 2}) {
      const RunSpec s = emulator(amp, 256, threads);
      const plan::Plan plan = nets::build_plan(s, 0, {});
      const Conditions where = conditions_of(s, truth);
      for (const plan::Op& op : plan.ops) {
        const std::string name = case_name(op, case_precision(s), threads);
        if (!timed(op) || took.contains(name)) continue;
        const plan::Work w = plan::work(op, plan);
        took[name] = price(op, plan, truth, where) * std::exp(std::abs(off(random)));
        json counters = {{"threads", threads}, {"ranks", 1}, {"own_shape", 1}};
        for (const auto& [key, value] :
             {std::pair{"flops", w.flops}, {"vector_flops", w.vector_flops}, {"bytes", w.bytes()}})
          if (value > 0) counters[key] = value;
        add(name, counters, took[name]);
      }
    }
  return {{"context",
           {{"host_name", "bench"},
            {"cpu", "Some CPU"},
            {"cores", 2},
            {"memory_bytes", "16000000000"},
            {"cache_bytes", "32000000"}}},
          {"benchmarks", rows}};
}

TEST(Shapes, AnOpOfATimedShapeTakesItsTime) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::map<std::string, double> took;
  const Machine written = machine_from_benchmarks(benchmarks(test::machine(), random, took));
  const Machine m = parse_machine(to_yaml(written), "calibrated.yaml");
  ASSERT_NE(m.shapes, nullptr);
  EXPECT_EQ(m.shapes->size(), took.size());
  for (const char* amp : {"none", "bf16"})
    for (const int64_t threads : {1, 2}) {
      const RunSpec s = emulator(amp, 256, threads);
      const plan::Plan plan = nets::build_plan(s, 0, {});
      const Conditions where = conditions_of(s, m);
      for (const plan::Op& op : plan.ops) {
        if (!timed(op)) continue;
        const std::string name = case_name(op, case_precision(s), threads);
        // Benchmarks name one type for all ops of a policy, including f32 sums, so their charged threads may
        // differ by the sharing between two.
        const double slack = threads == 1 ? 1e-9 : 0.1;
        EXPECT_NEAR(price(op, plan, m, where) / took.at(name), 1, slack) << name;
      }
    }
}

TEST(Shapes, OtherShapesThreadsAndPrecisionsKeepThePricesOfTheirClass) {
  std::mt19937_64 random(1);
  std::map<std::string, double> took;
  const Machine m = machine_from_benchmarks(benchmarks(test::machine(), random, took));
  Machine without = m;
  without.shapes = nullptr;
  for (const RunSpec& s : {emulator("none", 250, 1), emulator("tf32", 256, 1), emulator("none", 256, 4)}) {
    const plan::Plan plan = nets::build_plan(s, 0, {});
    for (const plan::Op& op : plan.ops)
      if (op.kind != plan::OpKind::adam && op.kind != plan::OpKind::squared_sum &&
          op.kind != plan::OpKind::zero && op.kind != plan::OpKind::loss)  // equal in every batch
        EXPECT_EQ(price(op, plan, m, conditions_of(s, m)),
                  price(op, plan, without, conditions_of(s, without)))
            << op.path;
  }
  EXPECT_NE(predict(emulator("none", 256, 1), without, {}).step_s,
            predict(emulator("none", 256, 1), m, {}).step_s);
}

// Ops without a part, like the optimizer's, keep their class's prices there.
TEST(Shapes, LayoutsArePricedByThemToo) {
  std::mt19937_64 random(1);
  std::map<std::string, double> took;
  const Machine m = machine_from_benchmarks(benchmarks(test::machine(), random, took));
  Machine without = m;
  without.shapes = nullptr;
  for (const char* amp : {"none", "bf16"}) {
    RunSpec s = emulator(amp, 256, 1);
    const plan::Plan plan = nets::build_plan(s, 0, {});
    const auto parts = [&](const Machine& machine) {
      const Conditions where = conditions_of(s, machine);
      double all = 0;
      for (const plan::Op& op : plan.ops)
        if (op.part >= 0)
          all += seconds(count_op(op, plan, cache_of_rank(machine, where.ranks_on_host), where),
                         rates(machine.values(), where));
      return all;
    };
    const Layout l = layout_of(s);
    EXPECT_NEAR(LayoutModel(s, m).cost(l).compute / parts(m), 1, 1e-9);
    EXPECT_NEAR(LayoutModel(s, without).cost(l).compute / parts(without), 1, 1e-9);
    EXPECT_GT(std::abs(parts(m) / parts(without) - 1), 1e-3);
    // An untimed batch
    s.train.global_batch = s.policy.micro_batch = 250;
    EXPECT_EQ(LayoutModel(s, m).cost(layout_of(s)).seconds,
              LayoutModel(s, without).cost(layout_of(s)).seconds);
  }
}

// Head sizes timed by calibration, between two, and beyond them
TEST(Shapes, AttentionIsPricedByItsHeadSize) {
  Machine m = test::machine(), without = m;
  m.shapes = std::make_shared<const ShapeFactors>(
      ShapeFactors{{"attention/f32/d16", 1.5}, {"attention/f32/d64", 0.96}, {"attention/bf16/d32", 9}});
  m = parse_machine(to_yaml(m), "m.yaml");
  for (const auto& [heads, factor] :
       {std::pair{16, 1.5}, {8, 1.5}, {4, 1.2}, {2, 0.96}, {1, 0.96}}) {  // sizes of 8 to 128
    RunSpec s = test::tiny();
    s.net.vit().num_heads = heads;
    const plan::Plan plan = nets::build_plan(s, 0, {});
    for (const plan::Op& op : plan.ops)
      if (timed(op))
        EXPECT_NEAR(
            price(op, plan, m, conditions_of(s, m)) / price(op, plan, without, conditions_of(s, without)),
            op.kind == plan::OpKind::attention ? factor : 1, 1e-9)
            << op.path << " " << heads;
  }
}

TEST(Shapes, AreAskedForOfTimedKindsAlone) {
  Conditions where{.shapes = std::make_shared<const ShapeFactors>(ShapeFactors{
                       {"attention_backward/f32/d16", 1.5}, {"gemm/bf16/NT64x64x64/threads1", 2}}),
                   .precision = "f32"};
  EXPECT_TRUE(has_timed(plan::OpKind::attention_backward, where));
  EXPECT_FALSE(has_timed(plan::OpKind::attention, where)) << "a longer name's beginning";
  EXPECT_FALSE(has_timed(plan::OpKind::gemm, where)) << "another precision";
  where.precision = "bf16";
  EXPECT_TRUE(has_timed(plan::OpKind::gemm, where));
  EXPECT_FALSE(has_timed(plan::OpKind::gemm, {}));
}

TEST(Shapes, CausalAttentionHasFactorsOfItsOwnWhereItWasTimed) {
  const RunSpec s = load_run_spec(source_dir() + "/configs/models/gpt-tiny.yaml", {"policy.micro_batch=1"});
  const plan::Plan plan = nets::build_plan(s, 0, {});
  const auto of_heads = [&](const ShapeFactors& factors) {
    Machine m = test::machine();
    m.shapes = std::make_shared<const ShapeFactors>(factors);
    m = parse_machine(to_yaml(m), "m.yaml");
    for (const plan::Op& op : plan.ops)
      if (op.kind == plan::OpKind::attention) return shape_factor(op, conditions_of(s, m));
    return 0.0;
  };
  EXPECT_EQ(of_heads({{"attention/f32/d16", 1.5}}), 1.5);
  EXPECT_EQ(of_heads({{"attention/f32/d16", 1.5}, {"attention/f32/d16causal", 3}}), 3);
  EXPECT_NEAR(
      of_heads({{"attention/f32/d16", 1.5}, {"attention/f32/d8causal", 4}, {"attention/f32/d32causal", 1}}),
      2, 1e-9);
}

TEST(Shapes, CalibrationKeepsWhatItsHeadSizesTake) {
  std::mt19937_64 random(1);
  std::map<std::string, double> took;
  json j = benchmarks(test::machine(), random, took);
  const double scores = 4.0 * 512 * 512;
  // Narrower heads cost more a FLOP, except for the widest, which cost most
  const std::map<int64_t, double> us{{32, 4000}, {64, 6000}, {128, 22000}};
  for (const int64_t threads : {1, 2})
    for (const auto& [size, time] : us)
      j["benchmarks"].push_back(
          {{"name", "attention/f32/d" + std::to_string(size) + "t" + std::to_string(threads)},
           {"time_unit", "us"},
           {"real_time", time / static_cast<double>(threads)},
           {"flops", 4 * scores * static_cast<double>(size)},
           {"vector_flops", scores},
           {"bytes", 1e6},
           {"head_size", size},
           {"threads", threads}});
  const Machine m = machine_from_benchmarks(j);
  EXPECT_GT(m.shapes->at("attention/f32/d128"), m.shapes->at("attention/f32/d64"));
  RunSpec s = test::tiny();
  for (const int64_t size : {64, 128}) {
    s.net.vit().num_heads = 128 / size;
    const plan::Plan plan = nets::build_plan(s, 0, {});
    for (const plan::Op& op : plan.ops)
      if (op.kind == plan::OpKind::attention)
        EXPECT_NEAR(price(op, plan, m, conditions_of(s, m)) / plan::work(op, plan).vector_flops /
                        (1e-6 * us.at(size) / scores),
                    1, 0.08)
            << size;
  }
}

TEST(Shapes, AFactorThatIsNoneIsRefusedByName) {
  Machine m = test::machine();
  m.shapes = std::make_shared<const ShapeFactors>(ShapeFactors{{"gemm/f32/NT64x64x64/threads1", 2}});
  std::string text = to_yaml(m);
  EXPECT_EQ(parse_machine(text, "m.yaml").shapes->at("gemm/f32/NT64x64x64/threads1"), 2);
  text.replace(text.find("threads1: 2") + 10, 1, "-1");
  try {
    parse_machine(text, "m.yaml");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("shapes.gemm/f32/NT64x64x64/threads1"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace isobar::perf
