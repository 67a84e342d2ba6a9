// The subject of a report: net and its size, data, machine, dates and number of runs. Values that differ
// among runs are given as a range or a count.
#pragma once
#include <string>
#include <vector>

#include "reports/data.h"

namespace isobar::report {

struct Subject {
  std::string title;               // "vit-tiny on AMD EPYC 7763, 1 to 4 ranks"
  std::vector<std::string> lines;  // sentences below the title
};

Subject subject_of(const ReportData& d);

}  // namespace isobar::report
