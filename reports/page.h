// The report's one HTML page, before render.py fills in drawings: complete and readable as it is, with
// tables, captions and a note where each figure will stand.
#pragma once
#include <string>
#include <vector>

#include "reports/chart_data.h"
#include "reports/data.h"
#include "reports/figures.h"
#include "reports/story.h"
#include "reports/tables.h"

namespace isobar {

/// Places that render.py fills: <!--isobar:scripts-->, <!--isobar:csp--> and, for each figure,
/// <!--isobar:figure ID--> ... <!--/isobar:figure-->. No data can hold such a mark: all text is escaped.
/// page.js reads the shared data set (#runs-data, by column), the facets (#facets) and each figure's
/// specification (script[data-figure]).
std::string page_html(const ReportData& d, const ChartData& s, const std::vector<Sentence>& sentences,
                      const std::vector<Figure>& figures, const std::vector<Table>& tables);

/// The same of figures and tables that are of no runs.
std::string page_html(const std::string& title, const std::vector<Figure>& figures,
                      const std::vector<Table>& tables);

/// Of every page.
const char* page_style();

}  // namespace isobar
