#include "reports/tables/tables.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "model/base/text/csv.h"

namespace isobar::report {
namespace {

constexpr const char* kUnknown = "\u2013";

std::string format(const char* pattern, int digits, double v) {
  char s[64];
  std::snprintf(s, sizeof s, pattern, digits, v);
  return s;
}

Cell cell(double v, std::string s) {
  if (!std::isfinite(v)) return {kUnknown, std::numeric_limits<double>::quiet_NaN(), true};
  return {std::move(s), v, true};
}

// Width on a terminal in code points, which is right for all text that reports print.
size_t width(const std::string& s) {
  return static_cast<size_t>(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string padded(const std::string& s, size_t to, bool right) {
  const std::string space(to - std::min(to, width(s)), ' ');
  return right ? space + s : s + space;
}

std::string header(const Column& c) {
  return c.unit.empty() ? c.name : c.name + " [" + c.unit + "]";
}

}  // namespace

Cell text(std::string s) {
  return {std::move(s), 0, false};
}
Cell number(double v, int decimals) {
  return cell(v, format("%.*f", decimals, v));
}
Cell signed_number(double v, int decimals) {
  std::string s = format("%+.*f", decimals, v);
  // a value that rounds to zero has no sign
  if (s.find_first_of("123456789") == std::string::npos) s.erase(0, 1);
  return cell(v, std::move(s));
}
Cell significant(double v, int digits) {
  if (!std::isfinite(v) || v == 0) return number(v, 0);
  const int before = static_cast<int>(std::floor(std::log10(std::abs(v)))) + 1;
  return number(v, std::clamp(digits - before, 0, 12));
}
Cell integer(int64_t v) {
  const std::string digits = std::to_string(v);
  std::string s;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t left = digits.size() - i;
    if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') s += ',';
    s += digits[i];
  }
  return {s, static_cast<double>(v), true};
}

std::string printable(const std::string& s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    const auto c = static_cast<unsigned char>(s[i]);
    const bool c1 = c == 0xC2 && i + 1 < s.size() && static_cast<unsigned char>(s[i + 1]) < 0xA0;
    if (c1) ++i;  // U+0080 ... U+009F
    out += c < 0x20 || c == 0x7F || c1 ? '?' : s[i];
  }
  return out;
}

std::string to_text(const Table& t) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < t.columns.size(); ++c) {
    size_t w = std::max(width(t.columns[c].name), width(t.columns[c].unit));
    for (const auto& row : t.rows) w = std::max(w, width(printable(row.at(c).text)));
    widths.push_back(w);
  }
  const auto line = [&](auto&& get) {
    std::string s = " ";
    for (size_t c = 0; c < t.columns.size(); ++c)
      s += " " + padded(get(c), widths[c], t.columns[c].right) + " ";
    s.erase(s.find_last_not_of(' ') + 1);
    return s + "\n";
  };
  std::string out = printable(t.title) + "\n";
  out += line([&](size_t c) { return t.columns[c].name; });
  if (std::any_of(t.columns.begin(), t.columns.end(), [](const Column& c) { return !c.unit.empty(); }))
    out += line([&](size_t c) { return t.columns[c].unit; });
  out += line([&](size_t c) { return std::string(widths[c], '-'); });
  for (const auto& row : t.rows) out += line([&](size_t c) { return printable(row[c].text); });
  if (!t.note.empty()) out += "  " + printable(t.note) + "\n";
  return out;
}

std::string to_csv(const Table& t) {
  std::string out;
  for (size_t c = 0; c < t.columns.size(); ++c) out += (c ? "," : "") + csv_cell(header(t.columns[c]));
  out += "\r\n";
  for (const auto& row : t.rows) {
    for (size_t c = 0; c < t.columns.size(); ++c) {
      const Cell& cell = row.at(c);
      out += c ? "," : "";
      if (!cell.is_number)
        out += csv_cell(cell.text);
      else if (std::isfinite(cell.value))
        out += format("%.*g", 12, cell.value);
    }
    out += "\r\n";
  }
  return out;
}

std::string to_html(const Table& t) {
  std::string out = "<table>\n<thead><tr>";
  for (const Column& c : t.columns) {
    out += c.right ? "<th class=\"n\">" : "<th>";
    out += html_escape(c.name);
    if (!c.unit.empty()) out += " <span class=\"unit\">" + html_escape(c.unit) + "</span>";
    out += "</th>";
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : t.rows) {
    out += "<tr>";
    for (size_t c = 0; c < t.columns.size(); ++c) {
      const bool prose = row.at(c).text.size() > 60;  // long text may wrap
      out += t.columns[c].right ? "<td class=\"n\">" : prose ? "<td class=\"long\">" : "<td>";
      out += html_escape(row[c].text) + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

nlohmann::json to_json(const Table& t) {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& row : t.rows) {
    nlohmann::json j = nlohmann::json::object();
    for (size_t c = 0; c < t.columns.size(); ++c) {
      const Cell& cell = row.at(c);
      nlohmann::json value;
      if (!cell.is_number)
        value = cell.text;
      else if (std::isfinite(cell.value))
        value = cell.value;
      j[header(t.columns[c])] = value;
    }
    rows.push_back(j);
  }
  return rows;
}

std::string html_escape(const std::string& s) {
  std::string out;
  for (char c : s) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string script_json(const nlohmann::json& j) {
  // The dump is ASCII, so U+2028 and U+2029 are escaped; the characters below could end or open an element.
  const std::string text = j.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::string out;
  for (char c : text) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace isobar::report
