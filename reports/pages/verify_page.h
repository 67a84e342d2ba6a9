// Skill by lead time beside persistence and climatology, errors in space and time, and spectra, as a page;
// each also as SVG and CSV.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "model/skill/verification.h"
#include "reports/tables/tables.h"

namespace isobar::report {

/// A row for each lead and target.
Table skill_table(const skill::Verification& v);
/// A row for each lead, target and class between --thresholds; empty without thresholds.
Table class_table(const skill::Verification& v);
/// The dates with the least and the largest errors at the last lead, `of_each` of both.
Table cases_table(const skill::Verification& v, size_t of_each);
/// Returns why figures were not drawn; "": all were.
std::string write_verify_page(const std::filesystem::path& out, const skill::Verification& v);
/// All scores, for programs; NaN and infinities are null.
nlohmann::json json_of(const skill::Verification& v);

}  // namespace isobar::report
