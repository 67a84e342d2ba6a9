#include "perfmodel/score/prices/campaign_fit.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <set>

#include "perfmodel/fitting/fit.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar::perf {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kFewErrors = 12;
constexpr double kFew = 5;  // different runs whose information the other parameters of the fit use up
constexpr size_t kScaleRows = 160, kProcessRows = 900;
constexpr double kFarOfFew = 0.35;  // log sigma an e-fold that the prices of a few runs leave, from campaigns
                                    // left out
constexpr double kNoiseOfFew = 3;  // misfits, from campaigns left out: what a few runs share is not known yet
constexpr double kScale = 3;       // prior length scale, in octaves
constexpr double kRoot3 = 1.7320508075688772;

/// Runs of one group deviate together. `share`: prior deviation in misfits.
struct Level {
  const char* name;
  double share;
};
constexpr std::array<Level, 3> kLevels{{{"source", 0.6}, {"section", 0.4}, {"machine", 0.4}}};
// Values that a run may have and no training run.
constexpr std::array<const char*, 5> kNews{"layout", "model", "gpus", "precision", "machine"};

}  // namespace

CampaignFit::CampaignFit(const Quantity& quantity, const Samples& training, const PriceBelief& belief)
    : quantity_(quantity), belief_(belief), prices_(belief.mean) {
  // All proportional to the expected misfit of counts and prices.
  amplitude_ = process_sigma(quantity);
  std::set<std::string> different;
  for (const Sample* r : training) different.insert(r->values.at(""));
  different_ = static_cast<double>(different.size());
  usual_noise_ = (0.5 + kNoiseOfFew * few()) * quantity.misfit;
  noise_ = usual_noise_;
  offset2_ = std::pow(offset_sigma(quantity), 2);
  for (const Level& l : kLevels) levels_.push_back(l.share * quantity.misfit);
  floor_ = std::min(0.015, 0.19 * quantity.misfit);
  if (training.empty()) return;
  prices_ = fitted_prices(quantity, training, belief);
  rows_ = thin(training, kProcessRows);
  jacobian_ = jacobian(quantity_, rows_, prices_);
  residual_ = residuals(quantity_, rows_, prices_) + jacobian_ * (prices_ - belief_.mean);
  spread_ = jacobian_ * belief_.covariance;
  features_.resize(static_cast<Eigen::Index>(rows_.size()), rows_[0]->features.size());
  for (size_t i = 0; i < rows_.size(); ++i)
    features_.row(static_cast<Eigen::Index>(i)) = rows_[i]->features.transpose();
  scales_ = VectorXd::Constant(features_.cols(), kScale);
  for (const Level& l : kLevels) {
    auto& known = group_of_.emplace_back();
    auto& of_rows = groups_.emplace_back();
    for (const Sample* r : rows_)
      of_rows.push_back(known.emplace(r->values.at(l.name), static_cast<int>(known.size())).first->second);
  }
  ordinary_.assign(rows_.size(), true);
  {
    std::vector<double> size;
    for (size_t i = 0; i < rows_.size(); ++i)
      size.push_back(std::abs(rows_[i]->log_s - log_value(quantity_, *rows_[i], prices_)));
    const double most = std::max(4 * quantity.misfit, 6 * quantile(size, 0.5));
    for (size_t i = 0; i < rows_.size(); ++i) ordinary_[i] = size[i] <= most;
  }
  learn_scales();
  condition();
  learn_scales();
  condition();
  calibrate();
}

