#include "perfmodel/ask/suggest.h"

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <stdexcept>

#include "model/base/rng.h"
#include "perfmodel/ask/predict.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar::perf {
namespace {

constexpr uint64_t kSharedStream = uint64_t{0x73756767} << 32;  // "sugg": a separate random stream
constexpr uint64_t kOwnStream = kSharedStream + 1;
constexpr double kEqual = 0.9;  // gains within this share of the largest count as equal: the cheapest goes
                                // first

double normal_pdf(double x) {
  return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}

// Log seconds a sample of every candidate: mean + shared * z + own * e, with independent standard normals z
// and e.
struct Distribution {
  Eigen::VectorXd mean;
  Eigen::MatrixXd shared;  // [candidates, sources]
  Eigen::VectorXd own;
  double noise = 0;  // variance of one more measurement's log
  Eigen::MatrixXd covariance() const {
    Eigen::MatrixXd c = shared * shared.transpose();
    c.diagonal() += own.cwiseAbs2();
    return c;
  }
};

// A square root of a covariance that may be singular.
Eigen::MatrixXd root_of(const Eigen::MatrixXd& covariance) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> s(covariance);
  return s.eigenvectors() * s.eigenvalues().cwiseMax(0).cwiseSqrt().asDiagonal();
}

// Measurements of one candidate combined: log mean, weighted by their errors, and its variance.
struct Measurement {
  double log_seconds = 0, variance = 0;
};
Measurement combined(const std::vector<MeasuredRun>& runs) {
  constexpr double kLeast = 1e-9;  // least error of a measurement
  Measurement m;
  double weights = 0;
  for (const MeasuredRun& r : runs) {
    const double error = std::max(kLeast, measurement_error(r));
    weights += 1 / (error * error);
    m.log_seconds += std::log(r.step_s) / (error * error);
  }
  m.log_seconds /= weights;
  m.variance = 1 / weights;
  return m;
}

double typical_noise(const std::vector<Candidate>& candidates) {
  std::vector<double> errors;
  for (const Candidate& c : candidates)
    for (const MeasuredRun& r : c.measured) errors.push_back(measurement_error(r));
  const double e = quantile(errors, 0.5);
  return e * e;
}

Distribution distribution_of(const std::vector<Candidate>& candidates, const Machine& m) {
  const auto n = static_cast<Eigen::Index>(candidates.size());
  std::vector<ErrorSources> errors;
  std::vector<double> expected;                 // seconds of a step
  std::map<std::string, Eigen::Index> columns;  // of effects without runs
  for (const Candidate& c : candidates) {
    const StepView& view = c.view;
    errors.push_back(error_sources(view, m));
    expected.push_back(expected_seconds(view, view.seconds(m.values()), errors.back()));
    for (const auto& [name, sigma] : errors.back().groups) columns.try_emplace("group " + name, 0);
    for (const auto& [name, sigma] : errors.back().far) columns.try_emplace("far " + name, 0);
  }
  const auto known = static_cast<Eigen::Index>(errors.front().gradient.size());
  Eigen::Index next = known;
  for (auto& [name, at] : columns) at = next++;
  const std::vector<double> flat = covariance_of(m);
  const Eigen::MatrixXd root = root_of(Eigen::Map<const Eigen::MatrixXd>(flat.data(), known, known));

  Distribution d{.mean = Eigen::VectorXd(n),
                 .shared = Eigen::MatrixXd::Zero(n, next),
                 .own = Eigen::VectorXd(n),
                 .noise = typical_noise(candidates)};
  for (Eigen::Index i = 0; i < n; ++i) {
    const Candidate& c = candidates[static_cast<size_t>(i)];
    const ErrorSources& e = errors[static_cast<size_t>(i)];
    const Eigen::Map<const Eigen::VectorXd> g(e.gradient.data(), known);
    d.shared.row(i).head(known) = e.scale * (g.transpose() * root);
    for (const auto& [name, sigma] : e.groups) d.shared(i, columns.at("group " + name)) = sigma;
    for (const auto& [name, sigma] : e.far) d.shared(i, columns.at("far " + name)) = sigma;
    d.mean[i] = std::log(expected[static_cast<size_t>(i)]);
    // The spread of whole runs is a specification's own deviation plus measurement error.
    const double spread = e.scale * e.scale * e.spread * e.spread;
    double own = std::max(spread - d.noise, 0.25 * spread);
    if (!c.measured.empty()) {
      // The residual after common terms is the specification's own, except for measurement error.
      const Measurement measured = combined(c.measured);
      const double share = own / (own + measured.variance);
      d.shared.row(i) *= 1 - share;
      d.mean[i] += share * (measured.log_seconds - d.mean[i]);
      own *= 1 - share;
    }
    d.own[i] = std::sqrt(own);
    d.mean[i] -= std::log(static_cast<double>(c.spec.train.global_batch));
  }
  return d;
}

