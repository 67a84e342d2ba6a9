#include "model/skill/skill.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/base/latitude.h"

namespace isobar::skill {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Sums over a sample's points
struct Moments {
  double squares = 0, sizes = 0, bias = 0;                  // of the error
  double p = 0, t = 0, pp = 0, tt = 0, pt = 0;              // of both, minus an offset
  double anomalies = 0, own_anomaly = 0, true_anomaly = 0;  // of both, minus the climatology
  double counted = 0, missing = 0;                          // weights of points

  // Rescales to means over points that are not missing
  void leave_out_missing() {
    if (missing == 0) return;
    for (double* x :
         {&squares, &sizes, &bias, &p, &t, &pp, &tt, &pt, &anomalies, &own_anomaly, &true_anomaly})
      *x = counted > 0 ? *x / counted : kUnknown;
  }
};

double ratio(double together, double own, double theirs) {
  return own > 0 && theirs > 0 ? together / std::sqrt(own * theirs) : kUnknown;
}

}  // namespace

std::vector<double> area_weights(int64_t height, int64_t width, const std::vector<double>& latitudes) {
  const std::vector<double> rows = row_weights(height, latitudes);
  std::vector<double> w(static_cast<size_t>(height * width));
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = rows[i / static_cast<size_t>(width)] / static_cast<double>(height * width);
  return w;
}

Skill::Skill(int64_t leads, int64_t channels, std::vector<double> weights,
             std::vector<std::vector<double>> thresholds)
    : channels_(channels),
      weights_(std::move(weights)),
      thresholds_(std::move(thresholds)),
      sums_(static_cast<size_t>(leads * channels)) {
  thresholds_.resize(static_cast<size_t>(channels));
  for (std::vector<double>& of_channel : thresholds_) std::sort(of_channel.begin(), of_channel.end());
  for (size_t i = 0; i < sums_.size(); ++i) {
    const size_t n = thresholds_[i % thresholds_.size()].size();
    sums_[i].classes.resize(n > 0 ? n + 1 : 0);
  }
}

void Skill::Mean::add(double x) {
  if (std::isnan(x)) return;
  sum += x;
  ++samples;
}

double Skill::Mean::value() const {
  return samples > 0 ? sum / static_cast<double>(samples) : kUnknown;
}

std::vector<double> Skill::add(int64_t lead, const float* prediction, const float* truth,
                               const float* climatology) {
  const auto points = static_cast<int64_t>(weights_.size());
  std::vector<double> rmse(static_cast<size_t>(channels_));
#pragma omp parallel for schedule(static)
  for (int64_t c = 0; c < channels_; ++c) {
    const auto middle = static_cast<double>(truth[c * points]);  // an offset, so that large means lose no
                                                                 // digits
    const double shift = std::isfinite(middle) ? middle : 0;
    Moments m;
    for (int64_t i = 0; i < points; ++i) {
      const double w = weights_[static_cast<size_t>(i)];
      if (w == 0) continue;
      const auto p = static_cast<double>(prediction[c * points + i]),
                 t = static_cast<double>(truth[c * points + i]);
      if (std::isnan(t)) {
        m.missing += w;
        continue;
      }
      m.counted += w;
      m.squares += w * (p - t) * (p - t);
      m.sizes += w * std::abs(p - t);
      m.bias += w * (p - t);
      m.p += w * (p - shift), m.t += w * (t - shift);
      m.pp += w * (p - shift) * (p - shift);
      m.tt += w * (t - shift) * (t - shift);
      m.pt += w * (p - shift) * (t - shift);
      if (climatology == nullptr) continue;
      const auto usual = static_cast<double>(climatology[c * points + i]);
      m.anomalies += w * (p - usual) * (t - usual);
      m.own_anomaly += w * (p - usual) * (p - usual);
      m.true_anomaly += w * (t - usual) * (t - usual);
    }
    m.leave_out_missing();
    Sums& s = sums_[static_cast<size_t>(lead * channels_ + c)];
    s.rmse.add(rmse[static_cast<size_t>(c)] = std::sqrt(m.squares));
    s.mae.add(m.sizes);
    s.bias.add(m.bias);
    s.correlation.add(ratio(m.pt - m.p * m.t, m.pp - m.p * m.p, m.tt - m.t * m.t));
    s.acc.add(ratio(m.anomalies, m.own_anomaly, m.true_anomaly));
    add_classes(prediction + c * points, truth + c * points, thresholds_[static_cast<size_t>(c)], s.classes);
  }
  return rmse;
}

void Skill::add_classes(const float* prediction, const float* truth, const std::vector<double>& thresholds,
                        std::vector<OfClass>& classes) const {
  if (classes.empty()) return;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const double w = weights_[i];
    const auto p = static_cast<double>(prediction[i]), t = static_cast<double>(truth[i]);
    if (w == 0 || std::isnan(t)) continue;
    const auto at = std::upper_bound(thresholds.begin(), thresholds.end(), t) - thresholds.begin();
    OfClass& own = classes[static_cast<size_t>(at)];
    own.weight += w;
    own.squares += w * (p - t) * (p - t);
    for (size_t k = 0; k < thresholds.size(); ++k) {
      classes[k + 1].hits += p >= thresholds[k] && t >= thresholds[k];
      classes[k + 1].either += p >= thresholds[k] || t >= thresholds[k];
    }
  }
}

SkillScore Skill::of(int64_t lead, int64_t channel) const {
  constexpr double kNoEnd = std::numeric_limits<double>::infinity();
  const auto over = [](double x, double n) { return n > 0 ? x / n : kUnknown; };
  const Sums& s = sums_[static_cast<size_t>(lead * channels_ + channel)];
  const std::vector<double>& thresholds = thresholds_[static_cast<size_t>(channel)];
  SkillScore out{s.rmse.value(), s.mae.value(), s.bias.value(), s.correlation.value(), s.acc.value(), {}};
  double all = 0;
  for (const OfClass& c : s.classes) all += c.weight;
  for (size_t k = 0; k < s.classes.size(); ++k) {
    const OfClass& c = s.classes[k];
    out.classes.push_back({.from = k > 0 ? thresholds[k - 1] : -kNoEnd,
                           .to = k < thresholds.size() ? thresholds[k] : kNoEnd,
                           .share = over(c.weight, all),
                           .rmse = std::sqrt(over(c.squares, c.weight)),
                           .csi = over(static_cast<double>(c.hits), static_cast<double>(c.either))});
  }
  return out;
}

}  // namespace isobar::skill
