// The report's HTML page before render.py inserts drawings: complete and readable, with tables, captions and
// a note in the place of each figure.
//
// A page of figures and tables without runs, for commands that only predict.
//
//   write_plain_page("out", {.title = "llama3-8b on 64 GPUs"}, figures, tables);
//   // OUT/index.html, OUT/figures/*.{vl.json,svg}, OUT/tables/*.csv
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "reports/data.h"
#include "reports/figures/chart_data.h"
#include "reports/figures/figures.h"
#include "reports/story.h"
#include "reports/tables/tables.h"

namespace isobar::report {

struct PageText {
  std::string title, subject = {}, made = {};  // what it is of; the last line: when and of what it was made
  std::vector<Fact> facts = {};                // in large type
  std::vector<Sentence> sentences = {};        // brief ones on the first screen, their text folded
  std::vector<std::string> problems = {};
};

/// Markers that render.py fills: <!--isobar:scripts-->, <!--isobar:csp--> and, for each figure,
/// <!--isobar:figure ID--> ... <!--/isobar:figure-->. Data cannot contain a marker because all text is
/// escaped. page.js reads the shared data set (#runs-data, by column), the facets (#facets) and each figure's
/// specification (script[data-figure]).
/// Figures: the first leads the page, beside the facts; those `shown` follow, the others are folded by
/// section.
std::string page_html(const PageText& text, const std::vector<Figure>& figures,
                      const std::vector<Table>& tables, const nlohmann::json& rows = nlohmann::json::array(),
                      const nlohmann::json& facets = nlohmann::json::array());
/// The words of a report of runs, and what its readers can filter by.
PageText text_of_page(const ReportData& d, const std::vector<Comparison>& comparisons);
nlohmann::json facets_of(const ReportData& d);

/// CSS shared by all pages.
const char* page_style();

/// Returns why figures were not drawn and how to fix it; "" if all were.
std::string write_plain_page(const std::filesystem::path& out, const PageText& text,
                             const std::vector<Figure>& figures, const std::vector<Table>& tables);

}  // namespace isobar::report
