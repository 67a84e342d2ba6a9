// Tiles and waves of matrix products against a published sweep of two GPUs (gemm_efficiency.csv: 697 measured
// shapes of SimuMax, each row with its source). One scale a GPU is fitted; the spread around it is the
// model's error.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/base/text/csv_table.h"
#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/statistics.h"
#include "perfmodel/step/op_terms.h"
#include "tests/paths.h"

namespace isobar::perf {
namespace {

struct Errors {
  double mean, median, p90;
};

Errors errors_of(const std::string& gpu, int64_t processors) {
  Conditions where{.processors = processors};
  Counts rates{};
  rates[index_of(Coef::gemm_bf16)] = 1;  // tiles and waves only: charged FLOPs
  std::vector<double> ratios;            // charged / measured, each in its own unit
  for (const CsvRow& row : read_csv(source_dir() + "/tests/perfmodel/machine/gemm_efficiency.csv").rows) {
    if (row.text("gpu") != gpu) continue;
    OpShape s{.kind = plan::OpKind::gemm,
              .price = plan::PriceClass::product,
              .dtype = DType::bf16,
              .m = row.number("m"),
              .n = row.number("n"),
              .k = row.number("k"),
              .batch = row.number("batch")};
    s.work.flops = 2 * s.m * s.n * s.k * s.batch;
    ratios.push_back(op_seconds(s, rates, where, 1e18) / (s.work.flops / row.number("efficiency")));
  }
  const double scale = quantile(ratios, 0.5);
  std::vector<double> errors;
  double sum = 0;
  for (const double r : ratios) errors.push_back(std::abs(r / scale - 1)), sum += errors.back();
  const Errors e{sum / static_cast<double>(errors.size()), quantile(errors, 0.5), quantile(errors, 0.9)};
  std::printf("products on %s: %zu shapes, mean error %.1f %%, median %.1f %%, p90 %.1f %%\n", gpu.c_str(),
              errors.size(), 100 * e.mean, 100 * e.median, 100 * e.p90);
  return e;
}

TEST(Gemm, TilesAndRoundsExplainAPublishedSweep) {
  const Errors a100 = errors_of("A100-80GB-PCIe", 108);
  EXPECT_LT(a100.mean, 0.07);
  EXPECT_LT(a100.median, 0.05);
  EXPECT_LT(a100.p90, 0.15);
  // Something else limits its large products (45 to 52 % of the peak by the source).
  const Errors b200 = errors_of("B200-SXM", 148);
  EXPECT_LT(b200.mean, 0.15);
  EXPECT_LT(b200.median, 0.08);
}

}  // namespace
}  // namespace isobar::perf
