// The byte at which a text stops being JSON, against texts that are broken at a known one.
#include "model/base/text/json_fault.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "model/base/text/json.h"

namespace isobar {
namespace {

std::string at_byte(size_t n) {
  return "is no JSON at byte " + std::to_string(n);
}

TEST(JsonFault, NamesTheByteAndWhatStandsThere) {
  EXPECT_EQ(json_fault(R"({"a": [1, 2.5, null, "x"]})"), "");
  EXPECT_EQ(json_fault(" "), "is empty, and no JSON");
  EXPECT_EQ(json_fault(R"({"name": "{"device": "cpu"}"})"),
            at_byte(13) +
                ", where `device\": \"cpu\"}\"}` stands behind "
                "`{\"name\": \"{\"`");
  EXPECT_EQ(json_fault(R"({"a": 1)"), at_byte(8) + ", where it ends behind `{\"a\": 1`");
  EXPECT_EQ(json_fault("[1] x"), at_byte(5) + ", where `x` stands behind `[1] `");
}

// A quote put anywhere between two values: everything before it is JSON, and it is not.
TEST(JsonFault, FindsACharacterThatWasPutIn) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::string text = "[";
    for (size_t i = 0, n = 1 + random() % 30; i < n; ++i)
      text += (i > 0 ? "," : "") + std::to_string(random() % 1000);
    text += "]";
    ASSERT_EQ(json_fault(text), "");
    const size_t at = text.find_first_of(",]", random() % (text.size() - 1));
    text.insert(at, "?");
    EXPECT_EQ(json_fault(text).find(at_byte(at + 1) + ", where `?"), 0u) << text << ": " << json_fault(text);
  }
}

// The parser takes a NUL for the end.
TEST(JsonFault, NothingBehindANulIsPassedOver) {
  for (const std::string& behind : {std::string("\0", 1), std::string("\0{\"a\": 2}", 9)}) {
    const std::string text = "{\"a\": 1}" + behind;
    EXPECT_TRUE(parse_json(text).is_discarded());
    EXPECT_EQ(json_fault(text), at_byte(9) + ", which is NUL");
  }
  EXPECT_EQ(parse_json("{\"a\": \"\\u0000\"}")["a"].get<std::string>(), std::string(1, '\0'));
}

}  // namespace
}  // namespace isobar
