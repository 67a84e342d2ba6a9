// The table of lost time by kind of op, of a traced step of vit-1536 in bf16 on an H100
// (h100_vit_1536_ops.csv: time, rates and the least time by 700 TFLOP/s and 2.8 TB/s, by shape).
#include <gtest/gtest.h>

#include "model/base/text/csv_table.h"
#include "perfmodel/machine/machine.h"
#include "reports/tables/report_tables.h"
#include "tests/paths.h"

namespace isobar::report {
namespace {

constexpr int64_t kTracedSteps = 10;

ReportData traced_on_h100() {
  ReportData d;
  d.predictor = perf::load_machine(source_dir() + "/configs/machines/dgx-h100.yaml");
  d.predictor->peaks.at("bf16").value = 700e12;
  d.predictor->peaks.at("memory").value = 2.8e12;
  ReportRun r;
  r.label = "vit-1536";
  r.run.spec = load_run_spec(source_dir() + "/configs/models/vit-1536.yaml",
                             {"policy.amp=bf16", "train.global_batch=4", "run.device=cuda"});
  r.run.on_gpu = true;
  r.run.ranks = r.run.ranks_on_host = r.run.threads = 1;
  r.run.step_s = step_stats(std::vector<double>(kTracedSteps, 0.1123));
  for (const CsvRow& row : read_csv(source_dir() + "/tests/reports/h100_vit_1536_ops.csv").rows) {
    records::OpRecord op;
    op.path = row.text("path") + " " + row.text("shape");
    op.kind = row.text("kind");
    op.lane = "compute";
    op.count = static_cast<int64_t>(row.number("count")) * kTracedSteps;
    op.seconds = row.number("ms") * 1e-3 * kTracedSteps;
    op.flops = row.number("flops_per_s") * op.seconds;
    op.bytes = row.number("bytes_per_s") * op.seconds;
    r.run.ops.push_back(op);
  }
  d.runs.push_back(std::move(r));
  return d;
}

double cell_of(const Table& t, const std::string& kind, size_t column) {
  for (const auto& row : t.rows)
    if (row[0].text == kind) return row[column].value;
  ADD_FAILURE() << "no row of " << kind;
  return 0;
}

TEST(KindsTable, SaysWhatAnH100sStepLosesAndWhere) {
  const ReportData d = traced_on_h100();
  const Table t = kinds_table(d, d.runs[0]);
  ASSERT_GT(t.rows.size(), 10u);
  EXPECT_EQ(t.rows[0][0].text, "attention_backward");
  EXPECT_NEAR(cell_of(t, "attention_backward", 2), 42.66, 0.05);
  EXPECT_NEAR(cell_of(t, "attention_backward", 3), 17.28, 0.05);
  EXPECT_NEAR(cell_of(t, "attention_backward", 5), 42.66 - 17.28, 0.05);
  EXPECT_NEAR(cell_of(t, "attention_backward", 6), 100 * (42.66 - 17.28) / 112.3, 0.1);
  EXPECT_EQ(cell_of(t, "activation", 3), 0);  // moves memory only
  EXPECT_NEAR(cell_of(t, "activation", 4), 1.706, 0.02);
  EXPECT_EQ(cell_of(t, "activation", 5), 0);  // at its bound
  EXPECT_NEAR(cell_of(t, "gemm", 2), 46.0, 0.05);
  double sum = 0;
  for (const auto& row : t.rows) sum += row[2].value;
  EXPECT_NEAR(sum, std::max(112.3, 113.85), 0.1);
}

TEST(KindsTable, IsForAcceleratorsOnly) {
  ReportData d = traced_on_h100();
  d.predictor = perf::load_machine(source_dir() + "/configs/machines/example-2core.yaml");
  EXPECT_TRUE(kinds_table(d, d.runs[0]).rows.empty());
  d.predictor.reset();
  EXPECT_TRUE(kinds_table(d, d.runs[0]).rows.empty());
}

}  // namespace
}  // namespace isobar::report
