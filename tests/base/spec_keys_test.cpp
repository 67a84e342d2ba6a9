// The reference of keys, configs/keys.md: every key of every net once, values as validation takes them, the
// file as the program writes it.
#include "model/base/spec/spec_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "model/base/error.h"
#include "model/base/spec/spec.h"
#include "model/base/spec/validate.h"
#include "model/base/system/files.h"
#include "tests/paths.h"

namespace isobar {
namespace {

TEST(SpecKeys, EveryKeyOfEveryNetHasOneRow) {
  std::map<std::string, std::map<std::string, int>> rows;  // by net and key
  for (const SpecKey& k : spec_keys())
    for (const std::string& net : k.nets) ++rows[net][k.key];
  for (const std::string& kind : NetSpec::kinds()) {
    RunSpec s;
    s.net.set_kind(kind);
    const nlohmann::json all = to_json(s);
    size_t keys = 0;
    for (const auto& [section, values] : all.items())
      for (const auto& [name, value] : values.items()) {
        EXPECT_EQ(rows[kind][section + "." + name], 1) << section << "." << name << " of " << kind;
        ++keys;
      }
    EXPECT_EQ(rows[kind].size(), keys) << "rows without a key of " << kind;
  }
}

TEST(SpecKeys, MeaningsFitIntoACell) {
  for (const SpecKey& k : spec_keys()) {
    std::istringstream text(k.help);
    const auto words = std::distance(std::istream_iterator<std::string>(text), {});
    EXPECT_GE(words, 1) << k.key;
    EXPECT_LE(words, 25) << k.key;
    EXPECT_EQ(k.help.find('|'), std::string::npos) << k.key;
  }
}

TEST(SpecKeys, TheFileIsWhatTheProgramWrites) {
  EXPECT_EQ(read_file(source_dir() + "/configs/keys.md"), spec_keys_markdown(spec_keys()))
      << "build/isobar config keys --markdown > configs/keys.md";
}

// ---- what a row says of values, held against validation ----

// Validation's error for a default run of this net with the key set; "" if it is accepted.
std::string refusal(const SpecKey& k, const std::string& net, const nlohmann::json& value, bool together) {
  nlohmann::json j = {{"net", {{"kind", net}}}};
  if (net == UnetSpec::kKind) j["net"]["img_height"] = 352;  // its default has an odd number of patches
  const size_t dot = k.key.find('.');
  j[k.key.substr(0, dot)][k.key.substr(dot + 1)] = value;
  try {
    const RunSpec s = run_spec_from_json(j, "test");
    together ? validate(s) : validate_values(s);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "";
}

struct Range {
  std::optional<double> low, high;
  bool low_is_in = true, high_is_in = true;
};

Range range_of(const std::string& text) {
  Range r;
  if (text.starts_with(">")) {
    r.low_is_in = text[1] == '=';
    r.low = std::stod(text.substr(r.low_is_in ? 2 : 1));
    return r;
  }
  const size_t comma = text.find(',');
  r.low_is_in = text.front() == '[';
  r.high_is_in = text.back() == ']';
  r.low = std::stod(text.substr(1, comma - 1));
  r.high = std::stod(text.substr(comma + 1));
  return r;
}

TEST(SpecKeys, RangesAreThoseOfValidation) {
  int checked = 0;
  for (const SpecKey& k : spec_keys()) {
    if (k.values.empty() || k.values.find('|') != std::string::npos) continue;
    const bool whole = k.type == "int";
    ASSERT_TRUE(whole || k.type == "float") << k.key << " has a range, and is a " << k.type;
    const auto number = [&](double v) { return whole ? nlohmann::json(std::llround(v)) : nlohmann::json(v); };
    const Range r = range_of(k.values);
    for (const std::string& net : k.nets) {
      const auto refused = [&](double v) {
        EXPECT_NE(refusal(k, net, number(v), true).find(k.key), std::string::npos)
            << k.key << " = " << v << " of " << net << " is outside of " << k.values;
        ++checked;
      };
      const auto taken = [&](double v) {
        EXPECT_EQ(refusal(k, net, number(v), false).find("'" + k.key + "'"), std::string::npos)
            << k.key << " = " << v << " of " << net << " is inside of " << k.values;
        ++checked;
      };
      const double step = whole ? 1 : 1e-9 * std::max(1.0, std::abs(*r.low));
      refused(r.low_is_in ? *r.low - step : *r.low);
      taken(r.low_is_in ? *r.low : *r.low + (whole ? 1 : std::abs(step)));
      if (!r.high) continue;
      const double last = whole ? 1 : 1e-9 * std::max(1.0, std::abs(*r.high));
      refused(r.high_is_in ? *r.high + last : *r.high);
      taken(r.high_is_in ? *r.high : *r.high - last);
    }
  }
  EXPECT_GT(checked, 400);
}

TEST(SpecKeys, NamesAreThoseOfValidation) {
  int checked = 0;
  for (const SpecKey& k : spec_keys()) {
    if (k.values.find('|') == std::string::npos || k.key == "net.kind") continue;
    for (const std::string& net : k.nets) {
      std::istringstream names(k.values);
      std::set<std::string> all;
      for (std::string name; names >> name;)
        if (name != "|") all.insert(name);
      for (const std::string& name : all)
        EXPECT_EQ(refusal(k, net, name, false).find("'" + k.key + "'"), std::string::npos)
            << k.key << " = " << name << " of " << net;
      const std::string unknown = refusal(k, net, "no-such-name", true);
      ASSERT_NE(unknown.find(k.key), std::string::npos) << k.key << " of " << net << " takes any name";
      for (const std::string& name : all)
        EXPECT_NE(unknown.find(name), std::string::npos) << unknown << " does not offer " << name;
      // The error lists what is allowed: as many names as the row has
      const size_t list = unknown.find("use one of ");
      ASSERT_NE(list, std::string::npos) << unknown;
      EXPECT_EQ(std::count(unknown.begin() + static_cast<long>(list), unknown.end(), ',') + 1,
                static_cast<long>(all.size()))
          << unknown;
      ++checked;
    }
  }
  EXPECT_GT(checked, 50);
  for (const SpecKey& k : spec_keys()) {
    if (k.key != "net.kind") continue;
    for (const std::string& kind : NetSpec::kinds())
      EXPECT_NE(k.values.find(kind), std::string::npos) << kind;
  }
}

}  // namespace
}  // namespace isobar
