// Jacobians against independent computations: for an mlp the chain rule and finite differences in float64;
// for other nets finite differences of their forecasts along random directions.
#include "model/inference/jacobian.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <random>

#include "model/base/error.h"
#include "model/base/text/yaml.h"
#include "model/engine/validation/jacobian_statistics.h"
#include "model/inference/weights/checkpoint.h"
#include "model/inference/weights/params.h"
#include "tests/engine/layouts.h"
#include "tests/paths.h"

namespace isobar::engine {
namespace {

using Reals = std::vector<double>;

struct Layer64 {
  int64_t in, out;
  Reals weight, bias;  // [out, in], [out]
};

double value_of(const std::string& activation, double x) {
  if (activation == "relu") return std::max(0.0, x);
  if (activation == "silu") return x / (1 + std::exp(-x));
  if (activation == "tanh") return std::tanh(x);
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

double slope_of(const std::string& activation, double x) {
  const double s = 1 / (1 + std::exp(-x)), t = std::tanh(x);
  if (activation == "relu") return x > 0 ? 1 : 0;
  if (activation == "silu") return s * (1 + x * (1 - s));
  if (activation == "tanh") return 1 - t * t;
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

// The net at x, and its Jacobian [out, in] as the product of the layers' Jacobians.
Reals forward64(const std::vector<Layer64>& net, const std::string& activation, Reals x, Reals* jacobian) {
  const auto inputs = static_cast<int64_t>(x.size());
  Reals J(static_cast<size_t>(inputs * inputs), 0.0);
  for (int64_t i = 0; i < inputs; ++i) J[i * inputs + i] = 1;
  for (size_t l = 0; l < net.size(); ++l) {
    const Layer64& a = net[l];
    Reals y = a.bias, K(static_cast<size_t>(a.out * inputs), 0.0);
    for (int64_t o = 0; o < a.out; ++o) {
      for (int64_t i = 0; i < a.in; ++i) {
        const double w = a.weight[o * a.in + i];
        y[o] += w * x[i];
        for (int64_t k = 0; k < inputs; ++k) K[o * inputs + k] += w * J[i * inputs + k];
      }
      if (l + 1 == net.size()) continue;
      for (int64_t k = 0; k < inputs; ++k) K[o * inputs + k] *= slope_of(activation, y[o]);
      y[o] = value_of(activation, y[o]);
    }
    x = std::move(y), J = std::move(K);
  }
  if (jacobian) *jacobian = J;
  return x;
}

double norm_of(const Reals& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

template <class Got>
double distance_of(const Got& got, const Reals& want) {
  Reals d(want.size());
  for (size_t i = 0; i < want.size(); ++i) d[i] = static_cast<double>(got[i]) - want[i];
  return norm_of(d) / norm_of(want);
}

RunSpec wide_mlp(const std::string& activation) {
  return load_run_spec(
      source_dir() + "/configs/models/mlp-emulator.yaml",
      {"net.in_features=7", "net.out_features=5", "net.hidden=[33,64,17]", "net.activation=" + activation});
}

TEST(Jacobians, OfAnMlpAreTheChainRulesInFloat64) {
  std::mt19937_64 random(std::random_device{}());
  std::normal_distribution<double> normal;
  for (const std::string activation : {"gelu", "relu", "silu", "tanh"}) {
    inference::Jacobian jacobian(wide_mlp(activation), 3, 1);  // row passes of 3, 3 and 1
    ASSERT_EQ(jacobian.inputs(), 7);
    ASSERT_EQ(jacobian.outputs(), 5);
    std::vector<Layer64> net;
    for (const plan::Param& p : jacobian.plan().params) {
      Reals values(static_cast<size_t>(p.count));
      for (double& v : values) v = static_cast<double>(static_cast<float>(0.3 * normal(random)));
      for (int64_t i = 0; i < p.count; ++i) jacobian.weights()[p.offset + i] = static_cast<float>(values[i]);
      if (p.shape.size() == 2)
        net.push_back({p.shape[1], p.shape[0], values, {}});
      else
        net.back().bias = values;
    }
    jacobian.weights_changed();
    Reals computed, wanted, differenced;  // over all samples: a single one may cancel
    for (int sample = 0; sample < 16; ++sample) {
      std::vector<float> x(7);
      for (float& v : x) v = static_cast<float>(normal(random));
      const Reals x64(x.begin(), x.end());
      Reals want;
      forward64(net, activation, x64, &want);
      const std::vector<float> got = jacobian.rows(x.data(), {0, 1, 2, 3, 4});
      ASSERT_EQ(got.size(), want.size());
      computed.insert(computed.end(), got.begin(), got.end());
      wanted.insert(wanted.end(), want.begin(), want.end());
      if (activation == "relu") continue;  // not differentiable
      Reals differences(want.size());
      for (int64_t i = 0; i < 7; ++i) {
        const double h = 1e-5;
        Reals up = x64, down = x64;
        up[i] += h, down[i] -= h;
        const Reals above = forward64(net, activation, up, nullptr),
                    below = forward64(net, activation, down, nullptr);
        for (int64_t o = 0; o < 5; ++o) differences[o * 7 + i] = (above[o] - below[o]) / (2 * h);
      }
      differenced.insert(differenced.end(), differences.begin(), differences.end());
      // Selected rows in another order
      const std::vector<float> some = jacobian.rows(x.data(), {4, 1});
      for (int64_t i = 0; i < 7; ++i) {
        EXPECT_EQ(some[i], got[28 + i]);
        EXPECT_EQ(some[7 + i], got[7 + i]);
      }
    }
    EXPECT_LT(distance_of(computed, wanted), 1e-6) << activation;
    if (!differenced.empty()) {
      EXPECT_LT(distance_of(computed, differenced), 1e-6) << activation;
    }
  }
}

// Along random directions against fp32 differences of forecasts, for the patches of a ViT, a unet and a swin.
TEST(Jacobians, OfFieldsAreThoseOfTheForecasts) {
  std::mt19937_64 random(std::random_device{}());
  std::normal_distribution<double> normal;
  for (const TestNet& net : {kVit, kUnet, kSwin}) {
    const Folder dir;
    trained_to(dir / "run", {"net.in_channels=3", "net.out_channels=2"}, 1, 10, {}, net);
    const fs::path checkpoint = inference::find_checkpoint(fs::path(dir / "run"));
    const inference::CheckpointState state = inference::read_state(checkpoint);
    // Attention's workspace is per thread, and kernels use all threads of OpenMP.
    inference::Forecaster forecast(checkpoint, state, 2, omp_get_max_threads());
    inference::Jacobian jacobian(state.spec, 3, omp_get_max_threads());
    jacobian.take_weights(forecast);
    const int64_t inputs = jacobian.inputs(), outputs = jacobian.outputs();
    ASSERT_EQ(inputs, forecast.input().size());
    ASSERT_EQ(outputs, forecast.output().size());
    std::vector<float> x(inputs), direction(inputs), both(2 * inputs), target(2 * outputs), y(2 * outputs);
    for (float& v : x) v = static_cast<float>(normal(random));
    for (float& v : direction) v = static_cast<float>(normal(random));
    constexpr float h = 0.02f;
    for (int64_t i = 0; i < inputs; ++i)
      both[i] = x[i] + h * direction[i], both[inputs + i] = x[i] - h * direction[i];
    forecast(both.data(), target.data(), y.data());
    const std::vector<int64_t> which = {0, outputs - 1, outputs / 2, outputs / 3, outputs / 5};
    const std::vector<float> rows = jacobian.rows(x.data(), which);
    Reals along, differences;
    for (size_t r = 0; r < which.size(); ++r) {
      double sum = 0;
      for (int64_t i = 0; i < inputs; ++i)
        sum += static_cast<double>(rows[static_cast<int64_t>(r) * inputs + i]) * direction[i];
      along.push_back(sum);
      differences.push_back((static_cast<double>(y[which[r]]) - y[outputs + which[r]]) / (2.0 * h));
    }
    EXPECT_GT(norm_of(along), 1e-3) << "nothing is tested";
    EXPECT_LT(distance_of(along, differences), 1e-2) << net.config;
  }
}

// The Jacobian's program computes no weight gradients.
TEST(Jacobians, NeedNoGradientsOfParameters) {
  const inference::Jacobian jacobian(wide_mlp("gelu"), 1, 1);
  const plan::Plan& plan = jacobian.plan();
  const plan::Program all = plan::link(plan, plan.train, true),
                      needed = plan::needed_for(plan, all, {plan.input_gradient});
  int64_t products = 0;
  for (const plan::Instr& i : needed.instrs) {
    EXPECT_FALSE(plan.ops[i.op].weight_gradient) << plan.ops[i.op].path;
    EXPECT_NE(plan.ops[i.op].kind, plan::OpKind::adam);
    products += plan.ops[i.op].kind == plan::OpKind::gemm;
  }
  EXPECT_EQ(products, 8);  // four forward, four backward
  EXPECT_LT(needed.instrs.size(), all.instrs.size());
}

TEST(Jacobians, AreSummedUpAsTheirDefinitionsSay) {
  // Two samples of [2, 3]: diag(3, 4), and a matrix of rank one
  const records::JacobianRecord r = statistics_of({{3, 0, 0, 0, 4, 0}, {1, -2, 2, 2, -4, 4}}, 2, 3);
  EXPECT_EQ(r.samples, 2);
  EXPECT_NEAR(r.frobenius, (5 + std::sqrt(45.0)) / 2, 1e-12);
  EXPECT_NEAR(r.mean, (7 + 15) / 12.0, 1e-12);
  EXPECT_EQ(r.max, 4);
  const double mean = (7 + 3) / 12.0;
  EXPECT_NEAR(r.std, std::sqrt((25 + 45) / 12.0 - mean * mean), 1e-12);
  ASSERT_EQ(r.sensitivity.size(), 3u);
  EXPECT_NEAR(r.sensitivity[0], (1.5 + 1.5) / 2, 1e-12);
  EXPECT_NEAR(r.sensitivity[1], (2 + 3) / 2.0, 1e-12);
  EXPECT_NEAR(r.sensitivity[2], (0 + 3) / 2.0, 1e-12);
  EXPECT_NEAR(*statistics_of({{3, 0, 0, 0, 4, 0}}, 2, 3).condition, 4.0 / 3, 1e-12);
}

}  // namespace
}  // namespace isobar::engine
