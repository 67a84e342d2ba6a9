// Recorded answers of cuDNN for every attention of the shipped configurations and tests:
// tests/golden/cudnn_plans.csv, a row for each GPU and attention.
//
//   gpu,cudnn,attention,ld_q,ld_kv,ld_o,supported,plan,workspace
//   h100,9.19.0,attention backward b1 h4/4 q4050 k4050 d48 bf16,576,576,192,1,eng6_k24=26,3175456
//
// ld_*: elements between rows. workspace: the plan's bytes. Refused: supported 0, plan is the message,
// workspace 0. To ask for missing rows (parallel and resumable):
//
//   ISOBAR_FILL_PLANS=1 build/test_cudnn_plans --gtest_filter='*TheTable*' && git diff tests/golden
//
// Remove the rows first for another cuDNN: a table has one version.
#pragma once
#include <map>
#include <string>

#include "model/backend/cuda/kernels/attention_path.h"
#include "model/base/csv.h"
#include "model/base/csv_table.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "tests/paths.h"

namespace isobar::cuda::testing {

inline const std::string kPlansTable = source_dir() + "/tests/golden/cudnn_plans.csv";

struct Answer {
  bool supported = false;
  std::string plan;
  int64_t workspace = 0;  // bytes
  bool operator==(const Answer&) const = default;
  friend void PrintTo(const Answer& a, std::ostream* out) {
    *out << (a.supported ? "supported, " : "refused, ") << a.plan << ", " << a.workspace << " bytes";
  }
};

/// All that distinguishes plans, as in the table.
inline std::string cells_of(const Attention& a, bool backward) {
  return csv_cell(text_of(a, backward)) + "," + std::to_string(a.ld_q) + "," + std::to_string(a.ld_kv) + "," +
         std::to_string(a.ld_o);
}

class PlansTable {
 public:
  explicit PlansTable(const std::string& gpu) : gpu_(gpu) {
    const CsvTable table = read_csv(kPlansTable);
    require_columns(table,
                    {"gpu", "cudnn", "attention", "ld_q", "ld_kv", "ld_o", "supported", "plan", "workspace"},
                    {}, "tests/cuda/cudnn_table.h");
    for (const CsvRow& row : table.rows) {
      if (version_.empty()) version_ = row.text("cudnn");
      if (row.text("cudnn") != version_)
        throw ConfigError(kPlansTable, "line " + std::to_string(row.line()),
                          "is of cuDNN " + row.text("cudnn") + ", others of " + version_,
                          "keep the rows of one version");
      if (row.text("gpu") != gpu) continue;
      const std::string key = csv_cell(row.text("attention")) + "," + row.text("ld_q") + "," +
                              row.text("ld_kv") + "," + row.text("ld_o");
      rows_[key] = {row.text("supported") == "1", row.text("plan"),
                    static_cast<int64_t>(row.number("workspace"))};
    }
  }
  /// cuDNN's version, of all rows; "" for an empty table.
  const std::string& version() const { return version_; }
  size_t size() const { return rows_.size(); }
  /// Null if never asked.
  const Answer* find(const Attention& a, bool backward) const {
    const auto at = rows_.find(cells_of(a, backward));
    return at == rows_.end() ? nullptr : &at->second;
  }
  void add(const Attention& a, bool backward, const std::string& version, const Answer& answer) {
    append_line(kPlansTable, gpu_ + "," + version + "," + cells_of(a, backward) + "," +
                                 (answer.supported ? "1," : "0,") + csv_cell(answer.plan) + "," +
                                 std::to_string(answer.workspace));
    rows_[cells_of(a, backward)] = answer;
  }

 private:
  std::string gpu_, version_;
  std::map<std::string, Answer> rows_;
};

}  // namespace isobar::cuda::testing
