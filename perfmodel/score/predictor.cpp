#include "perfmodel/score/predictor.h"

#include <cmath>
#include <utility>

namespace isobar {

CampaignPredictor::CampaignPredictor(const Quantity& quantity, Samples own, const Choices& choices,
                                     Believe believe)
    : quantity_(quantity), own_(std::move(own)), choices_(choices), believe_(std::move(believe)) {}

const CampaignFit& CampaignPredictor::fit_of(const ForeignEngine* engine) {
  auto& fit = fits_[engine];
  if (!fit) fit = std::make_unique<CampaignFit>(quantity_, own_, believe_(engine));
  return *fit;
}

Estimated CampaignPredictor::relative(const PublishedRun& run) {
  const Sample s = &quantity_ == &kPeakBytes ? memory_sample_of(run) : sample_of(run);
  Estimated e = fit_of(run.runs_on).predict(s);
  const double measured = std::exp(s.log_s);
  e.value /= measured;
  e.lower /= measured;
  e.upper /= measured;
  return e;
}

OpenEstimate CampaignPredictor::predict(const PublishedRun& run) {
  if (!own_.empty() || run.unsaid.empty()) return {relative(run)};
  return over_readings(choices_.readings(run), [&](const PublishedRun& r) { return relative(r); });
}

OpenEstimate CampaignPredictor::predict(const OpenRun& open) {
  return over_readings(choices_.readings(open, own_.empty()), [&](const PublishedRun& r) { return relative(r); });
}

ScoredRow row_of(const PublishedRun& r, double measured, const OpenEstimate& e, const std::string& draw) {
  return {r.id,
          r.choice_group() + draw,
          measured,
          measured * e.of.value,
          measured * e.of.lower,
          measured * e.of.upper,
          r.specification(),
          e.of.news,
          e.of.share,
          e.assumed,
          e.narrows};
}

ScoredRow row_of(const OpenRun& open, const OpenEstimate& e) {
  ScoredRow row = row_of(open.candidates.front(), 1, e);
  row.group = row.id;
  row.choice.clear();
  return row;
}

}  // namespace isobar
