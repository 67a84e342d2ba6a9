// Pages of answers: a search or several machines, a budget, the skill of a forecast; each figure also as SVG
// and CSV. The writers return why figures were not drawn and how to fix it; "": all were.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/skill/verification.h"
#include "perfmodel/ask/choose/compare.h"
#include "perfmodel/ask/choose/schedule.h"
#include "reports/story.h"
#include "reports/tables/tables.h"

namespace isobar::report {

/// "llama3-70b": the title of its pages.
std::string name_of_file(const RunSpec& spec);

/// The best of each (dp, tp, cp, ep, pp) on the first number of accelerators, and scaling over the numbers;
/// for a single number, scaling around it; numbers without an answer go to `none`. Throws ConfigError where
/// no layout fits.
std::string write_search_page(const std::filesystem::path& out, const perf::Chooser& chooser,
                              const RunSpec& spec, const perf::LayoutQuestion& q,
                              std::vector<perf::NoAnswer>& none);
std::string write_machines_page(const std::filesystem::path& out, const std::string& title,
                                const std::vector<perf::ComparedRow>& rows);

// ---- a budget ----

/// The answer, days against money, one table, what would change the answer. `sentences`: the answer first;
/// `more`: tables below.
std::string write_budget_page(const std::filesystem::path& out, const std::string& title,
                              const std::vector<Sentence>& sentences, const std::vector<perf::Scheduled>& all,
                              const perf::LayoutQuestion& q, const std::vector<Table>& more = {});

// ---- skill ----

/// A row for each lead and target.
Table skill_table(const skill::Verification& v);
/// A row for each lead, target and class between --thresholds; empty without thresholds.
Table class_table(const skill::Verification& v);
/// The dates with the least and the largest errors at the last lead, `of_each` of both.
Table cases_table(const skill::Verification& v, size_t of_each);
/// Skill by lead time beside persistence and climatology, errors in space and time, and spectra.
std::string write_verify_page(const std::filesystem::path& out, const skill::Verification& v);
/// All scores, for programs; NaN and infinities are null.
nlohmann::json json_of(const skill::Verification& v);

}  // namespace isobar::report