/// Maximises the marginal likelihood of a sample of the residuals over length scales, amplitude and noise,
/// with a log-normal prior, by Adam.
void CampaignFit::learn_scales() {
  std::vector<Eigen::Index> pick;
  for (size_t i = 0; i < rows_.size(); ++i)
    if (ordinary_[i]) pick.push_back(static_cast<Eigen::Index>(i));
  std::shuffle(pick.begin(), pick.end(), std::mt19937(7));  // tables are sorted
  // One of each repetition: repeatability says nothing about different runs.
  std::set<std::string> known;
  std::erase_if(pick, [&](Eigen::Index i) {
    return !known.insert(rows_[static_cast<size_t>(i)]->values.at("")).second;
  });
  const size_t n = std::min(pick.size(), kScaleRows), d = static_cast<size_t>(features_.cols());
  if (n < 5) return;
  const auto N = static_cast<Eigen::Index>(n);
  MatrixXd x(N, features_.cols()), linear(N, N), j(N, prices_.size());
  VectorXd r(N);
  for (Eigen::Index i = 0; i < N; ++i) {
    const Eigen::Index from = pick[static_cast<size_t>(i)];
    x.row(i) = features_.row(from);
    j.row(i) = jacobian_.row(from);
    r[i] = residual_[from];
  }
  linear = j * belief_.covariance * j.transpose();
  linear.array() += offset2_;
  std::vector<MatrixXd> same;  // 1: same group, by level that distinguishes runs
  std::vector<size_t> parts;
  for (size_t l = 0; l < kLevels.size(); ++l) {
    std::set<int> distinct;
    MatrixXd m(N, N);
    for (Eigen::Index i = 0; i < N; ++i) {
      const int own = groups_[l][static_cast<size_t>(pick[static_cast<size_t>(i)])];
      distinct.insert(own);
      for (Eigen::Index k = 0; k < N; ++k)
        m(i, k) = own == groups_[l][static_cast<size_t>(pick[static_cast<size_t>(k)])];
    }
    // If no two runs share a group, its variance is counted as noise.
    if (distinct.size() == n) {
      levels_[l] = 0;
      continue;
    }
    if (distinct.size() < 2) {
      linear += levels_[l] * levels_[l] * m;
      continue;
    }
    parts.push_back(l);
    same.push_back(std::move(m));
  }
  std::vector<MatrixXd> squares;  // of differences, by varying feature
  std::vector<size_t> varies;
  for (size_t k = 0; k < d; ++k) {
    const VectorXd v = x.col(static_cast<Eigen::Index>(k));
    if (v.maxCoeff() - v.minCoeff() < 1e-9) continue;
    varies.push_back(k);
    squares.push_back((v.replicate(1, N) - v.transpose().replicate(N, 1)).array().square().matrix());
  }
  const size_t m = varies.size();
  const auto own = static_cast<Eigen::Index>(m) + 2;  // index of the first level's sigma
  VectorXd h(own + static_cast<Eigen::Index>(parts.size())), mean(h.size()),
      sigma = VectorXd::Constant(h.size(), 0.7);
  mean.setConstant(std::log(3.0));
  sigma.setConstant(0.4);  // tight: a few dozen runs say little about thirty scales
  mean[static_cast<Eigen::Index>(m)] = std::log(process_sigma(quantity_));
  mean[static_cast<Eigen::Index>(m) + 1] = std::log(usual_noise_);
  for (size_t l = 0; l < parts.size(); ++l)
    mean[own + static_cast<Eigen::Index>(l)] = std::log(kLevels[parts[l]].share * quantity_.misfit);
  sigma.segment(static_cast<Eigen::Index>(m), 2).setConstant(0.7);
  sigma.tail(static_cast<Eigen::Index>(parts.size())).setConstant(kPriorSpread);
  h = mean;
  VectorXd first = VectorXd::Zero(h.size()), second = first;
  for (int round = 1; round <= 45; ++round) {
    MatrixXd distance = MatrixXd::Constant(N, N, 1e-12);
    for (size_t k = 0; k < m; ++k) distance += squares[k] * std::exp(-2 * h[static_cast<Eigen::Index>(k)]);
    distance = (3 * distance.array()).sqrt().matrix();
    const MatrixXd decay = (-distance.array()).exp().matrix();
    const double a2 = std::exp(2 * h[static_cast<Eigen::Index>(m)]),
                 n2 = std::exp(2 * h[static_cast<Eigen::Index>(m) + 1]);
    const MatrixXd process = (a2 * (1 + distance.array()) * decay.array()).matrix();
    MatrixXd K = process + linear;
    for (size_t l = 0; l < parts.size(); ++l)
      K += std::exp(2 * h[own + static_cast<Eigen::Index>(l)]) * same[l];
    K.diagonal().array() += n2 + floor_ * floor_;
    const Eigen::LLT<MatrixXd> llt(K);
    const VectorXd alpha = llt.solve(r);
    const MatrixXd W = llt.solve(MatrixXd::Identity(N, N)) - alpha * alpha.transpose();
    VectorXd g(h.size());
    const MatrixXd slope = (W.array() * decay.array() * (3 * a2)).matrix();
    for (size_t k = 0; k < m; ++k)
      g[static_cast<Eigen::Index>(k)] =
          0.5 * std::exp(-2 * h[static_cast<Eigen::Index>(k)]) * slope.cwiseProduct(squares[k]).sum();
    g[static_cast<Eigen::Index>(m)] = W.cwiseProduct(process).sum();
    g[static_cast<Eigen::Index>(m) + 1] = n2 * W.trace();
    for (size_t l = 0; l < parts.size(); ++l) {
      const Eigen::Index at = own + static_cast<Eigen::Index>(l);
      g[at] = std::exp(2 * h[at]) * W.cwiseProduct(same[l]).sum();
    }
    g += ((h - mean).array() / sigma.array().square()).matrix();
    first = 0.9 * first + 0.1 * g;
    second = 0.999 * second + 0.001 * g.cwiseProduct(g);
    const VectorXd f = first / (1 - std::pow(0.9, round)), s = second / (1 - std::pow(0.999, round));
    h -= 0.12 * (f.array() / (s.array().sqrt() + 1e-8)).matrix();
  }
  for (size_t k = 0; k < m; ++k)
    scales_[static_cast<Eigen::Index>(varies[k])] = std::exp(h[static_cast<Eigen::Index>(k)]);
  amplitude_ = std::exp(h[static_cast<Eigen::Index>(m)]);
  for (size_t l = 0; l < parts.size(); ++l)
    levels_[parts[l]] = std::exp(h[own + static_cast<Eigen::Index>(l)]);
  noise_ = std::hypot(std::exp(h[static_cast<Eigen::Index>(m) + 1]), floor_);
}

