#include "reports/tables/tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace isobar::report {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// RFC 4180 parser: records of quoted or plain fields.
std::vector<std::vector<std::string>> parse_csv(const std::string& s) {
  std::vector<std::vector<std::string>> records(1, {""});
  bool quoted = false;
  for (size_t i = 0; i < s.size(); ++i) {
    if (quoted) {
      if (s[i] != '"')
        records.back().back() += s[i];
      else if (i + 1 < s.size() && s[i + 1] == '"')
        records.back().back() += s[++i];
      else
        quoted = false;
    } else if (s[i] == '"') {
      quoted = true;
    } else if (s[i] == ',') {
      records.back().emplace_back();
    } else if (s.compare(i, 2, "\r\n") == 0) {
      ++i;
      records.push_back({""});
    } else {
      records.back().back() += s[i];
    }
  }
  EXPECT_FALSE(quoted);
  EXPECT_EQ(records.back(), std::vector<std::string>{""});  // ends with a line break
  records.pop_back();
  return records;
}

TEST(Tables, CsvGivesBackEveryTextAndEveryDigit) {
  const std::vector<std::string> texts = {"plain", "a,b", "say \"hi\"", "two\nlines",
                                          "\r\n",  "",    "=1+1",       "\u6c14"};
  const double value = 1.0 / 3;
  Table t{"t", "T", {text_column("name, odd"), number_column("x", "ms")}, {}, {}};
  for (const std::string& s : texts) t.rows.push_back({text(s), number(value, 1)});
  t.rows.push_back({text("unknown"), number(kNaN, 1)});
  const auto csv = parse_csv(to_csv(t));
  ASSERT_EQ(csv.size(), texts.size() + 2);
  EXPECT_EQ(csv[0], (std::vector<std::string>{"name, odd", "x [ms]"}));
  for (size_t i = 0; i < texts.size(); ++i) {
    const bool formula = !texts[i].empty() && std::string("=\r").find(texts[i][0]) != std::string::npos;
    EXPECT_EQ(csv[i + 1][0], (formula ? "'" : "") + texts[i]);  // not a formula in a spreadsheet
    EXPECT_NEAR(std::stod(csv[i + 1][1]), value, 1e-11);
  }
  EXPECT_EQ(csv.back()[1], "");
}

TEST(Tables, TextAlignsNumbersAtTheRightByCodePoints) {
  Table t{"t", "T", {text_column("run"), number_column("step", "ms")}, {}, {}};
  t.rows = {{text("\u6c14\u6c14"), number(5.25, 1)},
            {text("abc"), number(1234.5, 1)},
            {text("x"), number(kNaN, 1)}};
  EXPECT_EQ(to_text(t),
            "T\n"
            "  run    step\n"
            "           ms\n"
            "  ---  ------\n"
            "  \u6c14\u6c14      5.2\n"
            "  abc  1234.5\n"
            "  x         \u2013\n");
}

TEST(Tables, NothingDrivesTheTerminal) {
  Table t{"t",
          "T\x1b]0;x\x07",
          {text_column("a")},
          {{text("\x1b[2J\r\n\xc2\x9b"
                 "31m")}},
          "n\x1b"};
  for (char c : to_text(t)) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
  EXPECT_EQ(to_text(t).find("\xc2\x9b"), std::string::npos);
}

TEST(Tables, HtmlAndScriptJsonHoldNoMarkup) {
  const std::string evil = "</script><img src=x onerror=alert(1)>&\"'\u2028";
  EXPECT_EQ(html_escape(evil).find_first_of("<>\"'"), std::string::npos);
  const std::string json = script_json({{evil, evil}});
  EXPECT_EQ(json.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(json.find("\u2028"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(json), nlohmann::json({{evil, evil}}));
}

TEST(Tables, NumbersForPeople) {
  EXPECT_EQ(integer(23'832'960).text, "23,832,960");
  EXPECT_EQ(integer(-1'000).text, "-1,000");
  EXPECT_EQ(integer(-100).text, "-100");
  EXPECT_EQ(significant(0.0051349, 3).text, "0.00513");
  EXPECT_EQ(significant(51.349, 3).text, "51.3");
  EXPECT_EQ(significant(5134.9, 3).text, "5135");
  EXPECT_EQ(signed_number(3.14, 1).text, "+3.1");
  EXPECT_EQ(significant(INFINITY, 3).text, "\u2013");
}

}  // namespace
}  // namespace isobar::report
