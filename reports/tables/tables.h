// A table and its four output formats: aligned text for the terminal, CSV, HTML and JSON.
//
//   Table t{"runs", "Runs", {text_column("run"), number_column("step", "ms")}, {}};
//   t.rows.push_back({text("dp 2"), number(51.27, 1)});
//   std::fputs(to_text(t).c_str(), stdout);
//
// Numbers are right-aligned under a header with their unit; unknown values (NaN) are a dash in text and empty
// in CSV. Every format escapes text, which may come from users.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace isobar::report {

struct Column {
  std::string name, unit;  // unit "": none
  bool right = false;      // numbers
};
inline Column text_column(std::string name) {
  return {std::move(name), "", false};
}
inline Column number_column(std::string name, std::string unit = "") {
  return {std::move(name), std::move(unit), true};
}

struct Cell {
  std::string text;  // for people
  double value = 0;  // for programs, if is_number; NaN: not known
  bool is_number = false;
};
Cell text(std::string s);
Cell number(double value, int decimals);         // 51.3
Cell signed_number(double value, int decimals);  // +51.3
Cell significant(double value, int digits);      // 51.3, 0.00513, 5130000
Cell integer(int64_t value);                     // 23,832,960

struct Table {
  std::string id, title;  // id: the CSV's file name
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  std::string note;  // a line below it
};

std::string to_text(const Table& t);
std::string to_csv(const Table& t);      // RFC 4180, header "name [unit]", all digits
std::string to_html(const Table& t);     // only the <table> element
nlohmann::json to_json(const Table& t);  // list of objects by column name; unknown numbers are null

/// Text safe between tags and inside a quoted attribute.
std::string html_escape(const std::string& s);
/// JSON that is safe inside a <script> element: no '<', '>', '&' or line separators in it.
std::string script_json(const nlohmann::json& j);
/// One printable line: control characters, which a terminal could interpret, become '?'.
std::string printable(const std::string& s);

}  // namespace isobar::report
