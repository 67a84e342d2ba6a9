#include "model/base/text/csv.h"

#include <charconv>

namespace isobar {
namespace {

bool is_number(const std::string& s) {
  const char *begin = s.data() + (s[0] == '+' ? 1 : 0), *end = s.data() + s.size();
  double value = 0;
  const auto [rest, failed] = std::from_chars(begin, end, value);
  return failed == std::errc() && rest == end && begin != end && !(s[0] == '+' && s[1] == '-');
}

}  // namespace

// Formulas: OWASP, "CSV Injection".
std::string csv_cell(const std::string& text) {
  const bool formula = !text.empty() && std::string("=+-@\t\r").find(text[0]) != std::string::npos;
  const std::string shown = formula && !is_number(text) ? "'" + text : text;
  if (shown.find_first_of(",\"\r\n") == std::string::npos) return shown;
  std::string out = "\"";
  for (const char c : shown) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace isobar
