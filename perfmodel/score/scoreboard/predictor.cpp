#include "perfmodel/score/scoreboard/predictor.h"

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "perfmodel/fitting/statistics.h"
#include "perfmodel/score/counts/net_counts.h"

namespace isobar::perf {

CampaignPredictor::CampaignPredictor(const Quantity& quantity, Samples own, const Others& others,
                                     Believe believe)
    : quantity_(quantity), others_(others), believe_(std::move(believe)) {
  if (own.empty()) return;
  without_rows_ = std::make_unique<CampaignPredictor>(quantity_, Samples(), others_, believe_);
  own_ = own;
  for (const Sample* s : own) said_.push_back(*s);
  for (Sample& s : said_) s.log_s -= unsaid(*s.run);
  for (size_t i = 0; i < own_.size(); ++i) own_[i] = &said_[i];
}

double CampaignPredictor::unsaid(const PublishedRun& run) {
  constexpr double kFew = 5;  // rows after which half of it is left
  if (!without_rows_ || run.unsaid.empty()) return 0;
  const auto [log_ratio, first] = others_.unsaid.try_emplace({run.id, run.specification(), run.runs_on});
  if (first)
    log_ratio->second = std::log(without_rows_->predict(run).of.value / without_rows_->relative(run).value);
  return log_ratio->second * kFew / (kFew + static_cast<double>(own_.size()));
}

const CampaignFit& CampaignPredictor::fit_of(const ForeignEngine* engine) {
  auto& fit = fits_[engine];
  if (!fit) fit = std::make_unique<CampaignFit>(quantity_, own_, believe_(engine));
  return *fit;
}

Estimated CampaignPredictor::relative(const PublishedRun& run) {
  const Sample s = &quantity_ == &kPeakBytes ? memory_sample_of(run) : sample_of(run);
  Estimated e = fit_of(run.runs_on).predict(s);
  const double measured = std::exp(s.log_s);
  const double more = unsaid(run);  // as uncertain as half of itself
  e.value *= std::exp(more) / measured;
  e.lower *= std::exp(more - std::abs(more) / 2) / measured;
  e.upper *= std::exp(more + std::abs(more) / 2) / measured;
  return e;
}

OpenEstimate CampaignPredictor::over(const std::vector<RunReading>& readings) {
  OpenEstimate e = over_readings(readings, [&](const PublishedRun& r) { return relative(r); });
  if (&quantity_ != &kStepSeconds) return e;
  double log_ratio = 0;
  for (const RunReading& r : readings) {
    const double seconds = others_.usual.seconds(r.run);
    if (!(seconds > 0)) return e;
    log_ratio += r.chance * std::log(seconds / r.run.step_s);
  }
  e.constant_mfu = std::exp(log_ratio);
  return e;
}

OpenEstimate CampaignPredictor::predict(const PublishedRun& run) {
  return over(own_.empty() ? others_.choices.readings(run) : std::vector<RunReading>{{run}});
}

OpenEstimate CampaignPredictor::predict(const OpenRun& open) {
  return over(others_.choices.readings(open, own_.empty()));
}

namespace {

std::string kind_of(const PublishedRun& r) {
  const char* net = r.experts > 0           ? "mixture of experts"
                    : r.arch == Arch::vit   ? "vit"
                    : r.arch == Arch::llama ? "llama"
                                            : "gpt";
  return std::string(net) + " on " + r.gpu->chip();
}

}  // namespace

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
          e.narrows,
          kind_of(r),
          measured * e.constant_mfu};
}

ScoredRow row_of(const OpenRun& open, const OpenEstimate& e) {
  ScoredRow row = row_of(open.candidates.front(), 1, e);
  row.group = row.id;
  row.choice.clear();
  return row;
}

namespace {

double peak_of(const PublishedRun& r) {
  return r.gpus * r.gpu->peak(r.precision);
}

/// From the most alike to all.
std::array<std::string, 3> keys_of(const PublishedRun& r) {
  const std::string precision = std::to_string(static_cast<int>(r.precision));
  return {r.gpu->chip() + " " + precision, precision, ""};
}

}  // namespace

ConstantMfu::ConstantMfu(const Samples& others) {
  std::map<std::string, std::map<std::string, std::vector<double>>> said;  // key -> campaign
  for (const Sample* s : others)
    if (s->run && s->run->step_s > 0)
      for (const std::string& key : keys_of(*s->run))
        said[key][s->campaign].push_back(model_flops(*s->run) / (s->run->step_s * peak_of(*s->run)));
  for (const auto& [key, campaigns] : said) {
    std::vector<double> medians;
    for (const auto& [name, mfu] : campaigns) medians.push_back(quantile(mfu, 0.5));
    by_key_[key] = quantile(medians, 0.5);
  }
}

double ConstantMfu::seconds(const PublishedRun& r) const {
  for (const std::string& key : keys_of(r))
    if (const auto mfu = by_key_.find(key); mfu != by_key_.end())
      return model_flops(r) / (mfu->second * peak_of(r));
  return 0;
}

}  // namespace isobar::perf
