#include "perfmodel/fitting/least_squares.h"

#include <ceres/ceres.h>

#include <Eigen/Cholesky>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace isobar::perf {
namespace {

constexpr double kHuber = 1.5;      // sigmas beyond which an observation counts as an outlier
constexpr double kSoftness = 0.02;  // log width over which a coefficient bends at its floor

// The log coefficient is a smooth maximum of the free parameter and the floor: the solver cannot violate
// physics, and the derivative never vanishes.
double bend(double theta, double floor) {
  if (!std::isfinite(floor)) return theta;
  const double x = (theta - floor) / kSoftness;
  return x > 30 ? theta : floor + kSoftness * std::log1p(std::exp(x));
}
double bend_slope(double theta, double floor) {
  if (!std::isfinite(floor)) return 1;
  const double x = (theta - floor) / kSoftness;
  return x > 30 ? 1 : 1 / (1 + std::exp(-x));
}
double unbend(double log_value, double floor) {
  if (!std::isfinite(floor)) return log_value;
  const double x = std::max(1e-3, (log_value - floor) / kSoftness);
  return x > 30 ? log_value : floor + kSoftness * std::log(std::expm1(x));
}

// Ceres varies u, a priori standard normal: first the coefficients, theta = mean + L u, then one number for
// each effect, sigma u.
struct Space {
  Eigen::VectorXd mean;
  Eigen::MatrixXd L;
  const Eigen::VectorXd& floor;
  const std::vector<double>& effect_sigma;
  size_t size() const { return kCoefs + effect_sigma.size(); }
  Eigen::VectorXd theta(const double* u) const {
    return mean + L * Eigen::Map<const Eigen::VectorXd>(u, static_cast<Eigen::Index>(kCoefs));
  }
  Counts coefficients(const Eigen::VectorXd& theta) const {
    Counts out;
    for (size_t i = 0; i < kCoefs; ++i) out[i] = std::exp(bend(theta[i], floor[i]));
    return out;
  }
  double effects(const Observation& o, const double* u) const {
    double sum = 0;
    for (int e : o.effects) sum += effect_sigma[e] * u[kCoefs + e];
    return sum;
  }
  /// d (log coefficients, effects) / du, which is block diagonal.
  Eigen::MatrixXd to_log(const Eigen::VectorXd& theta) const {
    Eigen::VectorXd slope(kCoefs);
    for (size_t i = 0; i < kCoefs; ++i) slope[i] = bend_slope(theta[i], floor[i]);
    Eigen::MatrixXd m = Eigen::MatrixXd::Zero(size(), size());
    m.topLeftCorner(kCoefs, kCoefs) = slope.asDiagonal() * L;
    for (size_t e = 0; e < effect_sigma.size(); ++e) m(kCoefs + e, kCoefs + e) = effect_sigma[e];
    return m;
  }
};

Eigen::VectorXd gradient(const Observation& o, const Counts& at, size_t size) {
  Eigen::VectorXd g = Eigen::VectorXd::Zero(size);
  g.head(kCoefs) = log_gradient(o.model, at, o.felt);
  for (int e : o.effects) g[kCoefs + e] += 1;
  return g;
}

class RelativeError : public ceres::CostFunction {
 public:
  RelativeError(const Observation& o, const Space& space) : o_(o), space_(space) {
    set_num_residuals(1);
    mutable_parameter_block_sizes()->push_back(static_cast<int>(space.size()));
  }
  bool Evaluate(const double* const* u, double* residual, double** jacobian) const override {
    const Eigen::VectorXd theta = space_.theta(u[0]);
    const Counts at = space_.coefficients(theta);
    residual[0] = (std::log(o_.model(at) / o_.measured) + space_.effects(o_, u[0])) / o_.sigma;
    if (jacobian && jacobian[0])
      Eigen::Map<Eigen::VectorXd>(jacobian[0], space_.size()) =
          space_.to_log(theta).transpose() * gradient(o_, at, space_.size()) / o_.sigma;
    return std::isfinite(residual[0]);
  }

 private:
  const Observation& o_;
  const Space& space_;
};

class StandardNormal : public ceres::CostFunction {
 public:
  explicit StandardNormal(size_t n) : n_(n) {
    set_num_residuals(static_cast<int>(n));
    mutable_parameter_block_sizes()->push_back(static_cast<int>(n));
  }
  bool Evaluate(const double* const* u, double* residuals, double** jacobian) const override {
    for (size_t i = 0; i < n_; ++i) residuals[i] = u[0][i];
    if (jacobian && jacobian[0])
      for (size_t i = 0; i < n_ * n_; ++i) jacobian[0][i] = i % (n_ + 1) == 0;
    return true;
  }

 private:
  size_t n_;
};

}  // namespace

Eigen::VectorXd log_gradient(const std::function<double(const Counts&)>& model, const Counts& at,
                             const std::vector<size_t>& felt) {
  constexpr double h = 1e-5;
  Eigen::VectorXd g = Eigen::VectorXd::Zero(kCoefs);
  Counts x = at;
  const auto slope = [&](size_t i) {
    x[i] = at[i] * std::exp(h);
    const double up = model(x);
    x[i] = at[i] * std::exp(-h);
    const double down = model(x);
    x[i] = at[i];
    g[i] = (std::log(up) - std::log(down)) / (2 * h);
  };
  if (felt.empty())
    for (size_t i = 0; i < kCoefs; ++i) slope(i);
  for (const size_t i : felt) slope(i);
  return g;
}

std::vector<size_t> felt_by(const std::function<double(const Counts&)>& model, const Counts& at) {
  std::vector<size_t> out;
  const double now = model(at);
  Counts x = at;
  for (size_t i = 0; i < kCoefs; ++i) {
    bool moves = false;
    for (const double factor : {1e3, 1e-3}) {
      x[i] = at[i] * factor;
      moves |= model(x) != now;
    }
    x[i] = at[i];
    if (moves) out.push_back(i);
  }
  return out;
}