// Chances to be the best and the expected regret of `choice`, by sampling.
void draw(const Distribution& d, const SuggestOptions& options, Outlook& out) {
  const Eigen::Index n = d.mean.size(), sources = d.shared.cols();
  Eigen::VectorXd z(sources), y(n);
  std::vector<int64_t> wins(static_cast<size_t>(n), 0);
  double regret = 0;
  for (int64_t s = 0; s < options.draws; ++s) {
    for (Eigen::Index k = 0; k < sources; ++k)
      z[k] = normal(options.seed, kSharedStream, static_cast<uint64_t>(s * sources + k));
    y.noalias() = d.mean + d.shared * z;
    for (Eigen::Index i = 0; i < n; ++i)
      y[i] += d.own[i] * normal(options.seed, kOwnStream, static_cast<uint64_t>(s * n + i));
    Eigen::Index best = 0;
    const double least = y.minCoeff(&best);
    ++wins[static_cast<size_t>(best)];
    regret += 1 - std::exp(least - y[static_cast<Eigen::Index>(out.choice)]);
  }
  const auto draws = static_cast<double>(options.draws);
  out.regret = regret / draws;
  for (size_t i = 0; i < out.beliefs.size(); ++i)
    out.beliefs[i].chance = static_cast<double>(wins[i]) / draws;
}

double cost_of(const Candidate& c, const Belief& b) {
  return b.seconds * static_cast<double>(c.spec.train.steps) * static_cast<double>(c.spec.layout.world());
}

// Greedy: means stay at their expectation while knowledge grows.
std::vector<Suggestion> choose(const std::vector<Candidate>& candidates, const Distribution& d,
                               const Outlook& out, const SuggestOptions& options) {
  if (options.count == 0) return {};
  const size_t n = candidates.size();
  Eigen::MatrixXd c = d.covariance();
  const std::vector<double> mean(d.mean.data(), d.mean.data() + n);
  std::vector<int64_t> left(n);
  for (size_t i = 0; i < n; ++i) left[i] = candidates[i].trials_left;
  std::vector<Suggestion> chosen;
  while (chosen.size() < options.count) {
    std::vector<double> gain(n, -1);
    for (size_t i = 0; i < n; ++i) {
      if (left[i] <= 0) continue;
      const auto at = static_cast<Eigen::Index>(i);
      const double variance = c(at, at) + d.noise;
      if (variance <= 0) {
        gain[i] = 0;
        continue;
      }
      const Eigen::VectorXd slope = c.col(at) / std::sqrt(variance);
      gain[i] = std::max(0.0, -expected_minimum_change(mean, {slope.data(), slope.data() + n}));
    }
    const double most = *std::max_element(gain.begin(), gain.end());
    if (most < 0) break;  // everything is measured
    // If no single trial can change the choice, the likeliest rival goes first.
    const bool settled = most < 1e-9;
    size_t pick = n;
    const auto better = [&](size_t a, size_t b) {
      if (settled && out.beliefs[a].chance != out.beliefs[b].chance)
        return out.beliefs[a].chance > out.beliefs[b].chance;
      return cost_of(candidates[a], out.beliefs[a]) < cost_of(candidates[b], out.beliefs[b]);
    };
    for (size_t i = 0; i < n; ++i)
      if (gain[i] >= 0 && gain[i] >= kEqual * most && (pick == n || better(i, pick))) pick = i;
    const Belief& b = out.beliefs[pick];
    chosen.push_back({pick, b.seconds, b.lower, b.upper, b.chance, gain[pick], cost_of(candidates[pick], b)});
    --left[pick];
    const auto at = static_cast<Eigen::Index>(pick);
    const double variance = c(at, at) + d.noise;
    if (variance > 0) {
      const Eigen::VectorXd column = c.col(at);
      c -= column * column.transpose() / variance;
    }
  }
  return chosen;
}

}  // namespace

