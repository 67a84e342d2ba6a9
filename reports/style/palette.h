// Colours with one meaning across the page: figures look them up by name, so a layout or class of ops has the
// same colour in every figure and under every filter.
//
// Layouts, precisions and verdicts use Paul Tol's schemes, parts of a step and of memory those of Okabe and
// Ito, darkened to a contrast of 3:1 on white; dark mode (page.js) swaps what would be too dark for its
// paper.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/data.h"

namespace isobar::report::palette {

inline constexpr const char *kInk = "#1b1c1d", *kPaper = "#fffffe", *kGrid = "#e6e6e5", *kMuted = "#6e7072";
inline constexpr const char* kMeasured = kInk;
inline constexpr const char* kPredicted = "#D55E00";  // used for nothing else
inline constexpr const char* kFitted = "#8b8d8f";     // runs that were fitted, so no test of predictions

/// Colour of a part of a step or of memory, a lane's state, a precision, a verdict or a class of failures.
std::string colour_of(const std::string& name);
/// Everything that has a colour of its own.
std::vector<std::string> names();
/// Class under which a kind of op is priced and coloured: "matrix products", "attention", "communication" …
std::string class_of_op(const std::string& kind, const std::string& lane);

/// Replacements in dark mode: {"#1b1c1d": "#e9eaeb", …}.
nlohmann::json on_dark();

/// {"domain": names, "range": their colours}, for use as a `scale`.
nlohmann::json scale_of(const std::vector<std::string>& names);
/// Every layout of the report, in order, including those that failed.
std::vector<std::string> layouts(const ReportData& d);
nlohmann::json layout_scale(const ReportData& d);
/// Sets of results, before and after: the first is grey.
nlohmann::json set_scale(const std::vector<std::string>& sets);
/// Precisions as shapes, for figures whose colour encodes the layout.
std::vector<std::string> precisions(const ReportData& d);  // those of the report's runs
nlohmann::json precision_shapes(const ReportData& d);
/// Colours for figures with one curve a run.
nlohmann::json run_scale(const std::vector<std::string>& labels);

}  // namespace isobar::report::palette
