// Predictions of an H200 from its own calibration (bench/results/gpu-nvidia-h200-machine.yaml), held to the
// steps that it took in the same run (gpu-nvidia-h200-*.json).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "perfmodel/ask/predict.h"
#include "perfmodel/machine/shipped.h"
#include "perfmodel/step/shapes.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

using nlohmann::json;

json parts(int call) {
  std::ifstream in(source_dir() + "/bench/results/gpu-nvidia-h200-" + std::to_string(call) + ".json");
  return json::parse(in).at("parts");
}

/// cuDNN's FLOP/s of an attention there, alone
double rate(const json& cases, const std::string& name) {
  return cases.at(name).at("cudnn").at("tflops").get<double>();
}

// With causal heads as that card ran them: cuDNN's backward takes as long as without a mask.
Machine h200(bool causal) {
  Machine m = load_machine(source_dir() + "/bench/results/gpu-nvidia-h200-machine.yaml");
  if (!causal) return m;
  const json cases = parts(1).at("attention").at("cases");
  ShapeFactors shapes = *m.shapes;
  for (const auto& [kind, pass, which] :
       {std::tuple{"attention", "forward/", ""}, {"attention_backward", "backward/", "/0"}})
    shapes[head_name(kind, "bf16", 64, true)] = shapes.at(head_name(kind, "bf16", 64, false)) *
                                                rate(cases, std::string("speed/") + pass + "d64" + which) /
                                                rate(cases, std::string("causal/") + pass + "d64" + which);
  m.shapes = std::make_shared<const ShapeFactors>(shapes);
  return m;
}

/// Predicted over measured step of a net there, less 1
double error(const std::string& net, const Machine& m, std::vector<std::string> set) {
  for (const char* word : {"run.device=cuda", "data.workers=8"}) set.emplace_back(word);
  const RunSpec spec = load_run_spec(source_dir() + "/configs/models/" + net + ".yaml", set);
  return predict(spec, m, {}).step_s / parts(2).at("predict").at(net).at("measured_step_s").get<double>() - 1;
}

TEST(H200, CausalAttentionTakesWhatItsOwnTimingsSay) {
  const std::vector<std::string> llama = {"policy.micro_batch=2", "train.global_batch=2",
                                          "net.seq_length=4096"};
  EXPECT_LE(std::abs(error("llama3.2-1b", h200(true), llama)), 0.05);
  EXPECT_LT(error("llama3.2-1b", h200(false), llama), -0.1);
}

TEST(H200, ItsCalibrationAloneSaysWhatTheVitsTake) {
  const Machine m = h200(false);
  EXPECT_LE(std::abs(error("vit-1536", m, {"train.global_batch=4", "policy.micro_batch=4"})), 0.05);
  EXPECT_LE(
      std::abs(error("vit-384", m, {"train.global_batch=16", "policy.micro_batch=16", "policy.amp=bf16"})),
      0.05);
}

}  // namespace
}  // namespace isobar::perf
