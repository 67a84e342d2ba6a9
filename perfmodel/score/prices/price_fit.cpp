#include "perfmodel/score/prices/price_fit.h"

#include <Eigen/Cholesky>
#include <Eigen/Eigenvalues>
#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <map>

namespace isobar::perf {

using Eigen::MatrixXd;
using Eigen::VectorXd;

VectorXd gradient(const Quantity& q, const Sample& s, const VectorXd& log_prices) {
  constexpr double h = 1e-4;
  const double up = std::exp(h), down = std::exp(-h);
  VectorXd prices = log_prices.array().exp(), g(log_prices.size());
  for (Eigen::Index i = 0; i < g.size(); ++i) {
    const double at = prices[i];
    prices[i] = at * up;
    const double more = q.log_of(s, prices.data());
    prices[i] = at * down;
    g[i] = (more - q.log_of(s, prices.data())) / (2 * h);
    prices[i] = at;
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
    r[static_cast<Eigen::Index>(i)] = rows[i]->log_s - log_value(q, *rows[i], log_prices);
  return r;
}

namespace {

constexpr double kManyRuns = 150;     // beyond these, runs only repeat the misfit of the first
constexpr size_t kBelieved = 120;     // of a campaign, evenly spread, when other campaigns are predicted
constexpr size_t kHeldOut = 60;       // of them, to measure the others' errors about it
constexpr double kCampaignRuns = 40;  // most runs' worth of evidence of one campaign on another

/// Probit: slope and curvature of log P(bound holds) in the value's logarithm, `r` below the bound.
std::pair<double, double> bound_pull(double r, int bound) {
  constexpr double misfit = 0.08;  // log sigma of whether a process fits
  const double z = (bound < 0 ? r : -r) / misfit;
  const double density = std::exp(-0.5 * z * z) / std::sqrt(2 * M_PI);
  const double mass = 0.5 * std::erfc(-z / std::sqrt(2.0));
  const double hazard = mass > 1e-12 ? density / mass : -z;
  return {bound * hazard / misfit, std::max(0.0, hazard * (hazard + z)) / (misfit * misfit)};
}

struct PriceFit {
  VectorXd log_prices;
  MatrixXd information;  // of the runs alone
  VectorXd vector;       // information * the runs' own best guess
};

/// Robust maximum a posteriori by damped Gauss-Newton.
PriceFit fit_prices(const Quantity& q, const Samples& rows, const PriceBelief& prior, double most_runs) {
  const Eigen::Index kP = prior.mean.size();
  const double n = static_cast<double>(rows.size());
  const double share = std::min(1.0, most_runs / std::max(n, 1.0));
  const MatrixXd precision = prior.covariance.ldlt().solve(MatrixXd::Identity(kP, kP));
  PriceFit f{prior.mean, MatrixXd::Zero(kP, kP), VectorXd::Zero(kP)};
  for (int round = 0; round < 18 && !rows.empty(); ++round) {
    const double heavy = q.misfit * std::max(3.0, 16.0 * std::pow(0.7, round));  // accepts outliers at first
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

namespace {

PriceBelief with_ends(PriceBelief b) {
  const Eigen::SelfAdjointEigenSolver<MatrixXd> eigen(b.covariance);
  const MatrixXd axes = eigen.eigenvectors() * eigen.eigenvalues().cwiseMax(0).cwiseSqrt().asDiagonal();
  b.ends.resize(b.mean.size(), 1 + 2 * axes.cols());
  b.ends.col(0) = b.mean.array().exp();
  for (Eigen::Index k = 0; k < axes.cols(); ++k) {
    b.ends.col(1 + 2 * k) = (b.mean + kNormal80 * axes.col(k)).array().exp();
    b.ends.col(2 + 2 * k) = (b.mean - kNormal80 * axes.col(k)).array().exp();
  }
  return b;
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
  return with_ends(std::move(b));
}

Voice voice_of(const Quantity& q, const Samples& campaign) {
  Voice v;
  v.name = campaign.empty() ? "" : campaign[0]->campaign;
  v.rows = thin(campaign, kBelieved);
  if (!v.rows.empty() && v.rows[0]->run) v.engine = v.rows[0]->run->runs_on;
  v.tuned = tuned_of(v.name, v.engine);
  const PriceFit f = fit_prices(q, v.rows, spec_belief(q), kCampaignRuns);
  v.precision = f.information;
  v.vector = f.vector;
  return v;
}

namespace {

/// Evidence on a Gaussian, and what it implies for another that deviates from it.
struct Message {
  MatrixXd precision;
  VectorXd vector;
  void add(const Message& other) {
    precision += other.precision;
    vector += other.vector;
  }
  Message through(const MatrixXd& deviation) const {
    const Eigen::PartialPivLU<MatrixXd> widened(MatrixXd::Identity(precision.rows(), precision.cols()) +
                                                precision * deviation);
    return {widened.solve(precision), widened.solve(vector)};
  }
};

/// mean of all -> family of engines -> campaign, with the campaign's tuning along one direction.
class Hierarchy {
 public:
  explicit Hierarchy(const Quantity& q) : q_(q), tuning_(static_cast<Eigen::Index>(q.prices)) {
    const auto n = static_cast<Eigen::Index>(q.prices);
    VectorXd differs(n), unsure(n), spec(n);
    for (Eigen::Index i = 0; i < n; ++i) {
      differs[i] = std::pow(q.info[i].differs, 2);
      unsure[i] = std::pow(q.info[i].unsure, 2);
      spec[i] = std::log(q.info[i].spec);
      tuning_[i] = q.info[i].tuned;
    }
    family_ = (q.family * differs).asDiagonal();
    own_ = ((1 - q.family) * differs).asDiagonal();
    spec_.precision = unsure.cwiseInverse().asDiagonal();
    spec_.vector = spec_.precision * spec;
  }

  /// A campaign's evidence on its family.
  Message of_family(const Voice& v) const {
    const Message about{v.precision, v.vector - v.precision * (tuning_ * (v.tuned.mean - kMiddle))};
    return about.through(deviation(v.tuned));
  }

  PriceBelief believe(const std::map<std::string, Message>& families, const std::string& asked,
                      const Tuned& tuned) const {
    Message all = spec_;
    for (const auto& [name, said] : families)
      if (name != asked) all.add(said.through(family_));
    const MatrixXd one = MatrixXd::Identity(family_.rows(), family_.cols());
    MatrixXd covariance = all.precision.ldlt().solve(one);
    VectorXd mean = covariance * all.vector;
    covariance += family_;
    if (const auto own = families.find(asked); own != families.end()) {
      Message said{covariance.ldlt().solve(one), {}};
      said.vector = said.precision * mean;
      said.add(own->second);
      covariance = said.precision.ldlt().solve(one);
      mean = covariance * said.vector;
    }
    return with_ends({mean + tuning_ * (tuned.mean - kMiddle), covariance + deviation(tuned)});
  }

  /// Campaigns of unknown engines are families of their own.
  static std::string family_of(const Voice& v) { return v.engine ? v.engine->family : "campaign " + v.name; }

 private:
  static constexpr double kMiddle = 0.5;
  MatrixXd deviation(const Tuned& t) const {
    return own_ + t.sigma * t.sigma * tuning_ * tuning_.transpose();
  }
  const Quantity& q_;
  VectorXd tuning_;
  MatrixXd family_, own_;
  Message spec_;
};

}  // namespace

PriceBelief believe(const Quantity& q, const std::vector<Voice>& campaigns, const ForeignEngine* engine,
                    const Tuned& tuned) {
  const Hierarchy h(q);
  std::vector<Message> said;
  std::map<std::string, Message> families;
  for (const Voice& v : campaigns) {
    said.push_back(h.of_family(v));
    const auto [family, first] = families.try_emplace(Hierarchy::family_of(v), said.back());
    if (!first) family->second.add(said.back());
  }
  PriceBelief all = h.believe(families, engine ? engine->family : "", tuned);
  // Errors of the others about each of these: with other runs of its family where the asked engine has such,
  // else without.
  const bool known = engine && families.contains(engine->family);
  std::vector<std::vector<double>> errors;
  for (size_t c = 0; c < campaigns.size(); ++c) {
    const Voice& out = campaigns[c];
    const std::string family = Hierarchy::family_of(out);
    const bool alone = std::count_if(campaigns.begin(), campaigns.end(),
                                     [&](const Voice& v) { return Hierarchy::family_of(v) == family; }) == 1;
    if (known && alone) continue;
    std::map<std::string, Message> rest = families;
    if (known) {
      Message& own = rest.at(family);
      own.precision -= said[c].precision;
      own.vector -= said[c].vector;
    } else {
      rest.erase(family);
    }
    const PriceBelief others = h.believe(rest, family, out.tuned);
    std::vector<double> of_campaign;
    for (const Sample* s : thin(out.rows, kHeldOut))
      if (s->bound == 0) {
        const double off = s->log_s - log_value(q, *s, others.mean);
        const Spread sigma = unseen_spread(q, *s, others);
        of_campaign.push_back(off / (off < 0 ? sigma.below : sigma.above));
      }
    errors.push_back(std::move(of_campaign));
  }
  all.tails = tails_of(errors);
  return all;
}

double log_value(const Quantity& q, const Sample& s, const VectorXd& log_prices) {
  const VectorXd prices = log_prices.array().exp();
  return q.log_of(s, prices.data());
}

double far_variance(const Quantity& q, const Sample& s, double log_value, double sigma, double power) {
  if (&q != &kStepSeconds) return 0;
  // Beyond what campaigns reach: tiny nets take a thousand times their device's time.
  constexpr double kFarthest = 3;
  const double far = std::clamp(log_value - std::log(device_floor(s.counts)), 0.0, kFarthest);
  return std::pow(sigma * std::max(far, std::pow(far, power)), 2);
}

Spread unseen_spread(const Quantity& q, const Sample& s, const PriceBelief& belief) {
  // Log sigma of a step e times as long as ideal, and its growth, from campaigns left out: a layout that
  // waits for ten things is least known, one near the peak has few ways to differ.
  constexpr double kFar = 0.7, kFarPower = 2.2;
  const auto value_at = [&](Eigen::Index end) { return q.log_of(s, belief.ends.col(end).data()); };
  const double middle = value_at(0);
  double below = std::pow(offset_sigma(q), 2) + std::pow(process_sigma(q), 2);
  below += far_variance(q, s, middle, kFar, kFarPower);
  double above = below;
  for (Eigen::Index end = 1; end < belief.ends.cols(); end += 2) {
    const double one = value_at(end) - middle, other = value_at(end + 1) - middle;
    above += std::pow(std::max({one, other, 0.0}) / kNormal80, 2);
    below += std::pow(std::min({one, other, 0.0}) / kNormal80, 2);
  }
  return {std::sqrt(below), std::sqrt(above)};
}

VectorXd fitted_prices(const Quantity& q, const Samples& training, const PriceBelief& belief) {
  return fit_prices(q, training, belief, kManyRuns).log_prices;
}

}  // namespace isobar::perf
