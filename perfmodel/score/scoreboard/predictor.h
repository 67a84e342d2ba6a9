// Predicts a campaign's runs, said or open, from its training rows and all other campaigns: the one path of
// --leave-out, --folds, --fit-on and --points.
//
//   CampaignPredictor p(kStepSeconds, own_rows, others, [&](const ForeignEngine* e) { return belief; });
//   OpenEstimate e = p.predict(run);       // e.of: relative to the measurement
//
// Without training rows, the answer is over all that the row may be (choices.h). With some, unsaid policies
// are read as usual; what all readings make of a row beside that is taken off before the fit and added to the
// answer, the less the more rows there are, since fitted prices absorb it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "perfmodel/score/prices/campaign_fit.h"
#include "perfmodel/score/prices/sample.h"
#include "perfmodel/score/scoreboard/choices.h"
#include "perfmodel/score/scoreboard/metrics.h"

namespace isobar::perf {

/// The plainest prediction there is, printed beside the model's: a constant MFU, the median over other
/// campaigns of their median, of the same chip and precision; without such, of the same precision, or of all.
class ConstantMfu {
 public:
  ConstantMfu() = default;
  explicit ConstantMfu(const Samples& others);
  /// 0: there are no other runs.
  double seconds(const PublishedRun& run) const;

 private:
  std::map<std::string, double> by_key_;
};

/// Other campaigns' evidence besides prices.
struct Others {
  Others() = default;
  explicit Others(const Samples& runs) : choices(runs), usual(runs) {}
  Choices choices;
  ConstantMfu usual;
  /// By id, specification and engine: log of all readings' answer over the usual one's, kept as asked for.
  mutable std::map<std::tuple<std::string, std::string, const ForeignEngine*>, double> unsaid;
};

class CampaignPredictor {
 public:
  using Believe = std::function<PriceBelief(const ForeignEngine*)>;
  /// `others` must outlive it, and serve one quantity and belief.
  CampaignPredictor(const Quantity& quantity, Samples own, const Others& others, Believe believe);
  OpenEstimate predict(const PublishedRun& run);
  OpenEstimate predict(const OpenRun& open);

 private:
  const CampaignFit& fit_of(const ForeignEngine* engine);
  OpenEstimate over(const std::vector<RunReading>& readings);
  Estimated relative(const PublishedRun& run);
  /// Its entry of `others.unsaid`, the less the more training rows there are; 0 without any
  double unsaid(const PublishedRun& run);
  const Quantity& quantity_;
  std::vector<Sample> said_;  // training rows, less what they leave unsaid
  Samples own_;
  const Others& others_;
  Believe believe_;
  std::map<const ForeignEngine*, std::unique_ptr<CampaignFit>> fits_;
  std::unique_ptr<CampaignPredictor> without_rows_;  // null: there are none
};

/// A scored row; `measured` in the quantity's unit. `draw` is added to its group.
ScoredRow row_of(const PublishedRun& run, double measured, const OpenEstimate& e,
                 const std::string& draw = "");
/// The same of an open row, relative to its measurement.
ScoredRow row_of(const OpenRun& open, const OpenEstimate& e);

}  // namespace isobar::perf
