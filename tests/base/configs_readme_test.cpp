// configs/README.md is what users look keys up in: it names every one.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/base/files.h"
#include "model/base/spec.h"
#include "tests/paths.h"

namespace isobar {
namespace {

TEST(ConfigsReadme, NamesEveryKeyOfARun) {
  const std::string text = read_file(source_dir() + "/configs/README.md");
  nlohmann::json all;
  for (const std::string& kind : NetSpec::kinds()) {
    RunSpec s;
    s.net.set_kind(kind);
    all.merge_patch(to_json(s));
  }
  for (const auto& [section, keys] : all.items()) {
    if (!keys.is_object()) continue;
    const size_t begin = text.find("| `" + section + ".` |");
    ASSERT_NE(begin, std::string::npos) << section;
    const std::string table = text.substr(begin, text.find("\n\n", begin) - begin);
    for (const auto& [key, value] : keys.items())
      EXPECT_NE(table.find("`" + key + "`"), std::string::npos) << section << "." << key;
  }
}

}  // namespace
}  // namespace isobar
