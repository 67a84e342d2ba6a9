#include "perfmodel/score/price_fit.h"

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <algorithm>
#include <cmath>

namespace isobar {

using Eigen::MatrixXd;
using Eigen::VectorXd;

VectorXd gradient(const Quantity& q, const Sample& s, VectorXd log_prices) {
  constexpr double h = 1e-4;
  VectorXd g(log_prices.size());
  for (Eigen::Index i = 0; i < g.size(); ++i) {
    const double at = log_prices[i];
    log_prices[i] = at + h;
    const double up = q.log_value(s, log_prices);
    log_prices[i] = at - h;
    g[i] = (up - q.log_value(s, log_prices)) / (2 * h);
    log_prices[i] = at;
  }
  return g;
}

MatrixXd jacobian(const Quantity& q, const Samples& rows, const VectorXd& log_prices) {
  MatrixXd j(static_cast<Eigen::Index>(rows.size()), log_prices.size());
  for (size_t i = 0; i < rows.size(); ++i)
    j.row(static_cast<Eigen::Index>(i)) = gradient(q, *rows[i], log_prices).transpose();
  return j;
}

VectorXd residuals(const Quantity& q, const Samples& rows, const VectorXd& log_prices) {
  VectorXd r(static_cast<Eigen::Index>(rows.size()));
  for (size_t i = 0; i < rows.size(); ++i)
    r[static_cast<Eigen::Index>(i)] = rows[i]->log_s - q.log_value(*rows[i], log_prices);
  return r;
}

namespace {

constexpr double kManyRuns = 150;     // beyond these, runs only repeat the misfit of those before them
constexpr size_t kBelieved = 120;     // of a campaign, evenly spread, when other campaigns ask
constexpr size_t kHeldOut = 60;       // of them for how wrong the others are about it
constexpr double kCampaignRuns = 40;  // as much as one campaign may say about another

/// Probit: slope and curvature of log P(bound holds) in the logarithm of the value, `r` below the bound.
std::pair<double, double> bound_pull(double r, int bound) {
  constexpr double misfit = 0.08;  // log sigma of what decides whether a process fits
  const double z = (bound < 0 ? r : -r) / misfit;
  const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * M_PI);
  const double mass = 0.5 * std::erfc(-z / std::sqrt(2.0));
  const double hazard = mass > 1e-12 ? density / mass : -z;
  return {bound * hazard / misfit, std::max(0.0, hazard * (hazard + z)) / (misfit * misfit)};
}

struct PriceFit {
  VectorXd log_prices;
  MatrixXd information;  // of the runs alone
  VectorXd vector;       // information * their own best guess
};

/// Robust maximum a posteriori by damped Gauss-Newton.
PriceFit fit_prices(const Quantity& q, const Samples& rows, const PriceBelief& prior, double most_runs) {
  const Eigen::Index kP = prior.mean.size();
  const double n = static_cast<double>(rows.size());
  const double share = std::min(1.0, most_runs / std::max(n, 1.0));
  const MatrixXd precision = prior.covariance.ldlt().solve(MatrixXd::Identity(kP, kP));
  PriceFit f{prior.mean, MatrixXd::Zero(kP, kP), VectorXd::Zero(kP)};
  for (int round = 0; round < 18 && !rows.empty(); ++round) {
    const double heavy = q.misfit * std::max(3.0, 16.0 * std::pow(0.7, round));  // trusting at first
    const VectorXd r = residuals(q, rows, f.log_prices);
    const MatrixXd j = jacobian(q, rows, f.log_prices);
    VectorXd w(r.size()), slope(r.size());
    for (Eigen::Index i = 0; i < r.size(); ++i) {
      if (const int bound = rows[static_cast<size_t>(i)]->bound; bound != 0) {
        const auto [pull, curvature] = bound_pull(r[i], bound);
        slope[i] = pull * share;
        w[i] = curvature * share;
      } else {
        w[i] = share / (q.misfit * q.misfit) /
               (1 + r[i] * r[i] / (heavy * heavy));  // Student t: outliers hardly count
        slope[i] = w[i] * r[i];
      }
    }
    f.information = j.transpose() * w.asDiagonal() * j;
    const VectorXd pull = j.transpose() * slope;
    VectorXd step = (f.information + precision).ldlt().solve(pull - precision * (f.log_prices - prior.mean));
    f.vector = f.information * f.log_prices + pull;
    const double largest = step.cwiseAbs().maxCoeff();
    if (largest > 0.7) step *= 0.7 / largest;
    f.log_prices += step;
    if (largest < 1e-4 && round > 5) break;
  }
  return f;
}

}  // namespace

PriceBelief spec_belief(const Quantity& q) {
  const auto n = static_cast<Eigen::Index>(q.prices);
  PriceBelief b{VectorXd(n), MatrixXd::Zero(n, n)};
  for (Eigen::Index i = 0; i < n; ++i) {
    const PriceInfo& info = q.info[i];
    b.mean[i] = std::log(info.spec);
    b.covariance(i, i) = info.unsure * info.unsure + info.differs * info.differs;
  }
  return b;
}

Voice voice_of(const Quantity& q, const Samples& campaign) {
  Voice v{thin(campaign, kBelieved), {}, {}};
  const PriceFit f = fit_prices(q, v.rows, spec_belief(q), kCampaignRuns);
  v.precision = f.information;
  v.vector = f.vector;
  return v;
}

PriceBelief believe(const Quantity& q, const std::vector<Voice>& campaigns) {
  const PriceBelief spec = spec_belief(q);
  const Eigen::Index n = spec.mean.size();
  MatrixXd differs = MatrixXd::Zero(n, n), precision = MatrixXd::Zero(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    differs(i, i) = q.info[i].differs * q.info[i].differs;
    precision(i, i) = 1 / (q.info[i].unsure * q.info[i].unsure);
  }
  VectorXd vector = precision * spec.mean;
  const MatrixXd one = MatrixXd::Identity(n, n);
  std::vector<Voice> said;  // about the common mean, a campaign's own deviation integrated out
  for (const Voice& c : campaigns) {
    if (c.rows.empty()) continue;
    const Eigen::PartialPivLU<MatrixXd> widened(one + c.precision * differs);
    said.push_back({c.rows, widened.solve(c.precision), widened.solve(c.vector)});
    precision += said.back().precision;
    vector += said.back().vector;
  }
  const auto solved = [&](const MatrixXd& p, const VectorXd& v) -> PriceBelief {
    const MatrixXd covariance = p.ldlt().solve(one);
    return {covariance * v, covariance + differs};
  };
  PriceBelief all = solved(precision, vector);
  std::vector<std::vector<double>> errors;
  for (const Voice& out : said) {
    const PriceBelief others = solved(precision - out.precision, vector - out.vector);
    std::vector<double> of_campaign;
    for (const Sample* s : thin(out.rows, kHeldOut))
      if (s->bound == 0)
        of_campaign.push_back((s->log_s - q.log_value(*s, others.mean)) /
                              std::sqrt(unseen_variance(q, *s, others)));
    errors.push_back(std::move(of_campaign));
  }
  all.tails = tails_of(errors);
  return all;
}

double unseen_variance(const Quantity& q, const Sample& s, const PriceBelief& belief) {
  const VectorXd j = gradient(q, s, belief.mean);
  return j.dot(belief.covariance * j) + std::pow(offset_sigma(q), 2) + std::pow(process_sigma(q), 2);
}

VectorXd fitted_prices(const Quantity& q, const Samples& training, const PriceBelief& belief) {
  return fit_prices(q, training, belief, kManyRuns).log_prices;
}

}  // namespace isobar