double expected_minimum_change(const std::vector<double>& mean, const std::vector<double>& slope) {
  // The minimum of lines in Z is their lower envelope. Sorted by falling slope, its lines come from left to
  // right.
  std::vector<size_t> order(mean.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return slope[a] != slope[b] ? slope[a] > slope[b] : mean[a] < mean[b];
  });
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<size_t> lines;   // of the envelope
  std::vector<double> starts;  // Z from which each is the least
  for (size_t i : order) {
    double start = -kInfinity;
    while (!lines.empty()) {
      const size_t last = lines.back();
      if (slope[last] == slope[i]) {  // parallel and, by the order, not below
        start = kInfinity;
        break;
      }
      start = (mean[i] - mean[last]) / (slope[last] - slope[i]);
      if (start > starts.back()) break;
      lines.pop_back();
      starts.pop_back();
      start = -kInfinity;
    }
    if (start == kInfinity) continue;
    lines.push_back(i);
    starts.push_back(start);
  }
  // Neighbours meet at a corner c, where the flatter line gains the part of Z beyond it: E[min] = mean of the
  // line at Z = 0 minus the sum of (difference of slopes) * (pdf(c) - |c| cdf(-|c|)).
  double sum = 0;
  for (size_t k = 1; k < lines.size(); ++k) {
    const double corner = std::abs(starts[k]);
    const double tail = std::max(0.0, normal_pdf(corner) - corner * normal_cdf(-corner));
    sum += (slope[lines[k - 1]] - slope[lines[k]]) * tail;
  }
  return -sum;
}

namespace {

Distribution distribution_of(const std::vector<Candidate>& candidates, const SettingsFit& fit) {
  std::vector<RunSpec> specs;
  for (const Candidate& c : candidates) specs.push_back(c.spec);
  auto [mean, covariance] = fit.logs(specs);
  for (Eigen::Index i = 0; i < mean.size(); ++i)
    mean[i] -= std::log(static_cast<double>(specs[static_cast<size_t>(i)].train.global_batch));
  return {.mean = mean,
          .shared = root_of(covariance),
          .own = Eigen::VectorXd::Zero(mean.size()),
          .noise = fit.noise() * fit.noise()};
}

Outlook look_ahead(const std::vector<Candidate>& candidates, const Distribution& d,
                   const SuggestOptions& options) {
  Outlook out;
  Eigen::Index choice = 0;
  d.mean.minCoeff(&choice);
  out.choice = static_cast<size_t>(choice);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    const double seconds = std::exp(d.mean[at]) * static_cast<double>(candidates[i].spec.train.global_batch);
    const double width =
        std::exp(kNormal80 * std::sqrt(d.shared.row(at).squaredNorm() + d.own[at] * d.own[at]));
    out.beliefs.push_back({.seconds = seconds, .lower = seconds / width, .upper = seconds * width});
  }
  draw(d, options, out);
  out.next = choose(candidates, d, out, options);
  return out;
}

void require_any(const std::vector<Candidate>& candidates) {
  if (candidates.empty()) throw std::invalid_argument("look_ahead: there is nothing to choose from");
}

}  // namespace

Outlook look_ahead(const std::vector<Candidate>& candidates, const Machine& machine,
                   const SuggestOptions& options) {
  require_any(candidates);
  return look_ahead(candidates, distribution_of(candidates, machine), options);
}

Outlook look_ahead(const std::vector<Candidate>& candidates, const SettingsFit& fit,
                   const SuggestOptions& options) {
  require_any(candidates);
  return look_ahead(candidates, distribution_of(candidates, fit), options);
}

}  // namespace isobar::perf
