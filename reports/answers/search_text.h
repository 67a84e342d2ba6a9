// Answers of searches in text and JSON (perfmodel/ask/choose/answers.h).
//
//   std::fputs(text_of(answer, machine, 64, question).c_str(), stdout);
//   std::fputs(scaling_text(points).c_str(), stdout);             // of several numbers of accelerators
//
// A training as a proposal to a computing facility asks for it: a paragraph, and how the training scales.
//
//   proposal_text(facility, scheduled)    // "For a proposal: 64 nodes of frontier for 12 days (9 to 20), …"
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/answers.h"
#include "perfmodel/ask/choose/facility.h"
#include "reports/tables/tables.h"

namespace isobar::report {

std::string text_of(const perf::SearchAnswer& a, const perf::Machine& machine, int64_t gpus,
                    const perf::LayoutQuestion& q);
nlohmann::json json_of(const perf::SearchAnswer& a, const perf::Machine& machine, int64_t gpus,
                       const perf::LayoutQuestion& q);

struct ScalingPoint {
  int64_t gpus;
  double step_s;
  std::string layout;
};
std::string scaling_text(const std::vector<ScalingPoint>& points);

std::string proposal_text(const perf::Facility& f, const perf::Scheduled& s);
/// Strong scaling over the rows of one machine, fewest nodes first.
Table scaling_table(const perf::Facility& f, const std::vector<perf::Scheduled>& rows);

}  // namespace isobar::report
