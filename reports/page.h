// The report's one HTML page, before render.py fills in drawings: complete and readable as it is, with
// tables, captions and a note where each figure will stand.
#pragma once
#include <string>
#include <vector>

#include "reports/data.h"
#include "reports/figures.h"
#include "reports/tables.h"

namespace isobar {

/// Places that render.py fills: <!--isobar:bundle-->, <!--isobar:csp--> and, for each figure,
/// <!--isobar:figure ID--> ... <!--/isobar:figure-->. No data can hold such a mark: all text is escaped.
std::string page_html(const ReportData& d, const std::vector<Figure>& figures,
                      const std::vector<Table>& tables);

}  // namespace isobar
