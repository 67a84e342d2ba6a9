// The pattern search that other tests use.
#include "tests/pattern.h"

#include <gtest/gtest.h>

namespace isobar {
namespace {

TEST(Pattern, IsFoundWhereItBeginsAndReplacedEverywhere) {
  const std::string text = "a: 12\nb: 345\n";
  const Match m = first_match(text, "b: [0-9]+");
  EXPECT_EQ(m.begin, 6u);
  EXPECT_EQ(m.size, 6u);
  EXPECT_TRUE(found(text, "\\bb\\b"));
  EXPECT_FALSE(found(text, "[0-9]{4}"));
  EXPECT_FALSE(found(text, "^b"));  // the text's begin, not a line's
  EXPECT_EQ(replaced(text, "[0-9]+", "7"), "a: 7\nb: 7\n");
  EXPECT_EQ(replaced("aab", "^a", ""), "ab");
  EXPECT_EQ(replaced(text, "c", "7"), text);
  EXPECT_THROW(found(text, "("), std::logic_error);
}

}  // namespace
}  // namespace isobar
