// Charts as Vega-Lite files, reports/figures/specs/NAME.vl.json, in which "$name" stands for a value that the
// code supplies.
//
//   json spec = chart_spec("failures", {{"rows", rows}, {"classes", scale}, {"ticks", 8}});
//
//   {"values": "$rows"}                a text that begins with $ becomes the value of that name
//   {"$if": "predicted", "mark": …}    left out, with its key, unless the value of that name is true
//   "$define": {"x": {…}}              names of the file's own, for what it repeats
//
// base.vl.json is what all charts have in common, and its names serve all of them; so do the colours of
// chart_file.cpp. A report has its charts filled, OUT/figures/ID.vl.json.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace isobar::report {

/// Values by name. kLeftOut leaves out the member or element that it stands for.
using Fills = std::map<std::string, nlohmann::json>;
inline const nlohmann::json kLeftOut = nlohmann::json::value_t::discarded;

/// Throws ConfigError for a file that is no JSON, and for a name that is not supplied or not used.
nlohmann::json chart_spec(const std::string& name, const Fills& fills);
/// A chart whose names are not filled yet; `file` is for messages.
nlohmann::json filled(const nlohmann::json& chart, const std::string& file, const Fills& fills);

}  // namespace isobar::report
