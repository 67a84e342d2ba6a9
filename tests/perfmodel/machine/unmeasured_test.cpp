// Accelerators with unmeasured matmul rate: the width of their intervals, and its derivation.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "perfmodel/ask/predict.h"
#include "perfmodel/score/counts/hardware.h"
#include "tests/paths.h"
#include "tests/perfmodel/support.h"

namespace isobar::perf {
namespace {

std::vector<Machine> measured_machines() {
  std::vector<Machine> out;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/configs/machines")) {
    Machine m = load_machine(entry.path().string());
    if (m.accelerator && m[Coef::gemm_bf16].measured()) out.push_back(std::move(m));
  }
  return out;
}

Machine spec_sheet_of(const Machine& m) {
  Machine out = machine_from_spec(m.name, m.identity, m.peaks, m.accelerator);
  out.file = m.file;
  return out;
}

TEST(Unmeasured, TheIntervalIsWhatSpecSheetsWereOffByAcrossVendors) {
  // Each chip once, then each vendor once: the measured rate against the spec sheet's prediction.
  std::map<std::string, std::map<std::string, double>> squares;
  for (const Machine& m : measured_machines()) {
    const ChipSpec* chip = chip_named(m.accelerator->name);
    ASSERT_NE(chip, nullptr) << m.name;
    // The Max 1550's machine file has scaled measured rates as peaks; this is one tile's spec sheet.
    const double sheet = m.accelerator->vendor == "intel" ? 418e12 : chip->half;
    const double reached = 1 / m[Coef::gemm_bf16].value / sheet;
    const double assumed = 0.78;  // machine.cpp's default of gemm.bf16
    EXPECT_NEAR(1 / (spec_sheet_of(m)[Coef::gemm_bf16].value * m.peaks.at("bf16").value), assumed, 1e-9);
    squares[m.accelerator->vendor][chip->chip()] = std::pow(std::log(reached / assumed), 2);
  }
  ASSERT_EQ(squares.size(), 3u);
  double of_vendors = 0;
  for (const auto& [vendor, chips] : squares) {
    double sum = 0;
    for (const auto& [chip, square] : chips) sum += square / static_cast<double>(chips.size());
    std::printf("%s: %.3f in the logarithm (%zu chips)\n", vendor.c_str(), std::sqrt(sum), chips.size());
    of_vendors += sum / static_cast<double>(squares.size());
  }
  const double sigma = spec_sheet_of(measured_machines()[0])[Coef::gemm_bf16].log_sigma();
  std::printf("across vendors %.3f, taken %.3f\n", std::sqrt(of_vendors), sigma);
  EXPECT_NEAR(sigma / std::sqrt(of_vendors), 1, 0.1);
}

TEST(Unmeasured, PredictionsAreWiderSaySoAndHoldWhatTheMeasuredRateGives) {
  RunSpec s = load_run_spec(source_dir() + "/configs/models/llama3-8b.yaml",
                            {"layout.dp=8", "policy.zero=3", "policy.recompute=full", "policy.micro_batch=1",
                             "train.global_batch=64", "run.device=cuda", "policy.amp=bf16"});
  const auto says = [](const Prediction& p) {
    return std::any_of(p.warnings.begin(), p.warnings.end(), [](const std::string& w) {
      return w.find("matmul rate never measured") != std::string::npos;
    });
  };
  for (const Machine& m : measured_machines()) {
    const Prediction known = predict(s, m, {}), sheet = predict(s, spec_sheet_of(m), {});
    // Links decide the steps of these two, not products.
    const double links = m.name == "aurora" || m.name == "a100-pcie" ? 1 : 1.2;
    EXPECT_GT(std::log(sheet.upper / sheet.lower), links * std::log(known.upper / known.lower)) << m.name;
    EXPECT_LT(sheet.lower, known.step_s) << m.name;
    EXPECT_GT(sheet.upper, known.step_s) << m.name;
    EXPECT_TRUE(says(sheet)) << m.name;
    EXPECT_FALSE(says(known)) << m.name;
  }
}

}  // namespace
}  // namespace isobar::perf
