// Predictions for any device: run.device against the machine file.
#include "perfmodel/machine/device.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "model/base/error.h"
#include "perfmodel/ask/layout_predict.h"
#include "perfmodel/referee/holdout.h"
#include "tests/paths.h"
#include "tests/perfmodel/support.h"

namespace isobar::perf {
namespace {

RunSpec on(RunDevice device, int64_t ranks = 8) {
  RunSpec s = test::tiny();
  s.file = "run.yaml";
  s.layout.dp = ranks;
  s.policy.amp = Amp::bf16;
  s.run.device = device;
  return s;
}

// The message of a refusal; "" if there is none.
template <class F>
std::string refusal(const F& f) {
  try {
    f();
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

TEST(Device, IsWhatTheMachineDescribesOrTheRunIsRefusedWithTheMend) {
  const Machine cores = test::machine(), gpus = test::cluster("dgx-a100");
  EXPECT_EQ(device_of(on(RunDevice::automatic), cores), Device::cores);
  EXPECT_EQ(device_of(on(RunDevice::cpu), cores), Device::cores);
  EXPECT_EQ(device_of(on(RunDevice::automatic), gpus), Device::accelerator);
  EXPECT_EQ(device_of(on(RunDevice::cuda), gpus), Device::accelerator);
  for (const auto& [device, machine] : {std::pair{RunDevice::cpu, &gpus}, {RunDevice::cuda, &cores}}) {
    const RunSpec s = on(device);
    const MeasuredRun run{.id = "r1", .spec = s, .host = {.ranks_on_host = 8, .threads = 1}, .step_s = 1};
    for (const std::string& said :
         {refusal([&] { predict(s, *machine, {}); }), refusal([&] { fit({run}, *machine); }),
          refusal([&] { hold_out({run}, *machine); })}) {
      EXPECT_NE(said.find("run.yaml: 'run.device'"), std::string::npos) << name_of(device) << ": " << said;
      EXPECT_NE(said.find("-> set run.device: "), std::string::npos) << said;
    }
  }
}

TEST(Device, OnePredictionWhoeverAsks) {
  const Machine cores = test::machine(), gpus = test::cluster("dgx-a100");
  for (const auto& [device, machine] : {std::pair{RunDevice::cpu, &cores}, {RunDevice::cuda, &gpus}}) {
    const RunSpec s = on(device);
    const Prediction p = predict(s, *machine, {});
    const Holdout h = hold_out(
        {{.id = "r1", .spec = s, .host = {.ranks_on_host = 8, .threads = 1}, .step_s = 1}}, *machine);
    // A run on cores states its number of threads.
    const Prediction q = predict(s, *machine, {.host = {.ranks_on_host = 8, .threads = 1}});
    EXPECT_DOUBLE_EQ(h.rows[0].predicted, q.step_s) << name_of(device);
    EXPECT_DOUBLE_EQ(h.rows[0].upper, q.upper) << name_of(device);
    EXPECT_DOUBLE_EQ(p.step_s, q.step_s) << name_of(device);
  }
  LayoutModel model(on(RunDevice::cuda), gpus);  // the price in a search
  EXPECT_DOUBLE_EQ(predict_layout(model, layout_of(on(RunDevice::cuda))).step_s,
                   predict(on(RunDevice::cuda), gpus, {}).step_s);
}

// The closed form used by sweeps of many trials instead of placed plans, on the same hosts.
TEST(Device, ClosedFormOfCoresIsThatOfTheSameHosts) {
  Machine m = test::machine();
  m.identity.cores = 4;
  RunSpec s = on(RunDevice::cpu);
  s.run.threads = 0;
  const Prediction all = predict(s, m, {.closed_form = true});
  const Prediction two = predict(s, m, {.host = {.ranks_on_host = 2}, .closed_form = true});
  EXPECT_EQ(two.where.threads, 2);
  EXPECT_EQ(all.where.threads, 1);
  for (const int64_t here : {2, 8}) {
    const double placed = predict(s, m, {.host = {.ranks_on_host = here}}).step_s;
    EXPECT_NEAR(predict(s, m, {.host = {.ranks_on_host = here}, .closed_form = true}).step_s / placed, 1, 0.3)
        << here;
  }
}

TEST(Device, OnlyNvidiasAcceleratorsTakeRunsTheOthersPredictionsThatSaySo) {
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/configs/machines")) {
    const Machine m = load_machine(entry.path().string());
    const bool runs = !m.accelerator || m.accelerator->vendor == "nvidia";
    if (m.accelerator) EXPECT_FALSE(m.accelerator->vendor.empty()) << entry.path();
    const std::string said = refusal([&] { require_trainable(m); });
    EXPECT_EQ(said.empty(), runs) << entry.path() << ": " << said;
    if (!m.accelerator) continue;
    const std::vector<std::string> notes = predict(on(RunDevice::cuda), m, {}).warnings;
    const auto only = std::count_if(notes.begin(), notes.end(), [](const std::string& n) {
      return n.find("prediction only") != std::string::npos;
    });
    EXPECT_EQ(only, runs ? 0 : 1) << entry.path();
  }
  Machine unknown = test::cluster("dgx-a100");
  unknown.accelerator->vendor = "";
  EXPECT_NE(refusal([&] { require_trainable(unknown); }).find("accelerator.vendor"), std::string::npos);
}

}  // namespace
}  // namespace isobar::perf
