// Settings of published rows that Isobar's own engine has not: block-scaled products, activations in host
// memory, packed samples.
#include "model/base/spec/settings_of_others.h"

#include <gtest/gtest.h>

#include <map>

#include "model/base/error.h"
#include "model/nets/build.h"
#include "perfmodel/ask/choose/engine_on.h"
#include "perfmodel/layouts/layout_model.h"
#include "perfmodel/machine/shipped.h"
#include "perfmodel/score/counts/net_counts.h"
#include "perfmodel/score/counts/step_model.h"
#include "perfmodel/score/published/published_spec.h"
#include "perfmodel/score/scoreboard/referee.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

const std::string kShippedConfigs = source_dir() + "/configs/";

/// The net of a row says only what plans of it need, so the sizes of its steps are compared.
TEST(SettingsOfOthers, RowsKeepThemAsASpecification) {
  std::map<std::string, Machine> machines;
  for (const std::string& file : files_in(kShippedConfigs + "machines", ".yaml"))
    if (Machine m = load_machine(file); m.accelerator) machines.emplace(chip_of(m).name, m);
  std::map<std::string, int> seen;
  for (const PublishedTable& t : load_library(kShippedConfigs + "published"))
    for (const PublishedRun& r : t.runs) {
      const std::map<std::string, bool> has{{"mxfp8", r.precision == Precision::fp8 && r.block_scaled},
                                            {"nvfp4", r.precision == Precision::fp4},
                                            {"offloaded", r.offloaded_layers > 0},
                                            {"some recomputed", r.recomputed < 1}};
      RunSpec s;
      try {
        s = spec_of(r);
      } catch (const ConfigError&) {  // no specification has it; enough rows remain, below
        continue;
      }
      s.run.device = RunDevice::cuda;
      const Machine& m = machines.at(r.gpu->name);
      const PublishedRun again = run_of(s, m, *r.gpu, r.habits);
      for (const auto& [what, given] : has) seen[what] += given ? 1 : 0;
      EXPECT_EQ(again.precision, r.precision) << r.id;
      EXPECT_EQ(again.block_scaled, r.block_scaled) << r.id;
      EXPECT_DOUBLE_EQ(again.offloaded_layers, r.offloaded_layers) << r.id;
      EXPECT_DOUBLE_EQ(again.attended, r.attended) << r.id;
      EXPECT_DOUBLE_EQ(again.recomputed, r.recomputed) << r.id;
      EXPECT_NEAR(count_step(again).ceiling_s / count_step(r).ceiling_s, 1, 1e-3) << r.id;
    }
  for (const char* what : {"mxfp8", "nvfp4", "offloaded", "some recomputed"})
    EXPECT_GE(seen[what], 5) << what;
}

RunSpec llama_of(const std::vector<std::string>& settings) {
  RunSpec s = load_run_spec(kShippedConfigs + "models/llama3-8b.yaml", settings);
  s.run.device = RunDevice::cuda;
  return s;
}

TEST(SettingsOfOthers, AreRefusedOfOurOwnEngineByKey) {
  const Machine m = load_machine(kShippedConfigs + "machines/gb200-nvl72.yaml");
  for (const std::string set :
       {"policy.amp=mxfp8", "policy.amp=nvfp4", "policy.offloaded_layers=2", "net.attended_tokens=256"}) {
    const RunSpec s = llama_of({set});
    const std::string key = set.substr(0, set.find('='));
    for (const bool plans : {true, false}) try {
        if (plans)
          nets::build_plan(s, 0, {});
        else
          LayoutModel(s, m);
        ADD_FAILURE() << set << " is planned";
      } catch (const ConfigError& e) {
        EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find("--engine"), std::string::npos) << e.what();
      }
    EXPECT_NO_THROW(LayoutModel(without_settings_of_others(s), m));
    EXPECT_GT(nets::model_flops(s), 0);
  }
  EXPECT_THROW(llama_of({"policy.offloaded_layers=33"}), ConfigError) << "more than all layers";
  EXPECT_THROW(llama_of({"net.attended_tokens=1000000"}), ConfigError);
}

