// Whole campaigns left out: each predicted from all the others, as a stranger's runs are.
//
//   CampaignsOut out = leave_campaigns_out(kStepSeconds, tables, tables);
//   out.median_mape, out.coverage, out.campaigns[0].scores.mape
//   leave_campaigns_out(kStepSeconds, tables, tables, 3)   // given three random rows of each, the rest asked
//
// A campaign is an engine and its tuning (PublishedRun::campaign), whatever tables it stands in. Nothing of
// it reaches the fit, nor a row of another campaign that repeats one of its specifications.
#pragma once
#include <string>
#include <vector>

#include "perfmodel/score/metrics.h"
#include "perfmodel/score/prices.h"
#include "perfmodel/score/referee.h"

namespace isobar {

struct CampaignScore {
  std::string campaign;
  Scores scores;
  std::vector<ScoredRow> rows;
};

struct CampaignsOut {
  std::vector<CampaignScore> campaigns;  // by name
  double median_mape = 0;                // over campaigns, of their mean errors
  double coverage = 0, least = 0;        // of all rows; of the campaign that has the least
  double width = 0;                      // median over campaigns: upper over lower of their median row
  std::vector<ScoredRow> open;           // rows that leave inputs open, over all that they may be of
};

/// kStepSeconds, or kPeakBytes of the runs whose memory was read. `others` are fitted to as well. `given`: so
/// many rows of the campaign too, random ones in ten draws; rows that repeat one of them are not scored,
/// and campaigns that have too few for that are left alone.
CampaignsOut leave_campaigns_out(const Quantity& quantity, const Library& scored, const Library& others,
                                 size_t given = 0);

}  // namespace isobar
