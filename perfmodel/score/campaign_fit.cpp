#include "perfmodel/score/campaign_fit.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "perfmodel/fitting/fit.h"

namespace isobar {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kFew = 5;  // different runs, that the fit of everything else takes up
constexpr size_t kScaleRows = 160, kProcessRows = 900;
constexpr double kRoot3 = 1.7320508075688772;

}  // namespace

CampaignFit::CampaignFit(const Quantity& quantity, const Samples& training, const PriceBelief& belief)
    : quantity_(quantity), belief_(belief), prices_(belief.mean) {
  // All in proportion to how well counts and prices are expected to do.
  amplitude_ = 1.25 * quantity.misfit;
  noise_ = 0.5 * quantity.misfit;
  section_ = 0.4 * quantity.misfit;
  offset2_ = std::pow(1.25 * quantity.misfit, 2);
  source2_ = std::pow(0.6 * quantity.misfit, 2);
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
  scales_ = VectorXd::Constant(features_.cols(), 3.0);
  ordinary_.assign(rows_.size(), true);
  {
    std::vector<double> size;
    for (size_t i = 0; i < rows_.size(); ++i)
      size.push_back(std::abs(rows_[i]->log_s - quantity_.log_value(*rows_[i], prices_)));
    const double most = std::max(4 * quantity.misfit, 6 * quantile(size, 0.5));
    for (size_t i = 0; i < rows_.size(); ++i) ordinary_[i] = size[i] <= most;
  }
  learn_scales();
  condition();
  learn_scales();
  condition();
  calibrate();
}

/// Length scales, amplitude and noise that make a sample of the residuals most likely, by Adam on the log
/// marginal likelihood and a log-normal prior.
void CampaignFit::learn_scales() {
  std::vector<Eigen::Index> pick;
  for (size_t i = 0; i < rows_.size(); ++i)
    if (ordinary_[i]) pick.push_back(static_cast<Eigen::Index>(i));
  std::shuffle(pick.begin(), pick.end(), std::mt19937(7));  // tables come sorted
  // Of repetitions one: how well runs repeat says nothing about runs that differ.
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
  MatrixXd same = MatrixXd::Zero(N, N);  // 1: of the same section
  for (Eigen::Index i = 0; i < N; ++i)
    for (Eigen::Index k = 0; k < N; ++k)
      same(i, k) = rows_[static_cast<size_t>(pick[static_cast<size_t>(i)])]->section ==
                   rows_[static_cast<size_t>(pick[static_cast<size_t>(k)])]->section;
  std::vector<MatrixXd> squares;  // of differences, by feature that varies
  std::vector<size_t> varies;
  for (size_t k = 0; k < d; ++k) {
    const VectorXd v = x.col(static_cast<Eigen::Index>(k));
    if (v.maxCoeff() - v.minCoeff() < 1e-9) continue;
    varies.push_back(k);
    squares.push_back((v.replicate(1, N) - v.transpose().replicate(N, 1)).array().square().matrix());
  }
  const size_t m = varies.size();
  VectorXd h(static_cast<Eigen::Index>(m + 3)), mean(h.size()), sigma = VectorXd::Constant(h.size(), 0.7);
  mean.setConstant(std::log(3.0));
  sigma.setConstant(0.4);  // tight: a few dozen runs say little about thirty scales
  mean[static_cast<Eigen::Index>(m)] = std::log(1.25 * quantity_.misfit);
  mean[static_cast<Eigen::Index>(m) + 1] = std::log(0.5 * quantity_.misfit);
  mean[static_cast<Eigen::Index>(m) + 2] = std::log(0.4 * quantity_.misfit);
  sigma.tail(3).setConstant(0.7);
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
    const double s2 = std::exp(2 * h[static_cast<Eigen::Index>(m) + 2]);
    MatrixXd K = process + linear + s2 * same;
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
    g[static_cast<Eigen::Index>(m) + 2] = s2 * W.cwiseProduct(same).sum();
    g += ((h - mean).array() / sigma.array().square()).matrix();
    first = 0.9 * first + 0.1 * g;
    second = 0.999 * second + 0.001 * g.cwiseProduct(g);
    const VectorXd f = first / (1 - std::pow(0.9, round)), s = second / (1 - std::pow(0.999, round));
    h -= 0.12 * (f.array() / (s.array().sqrt() + 1e-8)).matrix();
  }
  for (size_t k = 0; k < m; ++k)
    scales_[static_cast<Eigen::Index>(varies[k])] = std::exp(h[static_cast<Eigen::Index>(k)]);
  amplitude_ = std::exp(h[static_cast<Eigen::Index>(m)]);
  section_ = std::exp(h[static_cast<Eigen::Index>(m) + 2]);
  noise_ = std::hypot(std::exp(h[static_cast<Eigen::Index>(m) + 1]), floor_);
}

