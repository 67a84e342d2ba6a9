#include "perfmodel/fitting/settings_fit.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "model/base/error.h"
#include "model/base/system/shared_files.h"
#include "perfmodel/fitting/statistics.h"

namespace isobar::perf {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using nlohmann::json;

constexpr double kMean = 3;     // prior sigma of the log step time at the runs' centre
constexpr double kSlope = 0.7;  // of an octave of a number, or of a name: about proportional
constexpr double kSize = 0.1, kNoise = 0.03, kSpread = 0.8;  // usual log sigmas, and of their logs
constexpr double kLeastNoise = 0.005;

/// Keys that say where a run is, not what it does; sweeps vary the seed for repetitions.
bool is_about(const std::string& key) {
  static const std::set<std::string> about = {"run.out", "run.command", "run.reads", "train.seed",
                                              "train.steps"};
  return about.contains(key);
}

void flatten_into(const json& j, const std::string& path, std::map<std::string, json>& to) {
  if (!j.is_object()) {
    if (!is_about(path)) to[path] = j;
    return;
  }
  for (const auto& [key, value] : j.items()) flatten_into(value, path.empty() ? key : path + "." + key, to);
}

double octaves(const json& number, bool from_zero) {
  const double v = number.get<double>();
  return from_zero || v <= 0 ? std::copysign(std::log2(1 + std::abs(v)), v) : std::log2(v);
}

}  // namespace

SettingsFit::Flat SettingsFit::flat_of(const RunSpec& spec) {
  Flat out;
  flatten_into(isobar::to_json(spec), "", out);
  return out;
}

SettingsFit::SettingsFit(const std::vector<MeasuredRun>& runs)
    : SettingsFit([&] {
        std::vector<Row> rows;
        for (const MeasuredRun& r : runs)
          rows.push_back({r.id, flat_of(r.spec), std::log(r.step_s), measurement_error(r)});
        return rows;
      }()) {}

SettingsFit::SettingsFit(std::vector<Row> rows) : rows_(std::move(rows)) {
  for (const Row& r : rows_) ids_.push_back(r.id);
  if (rows_.empty()) return;
  mean_ = 0;
  for (const Row& r : rows_) mean_ += r.log_s / static_cast<double>(rows_.size());
  list_features();
  const auto n = static_cast<Eigen::Index>(rows_.size());
  x_.resize(n, static_cast<Eigen::Index>(features_.size()));
  errors_.resize(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Row& r = rows_[static_cast<size_t>(i)];
    x_.row(i) = features_of(r.settings).transpose();
    errors_[i] = r.error;
  }
  learn();
}

void SettingsFit::list_features() {
  std::map<std::string, std::vector<json>> values;
  for (const Row& r : rows_)
    for (const auto& [key, value] : r.settings) {
      auto& known = values[key];
      if (std::find(known.begin(), known.end(), value) == known.end()) known.push_back(value);
    }
  for (const auto& [key, known] : values) {
    if (known.size() < 2) continue;
    const bool numbers = std::all_of(known.begin(), known.end(), [](const json& v) { return v.is_number(); });
    if (numbers) {
      const bool from_zero =
          std::any_of(known.begin(), known.end(), [](const json& v) { return v.get<double>() <= 0; });
      Feature f{key, "", 0, from_zero};
      for (const Row& r : rows_)
        f.center += octaves(r.settings.at(key), from_zero) / static_cast<double>(rows_.size());
      features_.push_back(f);
    } else {
      for (const json& v : known) features_.push_back({key, v.dump(), 0, false});
    }
  }
}

VectorXd SettingsFit::features_of(const Flat& settings) const {
  VectorXd x(static_cast<Eigen::Index>(features_.size()));
  for (size_t k = 0; k < features_.size(); ++k) {
    const Feature& f = features_[k];
    const auto at = settings.find(f.key);
    const bool there = at != settings.end();
    x[static_cast<Eigen::Index>(k)] = !f.name.empty() ? (there && at->second.dump() == f.name)
                                      : there && at->second.is_number()
                                          ? octaves(at->second, f.from_zero) - f.center
                                          : 0;
  }
  return x;
}

MatrixXd SettingsFit::kernel(const MatrixXd& a, const MatrixXd& b) const {
  MatrixXd k = kSlope * kSlope * a * b.transpose();
  k.array() += kMean * kMean;
  for (Eigen::Index i = 0; i < a.rows(); ++i)
    for (Eigen::Index j = 0; j < b.rows(); ++j)
      k(i, j) += size_ * size_ * std::exp(-0.5 * (a.row(i) - b.row(j)).squaredNorm() / (reach_ * reach_));
  return k;
}