VectorXd CampaignFit::kernel(const Sample& s) const {
  const Eigen::ArrayXXd z =
      (features_.rowwise() - s.features.transpose()).array().rowwise() / scales_.transpose().array();
  const Eigen::ArrayXd d = kRoot3 * (z.square().rowwise().sum() + 1e-12).sqrt();
  VectorXd k = (amplitude_ * amplitude_ * (1 + d) * (-d).exp()).matrix();
  for (size_t l = 0; l < kLevels.size(); ++l) {
    const auto own = group_of_[l].find(s.values.at(kLevels[l].name));
    if (own == group_of_[l].end()) continue;
    const double shared = levels_[l] * levels_[l];
    for (size_t i = 0; i < rows_.size(); ++i)
      if (groups_[l][i] == own->second) k[static_cast<Eigen::Index>(i)] += shared;
  }
  return k;
}

double CampaignFit::kernel(const Sample& a, const Sample& b) const {
  Eigen::ArrayXd z = (a.features - b.features).array();
  if (scales_.size() == z.size())
    z /= scales_.array();
  else
    z /= kScale;
  const double d = kRoot3 * std::sqrt(z.square().sum() + 1e-12);
  double k = amplitude_ * amplitude_ * (1 + d) * std::exp(-d);
  for (size_t l = 0; l < kLevels.size(); ++l)
    if (a.values.at(kLevels[l].name) == b.values.at(kLevels[l].name)) k += levels_[l] * levels_[l];
  return k;
}

double CampaignFit::covariance(const Sample& a, const Sample& b) const {
  const VectorXd ja = gradient(quantity_, a, prices_), jb = gradient(quantity_, b, prices_);
  const double before = ja.dot(belief_.covariance * jb) + offset2_ + kernel(a, b);
  if (rows_.empty()) return before;
  VectorXd ka = kernel(a) + spread_ * ja, kb = kernel(b) + spread_ * jb;
  ka.array() += offset2_;
  kb.array() += offset2_;
  return before - ka.dot(inverse_ * kb);
}

