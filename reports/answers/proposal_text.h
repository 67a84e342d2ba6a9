// A training as a proposal to a computing facility asks for it: a paragraph, and how the training scales.
//
//   proposal_text(facility, scheduled)    // "For a proposal: 64 nodes of frontier for 12 days (9 to 20), …"
#pragma once
#include <string>
#include <vector>

#include "perfmodel/ask/choose/facility.h"
#include "reports/tables/tables.h"

namespace isobar::report {

std::string proposal_text(const perf::Facility& f, const perf::Scheduled& s);
/// Strong scaling over the rows of one machine, fewest nodes first.
Table scaling_table(const perf::Facility& f, const std::vector<perf::Scheduled>& rows);

}  // namespace isobar::report
