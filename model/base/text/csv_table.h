// Comma-separated tables with a header line, as RFC 4180 quotes them.
//
//   CsvTable t = read_csv("runs.csv");           // ConfigError names the file and the line
//   t.rows[0].text("gpu_type"); t.rows[0].number("layers")   // empty and foreign text: not a number (NaN)
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace isobar {

class CsvRow {
 public:
  CsvRow(std::shared_ptr<const std::map<std::string, size_t>> columns, std::vector<std::string> cells,
         int line)
      : columns_(std::move(columns)), cells_(std::move(cells)), line_(line) {}
  /// "" where the table has no such column.
  const std::string& text(const std::string& column) const;
  /// NaN unless the whole cell is a number.
  double number(const std::string& column) const;
  double number(const std::string& column, double otherwise) const;
  int line() const { return line_; }
  /// This row with other cells, also of columns that the table lacks.
  CsvRow with(const std::map<std::string, std::string>& cells) const;

 private:
  std::shared_ptr<const std::map<std::string, size_t>> columns_;
  std::vector<std::string> cells_;
  int line_;
};

struct CsvTable {
  std::string file;
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;
  bool has(const std::string& column) const;
};

/// Throws ConfigError for a column of `needed` that is missing, and for one in neither list, which would
/// otherwise be ignored. `described_in`: the file that documents the columns.
void require_columns(const CsvTable& t, const std::vector<std::string>& needed,
                     const std::vector<std::string>& known, const std::string& described_in);

CsvTable read_csv(const std::string& path);
CsvTable parse_csv(const std::string& text, const std::string& file);

}  // namespace isobar
