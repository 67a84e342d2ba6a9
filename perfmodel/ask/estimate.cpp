#include "perfmodel/ask/estimate.h"

#include <algorithm>
#include <cmath>

#include "model/base/text/printed.h"
#include "perfmodel/fitting/least_squares.h"

namespace isobar::perf {
namespace {

// Log spread of predictions from coefficients that were never fitted to whole steps.
constexpr double kUnfitted = 0.12;
// The same if calibration timed ops within steps.
constexpr double kCalibrated = 0.1;
constexpr double kExtrapolation = 0.08;  // log sigma for each e-fold outside the fitted range
constexpr double kTimed = 0.5;           // factor on it if calibration timed ops of such steps

double outside(double value, const std::vector<double>& range) {
  if (value > range[1]) return std::log(value / range[1]);
  if (value < range[0]) return std::log(range[0] / value);
  return 0;
}

/// Log distance of a quantity from the fitted range; 0 if the fit does not know it.
double far_from_fit(const std::string& name, double value, const Machine& m) {
  const auto fitted = m.fit->range.find(name);
  if (fitted == m.fit->range.end()) return 0;
  const double off = outside(value, fitted->second);
  const auto timed = m.timed.find(name);
  if (timed == m.timed.end()) return off;
  const std::vector<double> either{std::min(fitted->second[0], timed->second[0]),
                                   std::max(fitted->second[1], timed->second[1])};
  const double beyond = outside(value, either);
  return beyond + kTimed * (off - beyond);
}

std::string number(double v) {
  return printed("%g", v);
}

}  // namespace

double ErrorParts::sigma() const {
  double variance = own * own;
  for (const double s : shared) variance += s * s;
  return std::sqrt(variance);
}

std::vector<std::string> extrapolations(const StepView& step, const Machine& m) {
  if (!m.fit)
    return {"coefficients were never fitted to runs of this machine, so the interval is wide (isobar fit)"};
  std::vector<std::string> out;
  for (const auto& [name, value] : step.quantities)
    if (const auto r = m.fit->range.find(name); r != m.fit->range.end() && outside(value, r->second) > 0) {
      const double off = name == "loader_threads" ? 1 : 0;  // the reading thread counts as one loader
      out.push_back(name + " " + number(value - off) + " lies outside of the fitted runs (" +
                    number(r->second[0] - off) + " to " + number(r->second[1] - off) + "): wider interval");
    }
  return out;
}

std::vector<double> covariance_of(const Machine& m) {
  if (m.fit) return m.fit->covariance;
  const Eigen::MatrixXd c = prior_of(m, 0.2).covariance;
  return {c.data(), c.data() + c.size()};
}

ErrorSources error_sources(const StepView& step, const Machine& m) {
  const Eigen::VectorXd g = log_gradient(step.seconds, m.values());
  ErrorSources e{.gradient = {g.data(), g.data() + g.size()},
                 .spread = m.timed.empty() ? kUnfitted : kCalibrated};
  if (!m.fit) return e;
  const auto& effects = m.fit->effects;
  e.gradient.resize(kCoefs + effects.size(), 0);
  for (const std::string& name : step.effects) {
    const auto at =
        std::find_if(effects.begin(), effects.end(), [&](const auto& x) { return x.first == name; });
    if (at == effects.end()) {
      const auto sigma = m.fit->effect_sigma.find(family_of(name));
      if (sigma != m.fit->effect_sigma.end()) e.groups[name] = sigma->second;
      continue;
    }
    e.deviation += at->second;
    e.gradient[kCoefs + static_cast<size_t>(at - effects.begin())] += 1;
  }
  const auto own = m.fit->spread.find(step.kind);
  e.spread = own != m.fit->spread.end() ? own->second : 1.5 * m.fit->spread.at("all");
  e.scale = m.fit->quantile / kNormal80;
  double sum = 0;
  for (const auto& [name, value] : step.quantities)
    if (const double off = far_from_fit(name, value, m); off > 0) {
      e.far[name] = off;
      sum += off;
    }
  // Several together are worse than independent ones: in total kExtrapolation * sum.
  for (auto& [name, off] : e.far) off = kExtrapolation * std::sqrt(off * sum);
  if (step.unsaid > 0) e.far["expert_imbalance"] = step.unsaid;
  return e;
}

double expected_seconds(const StepView& step, double physics, const ErrorSources& error) {
  // A learnt deviation cannot violate the physical ceiling.
  return std::max(physics * std::exp(error.deviation), std::min(step.ceiling_s, physics));
}

Estimate estimate(const StepView& step, const Machine& m) {
  return estimate(step, m, step.seconds(m.values()));
}

Estimate estimate(const StepView& step, const Machine& m, double physics) {
  Estimate e{.physics = physics};
  const ErrorSources error = error_sources(step, m);
  const std::vector<double> c = covariance_of(m);
  const auto size = static_cast<Eigen::Index>(error.gradient.size());
  const Eigen::Map<const Eigen::MatrixXd> covariance(c.data(), size, size);
  const Eigen::Map<const Eigen::VectorXd> g(error.gradient.data(), size);
  // The scale was learnt inside the range, so variances of extrapolation are added outside it.
  double variance = error.scale * error.scale * (g.dot(covariance * g) + error.spread * error.spread);
  for (const auto& [name, sigma] : error.groups) variance += sigma * sigma;
  for (const auto& [name, sigma] : error.far) variance += sigma * sigma;
  const double log_width = kNormal80 * std::sqrt(variance);
  e.seconds = expected_seconds(step, e.physics, error);
  e.lower =
      std::max(e.seconds / std::exp(log_width), std::min(step.ceiling_s, e.physics));  // nor can an interval
  e.upper = e.seconds * std::exp(log_width);
  return e;
}

}  // namespace isobar::perf