void SettingsFit::learn() {
  const Eigen::Index n = x_.rows();
  VectorXd y(n);
  for (Eigen::Index i = 0; i < n; ++i) y[i] = rows_[static_cast<size_t>(i)].log_s - mean_;
  const auto conditioned = [&] {
    MatrixXd k = kernel(x_, x_);
    k.diagonal().array() += noise_ * noise_ + errors_.array().square();
    return Eigen::LLT<MatrixXd>(k);
  };
  double best = -1e300;
  double found[3] = {size_, reach_, noise_};
  for (const double size : {0.02, 0.05, 0.1, 0.2, 0.4, 0.8})
    for (const double reach : {0.7, 1.4, 2.8, 5.6})
      for (const double noise : {kLeastNoise, 0.015, 0.03, 0.06, 0.12}) {
        size_ = size, reach_ = reach, noise_ = noise;
        const auto llt = conditioned();
        // A few runs say little about either: both stay near what is usual unless the runs insist.
        const double prior =
            std::pow(std::log(size / kSize) / kSpread, 2) + std::pow(std::log(noise / kNoise) / kSpread, 2);
        const double likelihood = -0.5 * (y.dot(llt.solve(y)) + prior) -
                                  llt.matrixL().toDenseMatrix().diagonal().array().log().sum();
        if (likelihood > best) best = likelihood, found[0] = size, found[1] = reach, found[2] = noise;
      }
  size_ = found[0], reach_ = found[1], noise_ = found[2];
  llt_ = conditioned();
  alpha_ = llt_.solve(y);
  const VectorXd precision = llt_.solve(MatrixXd::Identity(n, n)).diagonal();
  std::vector<double> left_out;  // errors of runs left out, in sigmas
  for (Eigen::Index i = 0; i < n; ++i) left_out.push_back(std::abs(alpha_[i]) / std::sqrt(precision[i]));
  if (n >= 5) scale_ = std::clamp(quantile(left_out, 0.8) / kNormal80, 0.7, 3.0);
}

std::pair<VectorXd, MatrixXd> SettingsFit::logs(const std::vector<RunSpec>& specs) const {
  MatrixXd at(static_cast<Eigen::Index>(specs.size()), static_cast<Eigen::Index>(features_.size()));
  for (size_t i = 0; i < specs.size(); ++i)
    at.row(static_cast<Eigen::Index>(i)) = features_of(flat_of(specs[i])).transpose();
  VectorXd mean = VectorXd::Constant(at.rows(), mean_);
  MatrixXd covariance = kernel(at, at);
  if (!rows_.empty()) {
    const MatrixXd k = kernel(at, x_);
    mean += k * alpha_;
    covariance -= k * llt_.solve(k.transpose());
  }
  return {mean, scale_ * scale_ * covariance};
}

StepRange SettingsFit::operator()(const RunSpec& spec) const {
  const auto [mean, covariance] = logs({spec});
  const double own = scale_ * noise_;
  const double width = std::exp(kNormal80 * std::sqrt(std::max(0.0, covariance(0, 0)) + own * own));
  const double s = std::exp(mean[0]);
  return {s, s / width, s * width};
}

std::vector<SettingEffect> SettingsFit::effects() const {
  std::vector<SettingEffect> out;
  if (rows_.empty()) return out;
  const auto d = static_cast<Eigen::Index>(features_.size());
  // The plane's slopes are jointly normal with the runs: kSlope^2 * x is their covariance with them.
  const MatrixXd cross = kSlope * kSlope * x_.transpose();
  const VectorXd slope = cross * alpha_;
  const MatrixXd left = kSlope * kSlope * MatrixXd::Identity(d, d) - cross * llt_.solve(cross.transpose());
  for (size_t i = 0; i < features_.size(); ++i) {
    // A name is compared with the first of its key.
    size_t first = i;
    while (!features_[i].name.empty() && first > 0 && features_[first - 1].key == features_[i].key) --first;
    if (!features_[i].name.empty() && first == i) continue;
    VectorXd w = VectorXd::Zero(d);
    w[static_cast<Eigen::Index>(i)] = 1;
    if (!features_[i].name.empty()) w[static_cast<Eigen::Index>(first)] = -1;
    const double mean = w.dot(slope), sigma = scale_ * std::sqrt(std::max(0.0, w.dot(left * w)));
    out.push_back(
        {.key = features_[i].key,
         .value = features_[i].name.empty() ? "" : features_[i].name + " for " + features_[first].name,
         .factor = std::exp(mean),
         .lower = std::exp(mean - kNormal80 * sigma),
         .upper = std::exp(mean + kNormal80 * sigma)});
  }
  return out;
}

nlohmann::json SettingsFit::to_json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& r : rows_)
    rows.push_back(
        {{"id", r.id}, {"step_s", std::exp(r.log_s)}, {"error", r.error}, {"settings", r.settings}});
  return {{"schema", 1}, {"by_settings", rows}};
}

SettingsFit SettingsFit::from_json(const nlohmann::json& j, const std::string& file) {
  const char* again = "write it anew by isobar fit";
  require_shape(j, file, {{"/by_settings", "array"}}, again);
  std::vector<Row> rows;
  for (const auto& r : j["by_settings"]) {
    require_shape(r, file,
                  {{"/id", "string"}, {"/step_s", "number"}, {"/error", "number"}, {"/settings", "object"}},
                  again);
    if (!(r["step_s"].get<double>() > 0) || !(r["error"].get<double>() >= 0))
      throw ConfigError(file, "by_settings.step_s", "is no time of a step", again);
    Row row{r["id"], {}, std::log(r["step_s"].get<double>()), r["error"]};
    for (const auto& [key, value] : r["settings"].items()) row.settings[key] = value;
    rows.push_back(std::move(row));
  }
  return SettingsFit(std::move(rows));
}

}  // namespace isobar::perf