struct OnGb200 {
  Machine machine = load_machine(kShippedConfigs + "machines/gb200-nvl72.yaml");
  EngineOn nemo{llama_of({}), machine, {"nemo"}};
  EngineAnswer with(const std::vector<std::string>& set) const {
    std::vector<std::string> all{"layout.dp=8",           "layout.tp=1",          "layout.pp=1",
                                 "train.global_batch=64", "policy.micro_batch=1", "policy.amp=bf16",
                                 "policy.recompute=none"};
    all.insert(all.end(), set.begin(), set.end());
    return nemo.own(llama_of(all)).answer;
  }
};

TEST(SettingsOfOthers, MoveStepAndMemoryAsTheyShould) {
  const OnGb200 on;
  const EngineAnswer bf16 = on.with({}), mx = on.with({"policy.amp=mxfp8"}),
                     fp4 = on.with({"policy.amp=nvfp4"});
  EXPECT_LT(mx.step.value, bf16.step.value);
  EXPECT_LT(fp4.step.value, mx.step.value);
  const EngineAnswer packed = on.with({"net.attended_tokens=512"});
  EXPECT_LT(packed.step.value, bf16.step.value);
  const EngineAnswer window = on.with({"net.sliding_window=256"});
  EXPECT_LT(window.step.value, bf16.step.value);
  EXPECT_NEAR(window.step.value / packed.step.value, 1, 0.02) << "256 back is half of 512 both ways";
  const EngineAnswer host = on.with({"policy.offloaded_layers=16"});
  EXPECT_LT(host.memory.value, bf16.memory.value);
  EXPECT_GE(host.step.value, bf16.step.value);
  EXPECT_THROW(on.with({"policy.offloaded_layers=4", "policy.recompute=full"}), ConfigError);
  EXPECT_THROW(on.with({"policy.offloaded_layers=4", "layout.pp=2"}), ConfigError);
  const Machine hopper = load_machine(kShippedConfigs + "machines/dgx-h100.yaml");
  const EngineOn there(llama_of({}), hopper, {"nemo"});
  EXPECT_THROW(there.own(llama_of({"policy.amp=nvfp4", "policy.micro_batch=1"})), ConfigError);
  const EngineOn titan(llama_of({}), on.machine, {"torchtitan"});
  EXPECT_THROW(titan.own(llama_of({"policy.offloaded_layers=4", "policy.micro_batch=1"})), ConfigError);
}

// A micro-batch that fits only so.
TEST(SettingsOfOthers, ASearchOffloadsAsFewLayersAsMakeItFit) {
  const OnGb200 on;
  LayoutQuestion q{.top = 5, .engine = &engine_named("nemo")};
  q.keep.fix("tp=1");
  q.keep.fix("cp=1");
  q.keep.fix("pp=1");
  q.keep.fix("zero=3");
  q.keep.fix("recompute=none");
  q.keep.fix("micro_batch=4");
  RunSpec large = load_run_spec(
      kShippedConfigs + "models/llama3-70b.yaml",
      {"layout.dp=64", "layout.tp=1", "layout.pp=1", "train.global_batch=256", "policy.amp=bf16"});
  large.run.device = RunDevice::cuda;
  SearchResult found;
  const EngineLayout best = on.nemo.best(large, q, found).front();
  const double layers = best.spec.policy.offloaded_layers;
  ASSERT_GT(layers, 0);
  EXPECT_LE(best.answer.memory.value, on.nemo.memory());
  RunSpec less = best.spec;
  less.policy.offloaded_layers = layers - 1;
  EXPECT_GT(on.nemo.own(less).answer.memory.value, on.nemo.memory()) << layers;
  EXPECT_NE(layout_text(best.spec).find("offload"), std::string::npos);
  EXPECT_GT(found.considered, 0);
  const RunSpec small = llama_of({"layout.dp=8", "layout.tp=1", "layout.pp=1", "train.global_batch=64"});
  for (const EngineLayout& l : on.nemo.best(small, {.engine = &engine_named("nemo")}, found))
    if (RunSpec whole = l.spec; whole.policy.offloaded_layers > 0) {
      whole.policy.offloaded_layers = 0;
      EXPECT_GT(on.nemo.own(whole).answer.memory.value, on.nemo.memory()) << layout_text(l.spec);
    }
}

}  // namespace
}  // namespace isobar::perf