/// Conditions the process on the training runs; runs that contradict all neighbours get more noise.
void CampaignFit::condition() {
  const auto n = static_cast<Eigen::Index>(rows_.size());
  MatrixXd K(n, n);
  for (Eigen::Index i = 0; i < n; ++i) K.col(i) = kernel(*rows_[static_cast<size_t>(i)]);
  K += spread_ * jacobian_.transpose();
  K.array() += offset2_;
  const double n2 = noise_ * noise_;
  VectorXd noise = VectorXd::Constant(n, n2);
  for (Eigen::Index i = 0; i < n; ++i)
    if (!ordinary_[static_cast<size_t>(i)]) noise[i] = 1.0;
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    MatrixXd A = K;
    A.diagonal() += noise;
    const Eigen::LLT<MatrixXd> llt(A);
    alpha_ = llt.solve(residual_);
    if (round + 1 == kRounds) {
      inverse_ = llt.solve(MatrixXd::Identity(n, n));
      break;
    }
    for (Eigen::Index i = 0; i < n; ++i) {
      const double e = noise[i] * alpha_[i];
      noise[i] = std::min((quantity_.tail * n2 + e * e) / (quantity_.tail + 1), 4.0);
    }
  }
  for (Eigen::Index i = 0; i < n; ++i) ordinary_[static_cast<size_t>(i)] = noise[i] < 9 * n2;
}

/// Holds out every group of `what`: estimates the groups' common deviation beyond the process, and the
/// quantile of standardised errors.
void CampaignFit::hold_out(const std::string& what, const std::set<std::string>& sources) {
  const auto at = [](size_t i) { return static_cast<Eigen::Index>(i); };
  std::map<std::string, std::vector<size_t>> groups;
  for (size_t i = 0; i < rows_.size(); ++i) groups[rows_[i]->values.at(what)].push_back(i);
  struct HeldOut {
    const Sample* run;
    double error, variance;
  };
  std::vector<HeldOut> held_out;
  std::vector<std::pair<double, double>> means;  // of groups: error, variance
  for (const auto& [value, members] : groups) {
    if (groups.size() < 2) break;
    const auto m = at(members.size());
    MatrixXd block(m, m);
    VectorXd a(m);
    for (Eigen::Index i = 0; i < m; ++i) {
      a[i] = alpha_[at(members[static_cast<size_t>(i)])];
      for (Eigen::Index k = 0; k < m; ++k)
        block(i, k) = inverse_(at(members[static_cast<size_t>(i)]), at(members[static_cast<size_t>(k)]));
    }
    const Eigen::LLT<MatrixXd> llt(block);
    const VectorXd error = llt.solve(a);
    const VectorXd variance = llt.solve(MatrixXd::Identity(m, m)).diagonal();
    for (Eigen::Index i = 0; i < m; ++i)
      held_out.push_back({rows_[members[static_cast<size_t>(i)]], error[i], variance[i]});
    means.emplace_back(a.sum() / block.sum(), 1 / block.sum());  // generalised least squares
  }
  double beyond = 0;
  if (!what.empty()) {
    // A new group deviates by itself and by the groups it is predicted from.
    const double sigma = spread_of(means, std::sqrt(2.0) * quantity_.misfit);
    const double wider = student80(kPriorGroups + static_cast<double>(groups.size()) - 1) / kNormal80;
    beyond = sigma * sigma;
    news_[what] = std::pow(wider * sigma, 2);
  }
  // With few errors, use other campaigns' quantile or this one's overall. Runs held out together are wrong
  // together, so they count as one, and one of them is the reference.
  const double few = what.empty() ? kFewErrors : kPriorGroups;
  const auto quantile_of = [&](const std::string* source, double otherwise) {
    std::vector<double> z;
    std::set<std::string> values;
    for (const HeldOut& h : held_out) {
      if (source && h.run->values.at("source") != *source) continue;
      z.push_back(std::abs(h.error) / std::sqrt(h.variance + beyond));
      values.insert(h.run->values.at(what));
    }
    if (z.empty()) return otherwise;
    const double own = static_cast<double>(what.empty() ? z.size() : values.size() - 1);
    return (own * quantile(std::move(z), 0.8) + few * otherwise) / (own + few);
  };
  const double believed = std::max(kNormal80, 0.5 * (belief_.tails.high - belief_.tails.low));
  const double pooled = quantile_of(nullptr, believed);
  for (const std::string& source : sources) quantiles_[source][what] = quantile_of(&source, pooled);
}

