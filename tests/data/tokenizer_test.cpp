// Tokenizers by tokenizer.json: the tokens of Hugging Face's tokenizers (tests/fixtures/make_tokenizers.py),
// and what is refused by key.
#include "model/data/tables/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "tests/data/files.h"
#include "tests/paths.h"

namespace isobar::test {
namespace {

using nlohmann::json;

std::string fixture(const std::string& name) {
  return source_dir() + "/tests/fixtures/tokenizers/" + name + ".json";
}

class Tokenizers : public testing::TestWithParam<const char*> {};

TEST_P(Tokenizers, GiveTheTokensOfThePeer) {
  const json reference = read_json(fixture("reference"));
  data::Tokenizer t(fixture(GetParam()));
  EXPECT_EQ(t.words(), 600);
  for (size_t i = 0; i < reference.at("texts").size(); ++i) {
    const std::string text = reference["texts"][i];
    const std::vector<int32_t> tokens = t.encode(text, "a text");
    EXPECT_EQ(tokens, reference.at(GetParam()).at(i).get<std::vector<int32_t>>()) << showable(text);
    EXPECT_EQ(t.decode(tokens), text);
  }
}

// Any text comes back, whatever its words are.
TEST_P(Tokenizers, RandomTextComesBack) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  data::Tokenizer t(fixture(GetParam()));
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (int j = 0; j < 40; ++j) {
      const uint32_t c = random() % 3 == 0 ? 0xa0 + random() % 0x700 : random() % 0x80;
      if (c < 0x80)
        text += static_cast<char>(c);
      else
        text += {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 0x3f))};
    }
    EXPECT_EQ(t.decode(t.encode(text, "a text")), text) << showable(text);
  }
}

INSTANTIATE_TEST_SUITE_P(Json, Tokenizers, testing::Values("gpt2", "llama3", "deepseek"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TokenizerFile, WhatIsNotHereIsRefusedByKey) {
  const TempDir dir;
  const json good = read_json(fixture("gpt2"));
  const auto changed = [&](const std::string& pointer, const json& value) {
    json j = good;
    j[json::json_pointer(pointer)] = value;
    return j;
  };
  for (const auto& [j, key] : std::vector<std::pair<json, std::string>>{
           {changed("/normalizer", {{"type", "NFC"}}), "normalizer"},
           {changed("/model/type", "Unigram"), "model.type"},
           {changed("/model/byte_fallback", true), "model.byte_fallback"},
           {changed("/model/merges/0", "qq zz"), "model.vocab"},
           {changed("/model/merges", 3), "model"},
           {changed("/pre_tokenizer", nullptr), "pre_tokenizer"},
           {changed("/pre_tokenizer/type", "Whitespace"), "pre_tokenizer.type"},
           {changed("/pre_tokenizer/add_prefix_space", true), "add_prefix_space"},
           {changed("/pre_tokenizer",
                    {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(("}}}}),
            "pre_tokenizer.pattern"},
           {changed("/added_tokens/0/lstrip", true), "added_tokens"},
           {changed("/added_tokens/0/id", -3), "added_tokens"}}) {
    write_atomically(dir / "t.json", j.dump());
    try {
      const data::Tokenizer t(dir / "t.json");
      ADD_FAILURE() << key << " is accepted";
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("t.json"), std::string::npos) << e.what();
    }
  }
  data::Tokenizer t(fixture("gpt2"));
  EXPECT_THROW(t.encode("a\xff", "text.txt"), ConfigError);
  EXPECT_THROW(t.token("no", "--end"), ConfigError);
  EXPECT_EQ(t.token("<|endoftext|>", "--end"), 0);
}

}  // namespace
}  // namespace isobar::test