VectorXd CampaignFit::kernel(const Sample& s) const {
  const Eigen::ArrayXXd z =
      (features_.rowwise() - s.features.transpose()).array().rowwise() / scales_.transpose().array();
  const Eigen::ArrayXd d = kRoot3 * (z.square().rowwise().sum() + 1e-12).sqrt();
  VectorXd k = (amplitude_ * amplitude_ * (1 + d) * (-d).exp()).matrix();
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (rows_[i]->section == s.section) k[static_cast<Eigen::Index>(i)] += section_ * section_;
    if (rows_[i]->source == s.source) k[static_cast<Eigen::Index>(i)] += source2_;
  }
  return k;
}

/// The process given the training runs; runs that no neighbour agrees with are taken for noisier.
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

void CampaignFit::calibrate() {
  const size_t n = rows_.size();
  const auto at = [](size_t i) { return static_cast<Eigen::Index>(i); };
  const auto quantile_of = [](std::vector<double> z, double otherwise) {
    // A few errors tell little: then the normal law speaks, or the campaign as a whole.
    const double own = static_cast<double>(z.size()), few = 12;
    const double q = z.empty() ? otherwise : quantile(std::move(z), 0.8);
    return (own * q + few * otherwise) / (own + few);
  };
  std::set<std::string> sources, different;
  for (const Sample* r : rows_) different.insert(r->values.at(""));
  different_ = static_cast<double>(different.size());
  for (const Sample* r : rows_) sources.insert(r->source);
  for (const std::string what :
       {"", "layout", "model", "gpus", "precision"}) {  // "": repetitions of a run stay together
    std::map<std::string, std::vector<size_t>> groups;
    for (size_t i = 0; i < n; ++i) groups[rows_[i]->values.at(what)].push_back(i);
    std::vector<double> z;
    std::map<std::string, std::vector<double>> by_source;
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
      const MatrixXd variance = llt.solve(MatrixXd::Identity(m, m));
      for (Eigen::Index i = 0; i < m; ++i) {
        z.push_back(std::abs(error[i]) / std::sqrt(variance(i, i)));
        by_source[rows_[members[static_cast<size_t>(i)]]->source].push_back(z.back());
      }
    }
    const double pooled = quantile_of(std::move(z), kNormal80);
    for (const std::string& source : sources) {
      const double q = quantile_of(by_source[source], pooled);
      quantiles_[source][what] = what.empty() ? q : std::max(quantiles_[source][""], q);
    }
  }
}

double CampaignFit::width(const Sample& s) const {
  const auto own = quantiles_.find(s.source);
  double w = 0;
  if (own == quantiles_.end()) {  // a source of this campaign that no training run came from: the worst
    for (const auto& [source, by_what] : quantiles_)
      for (const auto& [what, q] : by_what) w = std::max(w, q);
    return w;
  }
  w = own->second.at("");
  for (const auto& [what, q] : own->second) {
    if (what.empty()) continue;
    const std::string& value = s.values.at(what);
    const bool seen = std::any_of(rows_.begin(), rows_.end(),
                                  [&, &what = what](const Sample* r) { return r->values.at(what) == value; });
    if (!seen) w = std::max(w, q);
  }
  return w;
}

Estimated CampaignFit::predict(const Sample& s) const {
  const VectorXd j = gradient(quantity_, s, prices_);
  double mean = quantity_.log_value(s, prices_), variance = j.dot(belief_.covariance * j), sigmas = kNormal80;
  if (rows_.empty()) {
    variance += offset2_ + amplitude_ * amplitude_;
  } else {
    VectorXd k = kernel(s) + spread_ * j;
    k.array() += offset2_;
    mean += k.dot(alpha_) - j.dot(prices_ - belief_.mean);
    variance += offset2_ + amplitude_ * amplitude_ + section_ * section_ + source2_ - k.dot(inverse_ * k);
    variance = std::max(variance, 0.0) + noise_ * noise_;
    // Prices, scales and quantiles of a handful of different runs are unsure themselves.
    sigmas = width(s) * std::sqrt(1 + kFew / different_);
  }
  const double half = sigmas * std::sqrt(variance);
  // Nothing runs above the peak.
  const double least = &quantity_ == &kStepSeconds ? s.counts.ceiling_s : 0;
  const double value = std::max(std::exp(mean), least);
  return {value, std::max(value * std::exp(-half), least), value * std::exp(half)};
}

}  // namespace isobar
