// Machines or what-ifs side by side, as tables.
//
//   std::fputs(to_text(compared(rows)).c_str(), stdout);       // rounded to the intervals
//   to_csv(compared_numbers(rows)); to_json(compared_numbers(rows));
#pragma once
#include <string>
#include <vector>

#include "perfmodel/ask/choose/compare.h"
#include "reports/tables/tables.h"

namespace isobar::report {

/// For people, in 100 columns.
Table compared(const std::vector<perf::ComparedRow>& rows);
/// Each row's layout, and what limits it, a line each.
std::string layouts_text(const std::vector<perf::ComparedRow>& rows);
/// For programs: ends of intervals in separate columns, all digits.
Table compared_numbers(const std::vector<perf::ComparedRow>& rows);

}  // namespace isobar::report
