#include "model/base/text/csv_table.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "model/base/error.h"
#include "model/base/system/files.h"

namespace isobar {
namespace {

/// Reads one record from `at`, and moves `at` behind its line end; `line` counts the lines.
std::vector<std::string> record(const std::string& text, size_t& at, int& line, const std::string& file) {
  std::vector<std::string> cells(1);
  const int first = line;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\n') ++line;
    if (quoted) {
      if (c != '"')
        cells.back() += c;
      else if (at + 1 < text.size() && text[at + 1] == '"')
        cells.back() += text[++at];
      else
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      cells.emplace_back();
    } else if (c == '\n' || (c == '\r' && text.compare(at + 1, 1, "\n") != 0)) {
      line += c == '\r';
      ++at;
      return cells;
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  if (quoted)
    throw ConfigError(file, "line " + std::to_string(first), "opens a quote that is never closed",
                      "close it, or double the quotes inside a cell");
  ++line;
  return cells;
}

const std::string kNothing;

/// Refuses what spreadsheets write where commas and UTF-8 are meant.
void refuse_other_forms(const std::string& text, const std::string& file) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    throw ConfigError(file, "", "is in UTF-16", "save it as CSV in UTF-8");
  const std::string head = text.substr(0, text.find_first_of("\r\n"));
  if (head.find(',') != std::string::npos) return;
  for (const auto& [mark, name] : {std::pair{';', "semicolons"}, {'\t', "tabs"}})
    if (head.find(mark) != std::string::npos)
      throw ConfigError(file, "line 1", std::string("has ") + name + " between its columns",
                        "save it with commas between them, and points in numbers");
}

}  // namespace

const std::string& CsvRow::text(const std::string& column) const {
  const auto c = columns_->find(column);
  return c == columns_->end() || c->second >= cells_.size() ? kNothing : cells_[c->second];
}

CsvRow CsvRow::with(const std::map<std::string, std::string>& cells) const {
  auto columns = std::make_shared<std::map<std::string, size_t>>(*columns_);
  CsvRow out(columns, cells_, line_);
  for (const auto& [column, text] : cells) {
    const size_t at = columns->emplace(column, columns->size()).first->second;
    if (out.cells_.size() <= at) out.cells_.resize(at + 1);
    out.cells_[at] = text;
  }
  return out;
}

double CsvRow::number(const std::string& column) const {
  return number(column, std::nan(""));
}

double CsvRow::number(const std::string& column, double otherwise) const {
  const std::string& s = text(column);
  if (s.empty()) return otherwise;
  char* stop = nullptr;
  const double v = std::strtod(s.c_str(), &stop);
  const std::string rest = stop == s.c_str() ? "no number" : s.substr(static_cast<size_t>(stop - s.c_str()));
  return rest.find_first_not_of(' ') != std::string::npos || !std::isfinite(v) ? otherwise : v;
}

bool CsvTable::has(const std::string& column) const {
  return std::find(columns.begin(), columns.end(), column) != columns.end();
}

void require_columns(const CsvTable& t, const std::vector<std::string>& needed,
                     const std::vector<std::string>& known, const std::string& described_in) {
  const auto is_in = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  for (const std::string& name : needed)
    if (!t.has(name))
      throw ConfigError(t.file, "line 1, " + name, "is not a column", "give the columns of " + described_in);
  for (size_t i = 0; i < t.columns.size(); ++i) {
    const std::string& name = t.columns[i];
    if (is_in({t.columns.begin(), t.columns.begin() + static_cast<std::ptrdiff_t>(i)}, name))
      throw ConfigError(t.file, "line 1, " + name, "is a column twice", "take one of them out");
    if (!is_in(needed, name) && !is_in(known, name))
      throw ConfigError(t.file, "line 1, " + name, "is a column that nothing reads",
                        "spell it as " + described_in + " does, or move what it says into notes");
  }
}

CsvTable parse_csv(const std::string& text, const std::string& file) {
  CsvTable t{file, {}, {}};
  size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  int line = 1;
  if (at == text.size())
    throw ConfigError(file, "line 1", "is empty", "a table begins with a line of column names");
  refuse_other_forms(text, file);
  t.columns = record(text, at, line, file);
  for (std::string& name : t.columns) {
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
  }
  auto columns = std::make_shared<std::map<std::string, size_t>>();
  for (size_t i = 0; i < t.columns.size(); ++i) (*columns)[t.columns[i]] = i;
  while (at < text.size()) {
    const int begin = line;
    std::vector<std::string> cells = record(text, at, line, file);
    if (cells.size() == 1 && cells[0].empty()) continue;  // an empty line
    if (cells.size() != t.columns.size())
      throw ConfigError(file, "line " + std::to_string(begin),
                        "has " + std::to_string(cells.size()) + " cells under " +
                            std::to_string(t.columns.size()) + " columns",
                        "quote cells that hold a comma");
    t.rows.emplace_back(columns, std::move(cells), begin);
  }
  return t;
}

CsvTable read_csv(const std::string& path) {
  return parse_csv(read_file(path, most::table), path);
}

}  // namespace isobar
