// The report's HTML page before render.py inserts drawings: complete and readable, with tables, captions and
// a note in the place of each figure.
#pragma once
#include <string>
#include <vector>

#include "reports/data.h"
#include "reports/figures/chart_data.h"
#include "reports/figures/figures.h"
#include "reports/story.h"
#include "reports/tables/tables.h"

namespace isobar {

/// Markers that render.py fills: <!--isobar:scripts-->, <!--isobar:csp--> and, for each figure,
/// <!--isobar:figure ID--> ... <!--/isobar:figure-->. Data cannot contain a marker because all text is
/// escaped. page.js reads the shared data set (#runs-data, by column), the facets (#facets) and each figure's
/// specification (script[data-figure]).
std::string page_html(const ReportData& d, const ChartData& s, const std::vector<Sentence>& sentences,
                      const std::vector<Figure>& figures, const std::vector<Table>& tables);

/// A page of sentences, figures and tables without runs.
std::string page_html(const std::string& title, const std::vector<Figure>& figures,
                      const std::vector<Table>& tables, const std::vector<std::string>& sentences = {});

/// CSS shared by all pages.
const char* page_style();

}  // namespace isobar
