// `isobar config`: a configuration with its defaults, two compared, and all keys.
#include <nlohmann/json.hpp>

#include "tests/cli/shell.h"

namespace isobar::cli {
namespace {

class Config : public InDirectory {
 protected:
  Answer config(const std::string& words) const {
    return shell(at("timeout 60 " + isobar_command() + " config " + words + " 2>&1"));
  }
};

TEST_F(Config, WhatIsShownIsTheConfigurationThatItShows) {
  const Answer shown = config("show base.yaml --set policy.amp=bf16");
  ASSERT_EQ(shown.code, 0) << shown.out;
  EXPECT_NE(shown.out.find("embed_dim: 64"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("num_heads: "), std::string::npos) << "a default";
  write_atomically(dir_ / "whole.yaml", shown.out);
  EXPECT_EQ(config("show whole.yaml").out, shown.out);
  const Answer diff = config("diff base.yaml whole.yaml --json");
  const auto rows = nlohmann::json::parse(diff.out);
  ASSERT_EQ(rows.size(), 1u) << diff.out;
  EXPECT_EQ(rows[0]["key"], "policy.amp");
  EXPECT_EQ(rows[0]["base.yaml"], "none");
  EXPECT_EQ(rows[0]["whole.yaml"], "bf16");
  EXPECT_EQ(config("diff whole.yaml whole.yaml").out, "The two are the same.\n");
}

TEST_F(Config, OfARunThatWasMadeItIsWhatItRan) {
  ASSERT_EQ(
      shell(at(isobar_command() + " train base.yaml --set run.out=run --set train.lr=0.25 >/dev/null 2>&1"))
          .code,
      0);
  const auto rows = nlohmann::json::parse(config("diff base.yaml run --json").out);
  bool rate = false;
  for (const auto& row : rows) rate = rate || (row["key"] == "train.lr" && row["run"] == "0.25");
  EXPECT_TRUE(rate) << rows.dump(1);
}

TEST_F(Config, WhatIsNotThereIsNamed) {
  for (const std::string words : {"show nowhere.yaml", "diff base.yaml nowhere.yaml"}) {
    const Answer a = config(words);
    EXPECT_EQ(a.code, 2) << a.out;
    EXPECT_NE(a.out.find("nowhere.yaml"), std::string::npos) << a.out;
  }
  std::filesystem::create_directories(dir_ / "empty");
  EXPECT_EQ(config("show empty").code, 2);
  EXPECT_EQ(config("show base.yaml --set train.globl=1").code, 2);
}

TEST_F(Config, KeysAreListedAndSearched) {
  EXPECT_EQ(config("keys --markdown").out, read_file(source_dir() + "/configs/keys.md"));
  const Answer some = config("keys lr_patience");
  EXPECT_EQ(some.code, 0);
  EXPECT_NE(some.out.find("train.lr_patience\n"), std::string::npos) << some.out;
  EXPECT_NE(some.out.find("int >= 0, default 10"), std::string::npos) << some.out;
  EXPECT_EQ(some.out.find("train.lr_gamma"), std::string::npos) << some.out;
  EXPECT_EQ(config("keys nothing-has-this").code, 2);
}

}  // namespace
}  // namespace isobar::cli
