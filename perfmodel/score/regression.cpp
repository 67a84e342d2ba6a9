#include "perfmodel/score/regression.h"

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "perfmodel/fit.h"

namespace isobar {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kManyRuns = 150;     // beyond these, runs only repeat the misfit of those before them
constexpr double kCampaignRuns = 40;  // as much as one campaign may say about another
constexpr double kFew = 5;            // different runs, that the fit of everything else takes up
constexpr double kTail = 4;           // degrees of freedom of Student's t: how common outliers are
constexpr size_t kScaleRows = 160, kProcessRows = 900;

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

/// Evenly spread over the rows; all of them when they are few.
Samples thin(const Samples& rows, size_t most) {
  if (rows.size() <= most) return rows;
  Samples out;
  for (size_t i = 0; i < most; ++i) out.push_back(rows[i * rows.size() / most]);
  return out;
}

constexpr double kRoot3 = 1.7320508075688772;

}  // namespace

Sample sample_of(const PublishedRun& r) {
  Sample s;
  s.run = &r;
  s.id = r.id;
  s.campaign = r.campaign;
  s.nodes = std::ceil(r.gpus / r.node);
  s.source = r.source;
  s.section = r.section;
  s.values = {{"", r.specification()},
              {"layout", r.layout()},
              {"precision", std::to_string(static_cast<int>(r.precision)) + (r.block_scaled ? "b" : "")},
              {"gpus", std::to_string(r.gpus)},
              {"model", r.model + std::to_string(r.layers) + "/" + std::to_string(r.hidden) + "/" +
                            std::to_string(r.seq)}};
  s.counts = count_step(r);
  s.memory = count_memory(r);
  s.log_s = r.step_s > 0 ? std::log(r.step_s) : 0;
  const auto lb = [](double v) { return std::log2(std::max(v, 1e-9)); };
  // In octaves; switches are worth some octaves each.
  const std::vector<double> x = {
      lb(r.hidden / r.tp), lb(r.micro_batch * r.seq / r.cp), lb(r.tp), lb(r.pp), lb(r.dp),
      lb(r.micro_batches()), lb(r.layers), lb(r.gpus), lb(r.seq), lb(r.hidden), lb(r.heads),
      4.0 * s.counts.ragged, lb(r.cp), lb(r.vpp), lb(r.ep), std::max(0.0, lb(r.tp * r.cp / r.node)) * 2,
      3.0 * static_cast<int>(r.recompute), 3.0 * (r.attention == AttentionKernel::flash2),
      3.0 * (r.attention == AttentionKernel::flash1), 3.0 * (r.attention == AttentionKernel::unfused),
      2.0 * r.rms_kernel, 2.0 * r.sequence_parallel, 2.0 * r.zero, 3.0 * static_cast<int>(r.precision),
      3.0 * static_cast<int>(r.schedule), 3.0 * r.frozen_weights, 3.0 * (r.experts > 0),
      lb(r.gpu->half / 1e12), lb(r.gpu->memory_rate / 1e9), 2.0 * r.balanced_embedding, 2.0 * r.block_scaled,
      lb(r.gpu->memory_bytes / 1e9), lb(r.gpu->domain) / 2, lb(std::max(r.top_k, 1.0)),
      lb(std::max(r.experts, 1.0)) / 2,
      // Engines that reduce gradients in every micro-batch of a pipeline; allocators that have to clean up.
      3.0 * (r.zero == 0 && r.dp > 1 && r.pp > 1),
      8.0 * std::clamp(lb(peak_bytes(s.memory, spec_memory_prices()) / r.gpu->memory_bytes), -0.2, 0.2)};
  s.features = Eigen::Map<const VectorXd>(x.data(), static_cast<Eigen::Index>(x.size()));
  return s;
}

Sample memory_sample_of(const PublishedRun& r) {
  Sample s = sample_of(r);
  // The global batch changes nothing once pipelines are full.
  PublishedRun full = r;
  full.global_batch = std::min(r.micro_batches(), 2 * r.pp) * r.dp * r.micro_batch;
  s.values[""] = full.specification();
  const bool read = r.memory_gb > 0;
  s.log_s = std::log(read ? r.memory_gb * 1073741824.0 : r.gpu->memory_bytes);
  s.bound = read ? 0 : r.outcome == Outcome::out_of_memory ? 1 : -1;
  return s;
}

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

PriceBelief believe(const Quantity& q, const std::vector<Samples>& campaigns) {
  const PriceBelief spec = spec_belief(q);
  const Eigen::Index n = spec.mean.size();
  MatrixXd differs = MatrixXd::Zero(n, n), precision = MatrixXd::Zero(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    differs(i, i) = q.info[i].differs * q.info[i].differs;
    precision(i, i) = 1 / (q.info[i].unsure * q.info[i].unsure);
  }
  VectorXd vector = precision * spec.mean;
  const MatrixXd one = MatrixXd::Identity(n, n);
  for (const Samples& c : campaigns) {
    if (c.empty()) continue;
    const PriceFit f = fit_prices(q, thin(c, 120), spec, kCampaignRuns);
    // What a campaign says about the common mean, its own deviation integrated out.
    const Eigen::PartialPivLU<MatrixXd> widened(one + f.information * differs);
    precision += widened.solve(f.information);
    vector += widened.solve(f.vector);
  }
  const MatrixXd covariance = precision.ldlt().solve(one);
  return {covariance * vector, covariance + differs};
}

VectorXd fitted_prices(const Quantity& q, const Samples& training, const PriceBelief& belief) {
  return fit_prices(q, training, belief, kManyRuns).log_prices;
}

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
      noise[i] = std::min((kTail * n2 + e * e) / (kTail + 1), 4.0);
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
