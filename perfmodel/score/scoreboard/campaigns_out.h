// Leave-one-campaign-out: each is predicted from all others, like a stranger's runs.
//
//   CampaignsOut out = leave_campaigns_out(kStepSeconds, tables, tables);
//   out.median_mape, out.coverage, out.campaigns[0].scores.mape
//   leave_campaigns_out(kStepSeconds, tables, tables, 3)   // with three random rows of each given
//
// A campaign is an engine and its tuning (PublishedRun::campaign), across tables. Nothing of it reaches the
// fit, nor does a row of another campaign that repeats one of its specifications.
#pragma once
#include <string>
#include <vector>

#include "perfmodel/score/prices/prices.h"
#include "perfmodel/score/scoreboard/metrics.h"
#include "perfmodel/score/scoreboard/referee.h"

namespace isobar::perf {

struct CampaignScore {
  std::string campaign;
  Scores scores;
  std::vector<ScoredRow> rows;
};

struct CampaignsOut {
  std::vector<CampaignScore> campaigns;  // by name
  double median_mape = 0;                // over campaigns, of their mean errors
  double coverage = 0, least = 0;        // of all rows; of the worst campaign
  double width = 0;                      // median over campaigns: upper over lower of their median row
  std::vector<ScoredRow> open;           // rows with open inputs, over all their candidates
};

/// kStepSeconds, or kPeakBytes of runs with memory readings. `others` are also fitted to. `given`: number of
/// the campaign's random rows to fit to, in ten draws; repetitions of those are not scored, and campaigns
/// with too few rows are skipped.
CampaignsOut leave_campaigns_out(const Quantity& quantity, const Library& scored, const Library& others,
                                 size_t given = 0);

}  // namespace isobar::perf
