// Charts as files: names are filled, and none is missing, left over or hidden by another.
#include "reports/figures/chart_file.h"

#include <gtest/gtest.h>

#include <functional>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "perfmodel/machine/shipped.h"

namespace isobar::report {
namespace {

using nlohmann::json;

json filled_text(const char* text, const Fills& fills) {
  return filled(json::parse(text), "a.vl.json", fills);
}

std::string refused(const std::function<void()>& work) {
  try {
    work();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "(accepted)";
}

TEST(ChartFile, NamesBecomeTheirValuesAndDataStaysAsItIs) {
  const json rows = {{{"run", "$x"}, {"$if", "nothing"}}};  // as a user may name a run
  const json spec =
      filled_text(R"({"data": {"values": "$rows"}, "height": 3, "layer": ["$x", {"title": "$title"}]})",
                  {{"rows", rows}, {"x", 1}, {"title", nullptr}});
  EXPECT_EQ(spec, (json{{"data", {{"values", rows}}}, {"height", 3}, {"layer", {1, {{"title", nullptr}}}}}));
}

TEST(ChartFile, WhatDoesNotHoldIsLeftOut) {
  const char* text = R"({"layer": [{"$if": "a", "mark": "$mark"}, {"$if": "b", "mark": "line"}],
                         "by": ["amp", "$set"], "x": {"sort": "$set"}, "y": {"$if": "a"}})";
  const Fills fills = {{"a", false}, {"b", true}, {"mark", "bar"}, {"set", kLeftOut}};
  EXPECT_EQ(filled_text(text, fills),
            json::parse(R"({"layer": [{"mark": "line"}], "by": ["amp"], "x": {}})"));
}

TEST(ChartFile, AFileHasNamesOfItsOwn) {
  const char* text = R"({"$define": {"x": {"field": "$field", "axis": "$axis"}, "axis": {"ticks": 2}},
                         "layer": ["$x", "$x"]})";
  const json x = {{"field", "rate"}, {"axis", {{"ticks", 2}}}};
  EXPECT_EQ(filled_text(text, {{"field", "rate"}}), (json{{"layer", {x, x}}}));
}

TEST(ChartFile, NamesThatAreMissingLeftOverOrTakenTwiceAreErrors) {
  const auto said = [](const char* text, const Fills& fills) {
    return refused([&] { filled_text(text, fills); });
  };
  EXPECT_NE(said(R"({"x": "$rate"})", {}).find("'$rate': is neither supplied nor defined"), std::string::npos)
      << said(R"({"x": "$rate"})", {});
  EXPECT_NE(said(R"({"x": {"$if": "rate"}})", {}).find("neither"), std::string::npos);
  // also inside of what is left out
  EXPECT_NE(said(R"({"x": {"$if": "a", "y": "$rate"}})", {{"a", false}}).find("$rate"), std::string::npos);
  EXPECT_NE(said(R"({"x": 1})", {{"rate", 2}}).find("'$rate': is supplied, but"), std::string::npos);
  EXPECT_NE(said(R"({"$define": {"rate": 1}, "x": "$rate"})", {{"rate", 2}}).find("defines it too"),
            std::string::npos);
  EXPECT_NE(said(R"({"$define": {"a": ["$a"]}, "x": "$a"})", {}).find("$a"),
            std::string::npos);  // without end
  EXPECT_NE(refused([] { chart_spec("no-such-chart", {}); }).find("no-such-chart"), std::string::npos);
}

TEST(ChartFile, EveryFileIsVegaLiteWhoseOwnNamesAreUsed) {
  const std::string folder = perf::shipped("reports/figures/specs");
  const json base = json::parse(read_file(folder + "/base.vl.json"));
  size_t charts = 0;
  std::vector<std::string> files = perf::files_in(folder, ".json");
  for (const std::string& file : perf::files_in(folder + "/pages", ".json")) files.push_back(file);
  for (const std::string& file : files) {
    SCOPED_TRACE(file);
    const std::string text = read_file(file);
    const json chart = json::parse(text, nullptr, false);
    ASSERT_TRUE(chart.is_object());
    EXPECT_EQ(chart.value("$schema", ""), "https://vega.github.io/schema/vega-lite/v6.json");
    if (chart == base) continue;
    ++charts;
    EXPECT_TRUE(chart.contains("data"));
    EXPECT_NE(chart.contains("layer"), chart.contains("mark"));
    const json own = chart.value("$define", json::object());
    for (const auto& [name, value] : own.items()) {
      EXPECT_NE(text.find("\"$" + name + "\""), std::string::npos) << name;
      EXPECT_FALSE(base["$define"].contains(name)) << name;
    }
  }
  EXPECT_GE(charts, 27u);
}

}  // namespace
}  // namespace isobar::report
