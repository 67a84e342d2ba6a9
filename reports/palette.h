// One meaning for a colour on the whole page: what a figure colours it looks up here, by its name, so that a
// layout or a class of ops looks alike wherever it stands and however readers filter.
//
// Layouts, precisions and verdicts have colours of Paul Tol's schemes, parts of a step and of memory those of
// Okabe and Ito: all are told apart by colour-blind readers, and on a dark ground as on a light one. Ink,
// paper and grid are the only ones that a dark page exchanges (page.js).
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reports/data.h"

namespace isobar::palette {

inline constexpr const char *kInk = "#1b1c1d", *kPaper = "#fffffe", *kGrid = "#e6e6e5", *kMuted = "#6e7072";
inline constexpr const char* kMeasured = kInk;
inline constexpr const char* kPredicted = "#D55E00";  // of nothing else
inline constexpr const char* kFitted = "#8b8d8f";     // runs that set the coefficients: no test of them

/// Of a part of a step or of memory, a lane's state, a precision, a verdict or a class of failures.
std::string colour_of(const std::string& name);
/// What a kind of op is priced and coloured as: "matrix products", "attention", "communication" …
std::string class_of_op(const std::string& kind, const std::string& lane);

/// What a dark page draws instead: {"#1b1c1d": "#e9eaeb", …}.
nlohmann::json on_dark();

/// {"domain": names, "range": their colours}: to be the `scale` of a colour.
nlohmann::json scale_of(const std::vector<std::string>& names);
/// Every layout of the report, in order, those that failed too.
std::vector<std::string> layouts(const ReportData& d);
nlohmann::json layout_scale(const ReportData& d);
/// Precisions as shapes, where colour says the layout.
std::vector<std::string> precisions(const ReportData& d);  // that any run has
nlohmann::json precision_shapes(const ReportData& d);
/// Runs of figures with a curve for each.
nlohmann::json run_scale(const std::vector<std::string>& labels);

}  // namespace isobar::palette
