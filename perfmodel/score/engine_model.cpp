#include "perfmodel/score/engine_model.h"

#include <Eigen/Cholesky>
#include <cmath>
#include <random>

#include "perfmodel/machine/shipped.h"
#include "perfmodel/score/prices/campaign_fit.h"
#include "perfmodel/score/scoreboard/referee.h"
#include "perfmodel/score/scoreboard/splits.h"

namespace isobar::perf {
namespace {

PriceBelief learnt(const Quantity& quantity, const Library& tables, const ForeignEngine* engine,
                   const Tuned& tuned, size_t* own, size_t* others) {
  Pool pool;
  for (const PublishedTable& t : tables)
    for (const PublishedRun& r : t.runs) {
      if (&quantity == &kPeakBytes && r.memory_gb <= 0) continue;
      pool.add(&quantity == &kPeakBytes ? memory_sample_of(r) : sample_of(r));
      ++*(engine && r.runs_on == engine ? own : others);
    }
  std::vector<Voice> voices;
  for (const auto& [name, samples] : pool.by_campaign()) voices.push_back(voice_of(quantity, samples));
  return believe(quantity, voices, engine, tuned);
}

Samples pointers(const std::vector<std::unique_ptr<Sample>>& owned) {
  Samples out;
  for (const auto& s : owned) out.push_back(s.get());
  return out;
}

}  // namespace

EngineModel::EngineModel(const std::vector<PublishedTable>& tables, const ForeignEngine* engine,
                         std::optional<double> tuned) {
  tuned_ = tuned ? Tuned{*tuned, 0} : engine ? engine->tuned : Tuned{};
  step_ = std::make_unique<PriceBelief>(learnt(kStepSeconds, tables, engine, tuned_, &own_, &others_));
  size_t own = 0, others = 0;
  memory_ = std::make_unique<PriceBelief>(learnt(kPeakBytes, tables, engine, tuned_, &own, &others));
  condition();
}

EngineModel::~EngineModel() = default;

EngineModel EngineModel::shipped(const ForeignEngine* engine, std::optional<double> tuned) {
  return {load_library(isobar::perf::shipped("configs/published")), engine, tuned};
}

void EngineModel::learn(std::vector<PublishedRun> own) {
  runs_ = std::move(own);
  steps_.clear();
  peaks_.clear();
  for (const PublishedRun& r : runs_) {
    steps_.push_back(std::make_unique<Sample>(sample_of(r)));
    if (r.memory_gb > 0) peaks_.push_back(std::make_unique<Sample>(memory_sample_of(r)));
  }
  condition();
}

void EngineModel::condition() {
  step_fit_ = std::make_unique<CampaignFit>(kStepSeconds, pointers(steps_), *step_);
  memory_fit_ = std::make_unique<CampaignFit>(kPeakBytes, pointers(peaks_), *memory_);
}

EngineAnswer EngineModel::predict(const PublishedRun& run) const {
  return {step_fit_->predict(sample_of(run)), memory_fit_->predict(memory_sample_of(run))};
}

EngineModel::Fastest EngineModel::fastest(const std::vector<PublishedRun>& runs) const {
  constexpr int kDraws = 4000;
  const auto n = static_cast<Eigen::Index>(runs.size());
  std::vector<Sample> samples;
  for (const PublishedRun& r : runs) samples.push_back(sample_of(r));
  Eigen::MatrixXd covariance(n, n);
  Eigen::VectorXd mean(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Sample& a = samples[static_cast<size_t>(i)];
    mean[i] = std::log(step_fit_->predict(a).value);
    for (Eigen::Index k = 0; k <= i; ++k)
      covariance(i, k) = covariance(k, i) = step_fit_->covariance(a, samples[static_cast<size_t>(k)]);
  }
  covariance.diagonal().array() += 1e-9;
  const Eigen::LDLT<Eigen::MatrixXd> ldlt(covariance);
  const Eigen::MatrixXd root = ldlt.transpositionsP().transpose() * Eigen::MatrixXd(ldlt.matrixL()) *
                               ldlt.vectorD().cwiseMax(0).cwiseSqrt().asDiagonal().toDenseMatrix();
  Fastest out{std::vector<double>(runs.size()), 0};
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  Eigen::VectorXd z(n);
  for (int draw = 0; draw < kDraws; ++draw) {
    for (Eigen::Index i = 0; i < n; ++i) z[i] = normal(random);
    const Eigen::VectorXd log_s = mean + root * z;
    Eigen::Index first = 0;
    const double least = log_s.minCoeff(&first);
    out.chances[static_cast<size_t>(first)] += 1.0 / kDraws;
    out.loss += (1 - std::exp(least - log_s[0])) / kDraws;
  }
  return out;
}

std::vector<ScoredRow> EngineModel::left_out() const {
  std::vector<ScoredRow> rows;
  for (const auto& one : steps_) {
    Samples others;
    for (const Sample* s : pointers(steps_))
      if (s->values.at("") != one->values.at("")) others.push_back(s);
    const Estimated e = CampaignFit(kStepSeconds, others, *step_).predict(*one);
    rows.push_back({one->id, one->run->choice_group(), one->run->step_s, e.value, e.lower, e.upper,
                    one->run->specification(), e.news, e.share});
  }
  return rows;
}

}  // namespace isobar::perf
