// The referee's scores as lines of a table, or as lines of JSON.
//
//   std::fputs(shown(judge(…), {.json = false}).c_str(), stdout);
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "perfmodel/score/scoreboard/referee.h"

namespace isobar::report {

struct ScoreView {
  bool json = false;
  bool rows = false;  // as JSON: each row too
};
/// The columns' names; `constant`: the mean error of a constant MFU. `of`: "table", "campaign".
std::string score_header(const char* of);
std::string shown(const perf::TableScore& s, const ScoreView& view);
std::string shown(const perf::CollectiveScore& s, const ScoreView& view);
/// Why rows of a table are refused.
std::string refusals(const perf::PublishedTable& table);
/// `what`: "step time", "peak memory".
std::string shown(const perf::CampaignsOut& out, const char* what, const ScoreView& view);
/// Accuracy by the number of a campaign's rows that are given to the fit; "" for none.
std::string shown(const std::vector<std::pair<int, perf::CampaignsOut>>& few, const char* what,
                  const ScoreView& view);

}  // namespace isobar::report
