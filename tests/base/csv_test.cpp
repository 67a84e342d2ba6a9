#include "model/base/text/csv.h"

#include <gtest/gtest.h>

namespace isobar {
namespace {

TEST(Csv, TextThatASpreadsheetWouldRunIsMadeHarmless) {
  EXPECT_EQ(csv_cell("=1+2"), "'=1+2");
  EXPECT_EQ(csv_cell("=HYPERLINK(\"http://x\",\"y\")"), "\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"");
  EXPECT_EQ(csv_cell("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(csv_cell("-cmd|' /C calc'!A0"), "'-cmd|' /C calc'!A0");
  EXPECT_EQ(csv_cell("+1+2"), "'+1+2");
  EXPECT_EQ(csv_cell("\t=1"), "'\t=1");
  EXPECT_EQ(csv_cell("\r=1"), "\"'\r=1\"");
  EXPECT_EQ(csv_cell("-"), "'-");
  EXPECT_EQ(csv_cell("+"), "'+");
  EXPECT_EQ(csv_cell("+-5"), "'+-5");
}

TEST(Csv, NumbersAndOtherTextStayAsTheyAre) {
  for (const char* same : {"-1.5", "+5", "-1e-9", "12", "", "dp2 tp4", "a=b", "x@y", "\xE2\x80\x93"})
    EXPECT_EQ(csv_cell(same), same);
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("a\"b"), "\"a\"\"b\"");
}

}  // namespace
}  // namespace isobar