void CampaignFit::calibrate() {
  std::set<std::string> sources;
  for (const Sample* r : rows_) sources.insert(r->values.at("source"));
  hold_out("", sources);  // repetitions of a run stay together
  for (const char* what : kNews) hold_out(what, sources);
}

std::vector<std::string> CampaignFit::news_of(const Sample& s) const {
  std::vector<std::string> news;
  for (const char* what : kNews)
    if (std::none_of(rows_.begin(), rows_.end(),
                     [&](const Sample* r) { return r->values.at(what) == s.values.at(what); }))
      news.emplace_back(what);
  return news;
}

double CampaignFit::few() const {
  return kFew / (kFew + different_);
}

double CampaignFit::width(const Sample& s, const std::vector<std::string>& news) const {
  const auto own = quantiles_.find(s.values.at("source"));
  double w = 0;
  if (own == quantiles_.end()) {  // a source without training runs: the worst of this campaign's
    for (const auto& [source, by_what] : quantiles_)
      for (const auto& [what, q] : by_what) w = std::max(w, q);
    return w;
  }
  if (news.empty()) return own->second.at("");
  for (const std::string& what : news) w = std::max(w, own->second.at(what));
  return w;
}

Estimated CampaignFit::predict(const Sample& s) const {
  double mean = log_value(quantity_, s, prices_), low = 0, high = 0, share = 1;
  std::string news = "campaign";
  if (rows_.empty()) {
    const Spread sigma = unseen_spread(quantity_, s, belief_);
    low = belief_.tails.low * sigma.below;
    high = belief_.tails.high * sigma.above;
  } else {
    const VectorXd j = gradient(quantity_, s, prices_);
    VectorXd k = kernel(s) + spread_ * j;
    k.array() += offset2_;
    mean += k.dot(alpha_) - j.dot(prices_ - belief_.mean);
    double variance = j.dot(belief_.covariance * j) + offset2_ + amplitude_ * amplitude_;
    for (double l : levels_) variance += l * l;
    variance = std::max(variance - k.dot(inverse_ * k), 0.0) + noise_ * noise_;
    // Held-out models also had new layouts: the largest variance covers the others.
    const std::vector<std::string> unseen = news_of(s);
    double beyond = 0;
    news.clear();
    for (const std::string& what : unseen)
      if (news_.at(what) > beyond) {
        beyond = news_.at(what);
        news = what;
      }
    share = beyond / (variance + beyond);
    // Prices, scales and quantiles from a few different runs are themselves uncertain.
    variance += few() * few() * far_variance(quantity_, s, mean, kFarOfFew);
    const double own = width(s, unseen) * std::sqrt((1 + few()) * (variance + beyond));
    // A few runs reduce uncertainty and never add to the prior's. If they contradict the belief, its end on
    // that side stays as likely as theirs, as far as the other side allows.
    const Spread before = unseen_spread(quantity_, s, belief_);
    const double above = belief_.tails.high * before.above, below = -belief_.tails.low * before.below;
    const double moved = mean - log_value(quantity_, s, belief_.mean);
    const double share_of_prior = std::min(1.0, kFew / different_);
    const auto with_prior = [&](double prior, double other_side, double stretch) {
      const double room = std::max(0.0, other_side - own);
      return share_of_prior * std::min(own, prior + std::min(std::max(0.0, stretch), room)) +
             (1 - share_of_prior) * own;
    };
    high = with_prior(above, below, -moved);
    low = -with_prior(below, above, moved);
  }
  // Nothing runs above the peak.
  const double least = &quantity_ == &kStepSeconds ? s.counts.ceiling_s : 0;
  const double value = std::max(std::exp(mean), least);
  return {value, std::max(value * std::exp(low), least), value * std::exp(high), news, share};
}

}  // namespace isobar::perf