Prior prior_of(const Machine& m, double drift) {
  constexpr double kFamily = 0.5;  // share of the variance common to a family
  // All kernels of an accelerator are slower within a step than alone: lower clocks under power limits, cold
  // caches, and uncounted work of the engine.
  constexpr double kTogether = 0.2;
  const auto is_kernel = [&](size_t i) {
    const Resource r = info_of(i).resource;
    return m.accelerator && (r == Resource::compute || r == Resource::memory);
  };
  const auto n = static_cast<Eigen::Index>(kCoefs);
  Prior p{Eigen::VectorXd(n), Eigen::MatrixXd::Zero(n, n), Eigen::VectorXd(n)};
  Eigen::VectorXd sigma(n);
  for (size_t i = 0; i < kCoefs; ++i) {
    const Coefficient& c = m.coefficients[i];
    const bool measured = !(c.provenance.empty() || c.provenance.front() == "spec");
    const double own = c.log_sigma();
    sigma[i] = measured ? std::sqrt(own * own + drift * drift) : own;
    p.floor[i] = m.floor_of(i) > 0 ? std::log(m.floor_of(i)) : -std::numeric_limits<double>::infinity();
    p.mean[i] = unbend(std::log(c.value), p.floor[i]);
  }
  for (size_t i = 0; i < kCoefs; ++i)
    for (size_t j = 0; j < kCoefs; ++j) {
      const bool family = std::string(info_of(i).family) == info_of(j).family;
      p.covariance(i, j) = sigma[i] * sigma[j] * (i == j ? 1 : family ? kFamily : 0);
      if (is_kernel(i) && is_kernel(j)) p.covariance(i, j) += kTogether * kTogether;
    }
  return p;
}

Solution solve(const std::vector<Observation>& observations, const Prior& prior, const Counts& start,
               const std::vector<double>& effect_sigma) {
  const Eigen::LLT<Eigen::MatrixXd> llt(prior.covariance);
  if (llt.info() != Eigen::Success) throw std::logic_error("the prior's covariance is not positive definite");
  const Space space{prior.mean, llt.matrixL(), prior.floor, effect_sigma};
  const auto size = static_cast<Eigen::Index>(space.size());

  Eigen::VectorXd theta(kCoefs);
  for (size_t i = 0; i < kCoefs; ++i) theta[i] = unbend(std::log(start[i]), prior.floor[i]);
  Eigen::VectorXd u = Eigen::VectorXd::Zero(size);
  u.head(kCoefs) = llt.matrixL().solve(theta - prior.mean);
  ceres::Problem problem;
  for (const Observation& o : observations)
    problem.AddResidualBlock(new RelativeError(o, space), new ceres::HuberLoss(kHuber), u.data());
  problem.AddResidualBlock(new StandardNormal(space.size()), nullptr, u.data());
  ceres::Solver::Options options;
  options.linear_solver_type = ceres::DENSE_QR;
  options.max_num_iterations = 100;
  options.function_tolerance = 1e-9;
  options.num_threads = 1;  // deterministic
  options.logging_type = ceres::SILENT;
  ceres::Solver::Summary summary;
  ceres::Solve(options, &problem, &summary);
  if (!summary.IsSolutionUsable()) throw std::runtime_error("the fit did not converge: " + summary.message);

  Solution s;
  theta = space.theta(u.data());
  s.coefficients = space.coefficients(theta);
  s.effects.resize(static_cast<Eigen::Index>(effect_sigma.size()));
  for (size_t e = 0; e < effect_sigma.size(); ++e) s.effects[e] = effect_sigma[e] * u[kCoefs + e];
  const auto n = static_cast<Eigen::Index>(observations.size());
  s.residuals.resize(n);
  s.leverage.resize(n);
  s.leave_one_out.resize(n);
  s.leave_one_out_variance.resize(n);
  s.jacobian.resize(n, size);
  Eigen::VectorXd weight(n);
  const Eigen::MatrixXd to_log = space.to_log(theta);
  // Posterior of u: observations with their robust weights, and the prior.
  Eigen::MatrixXd information = Eigen::MatrixXd::Identity(size, size);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Observation& o = observations[i];
    s.residuals[i] = std::log(o.measured / o.model(s.coefficients)) - space.effects(o, u.data());
    s.jacobian.row(i) = gradient(o, s.coefficients, space.size()).transpose();
    const Eigen::VectorXd to_u = to_log.transpose() * s.jacobian.row(i).transpose();
    const double z = std::abs(s.residuals[i]) / o.sigma;
    weight[i] = (z > kHuber ? kHuber / z : 1) / (o.sigma * o.sigma);
    information += weight[i] * to_u * to_u.transpose();
  }
  const Eigen::MatrixXd posterior = information.llt().solve(Eigen::MatrixXd::Identity(size, size));
  // Exactly symmetric: a machine's file holds one half.
  const Eigen::MatrixXd in_logs = to_log * posterior * to_log.transpose();
  s.covariance = 0.5 * (in_logs + in_logs.transpose());
  for (Eigen::Index i = 0; i < n; ++i) {
    // Leave-one-out in a linear model: the residual grows by 1 / (1 - leverage).
    const double v = s.jacobian.row(i) * s.covariance * s.jacobian.row(i).transpose();
    s.leverage[i] = std::min(weight[i] * v, 0.98);
    s.leave_one_out[i] = s.residuals[i] / (1 - s.leverage[i]);
    s.leave_one_out_variance[i] = v / (1 - s.leverage[i]);
  }
  return s;
}

}  // namespace isobar::perf
