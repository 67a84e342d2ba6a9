#include "perfmodel/holdout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "model/base/rng.h"
#include "perfmodel/predict.h"

namespace isobar {
namespace {

constexpr uint64_t kSplitStream = uint64_t{0x73706c69} << 32;  // "spli": apart from other streams

// The values of the keys that differ between runs: one word per run and key.
std::vector<std::vector<std::string>> varied(const std::vector<MeasuredRun>& runs) {
  std::map<std::string, std::vector<std::string>> columns;
  for (const MeasuredRun& r : runs) {
    const nlohmann::json flat = to_json(r.spec).flatten();
    for (const auto& [key, value] : flat.items())
      if (key != "/run/out" && key != "/train/seed") columns[key].push_back(value.dump());
  }
  std::vector<std::vector<std::string>> out;
  for (auto& [key, column] : columns)
    if (std::adjacent_find(column.begin(), column.end(), std::not_equal_to<>()) != column.end())
      out.push_back(std::move(column));
  return out;
}

std::vector<double> ranks_of(const std::vector<double>& v) {
  std::vector<size_t> order(v.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return v[a] < v[b]; });
  std::vector<double> out(v.size());
  for (size_t i = 0; i < order.size();) {
    size_t j = i;
    while (j < order.size() && v[order[j]] == v[order[i]]) ++j;
    for (size_t k = i; k < j; ++k) out[order[k]] = 0.5 * static_cast<double>(i + j - 1);
    i = j;
  }
  return out;
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = 0.5 * static_cast<double>(a.size() - 1);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace

Split split_runs(const std::vector<MeasuredRun>& runs, double fraction, uint64_t seed) {
  const size_t n = runs.size();
  const auto wanted = static_cast<size_t>(std::llround(fraction * static_cast<double>(n)));
  const auto columns = varied(runs);
  std::vector<int64_t> order = permutation(static_cast<int64_t>(n), seed, kSplitStream);
  std::vector<std::map<std::string, double>> total(columns.size()), taken(columns.size());
  for (size_t c = 0; c < columns.size(); ++c)
    for (const std::string& v : columns[c]) total[c][v] += 1;
  std::vector<bool> train(n, false);
  for (size_t k = 0; k < wanted; ++k) {
    // Next comes the run whose values are so far the least represented; at a draw, the first in random order.
    double least = 0;
    auto best = order.end();
    for (auto it = order.begin(); it != order.end(); ++it) {
      double sum = 0;
      for (size_t c = 0; c < columns.size(); ++c) {
        const std::string& v = columns[c][*it];
        sum += taken[c][v] / total[c][v];
      }
      if (best == order.end() || sum < least - 1e-12) {
        least = sum;
        best = it;
      }
    }
    for (size_t c = 0; c < columns.size(); ++c) taken[c][columns[c][*best]] += 1;
    train[*best] = true;
    order.erase(best);
  }
  Split out;
  for (size_t i = 0; i < n; ++i) (train[i] ? out.train : out.test).push_back(i);
  return out;
}

std::vector<MeasuredRun> pick(const std::vector<MeasuredRun>& runs, const std::vector<size_t>& which) {
  std::vector<MeasuredRun> out;
  out.reserve(which.size());
  for (size_t i : which) out.push_back(runs.at(i));
  return out;
}

Holdout hold_out(const std::vector<MeasuredRun>& runs, const Machine& machine) {
  Holdout h;
  std::vector<double> errors, measured, predicted;
  for (const MeasuredRun& r : runs) {
    const Estimate e = estimate(r.spec, terms_of(r.spec, machine, r.threads, r.ranks_on_host), machine);
    h.rows.push_back({r.id, r.step_s, e.seconds, e.lower, e.upper});
    errors.push_back(std::abs(h.rows.back().error()));
    measured.push_back(r.step_s);
    predicted.push_back(e.seconds);
    h.bias += h.rows.back().error();
    h.coverage += h.rows.back().inside() ? 1 : 0;
  }
  if (h.rows.empty()) return h;
  const auto n = static_cast<double>(h.rows.size());
  h.bias /= n;
  h.coverage /= n;
  h.median_error = quantile(errors, 0.5);
  h.p90 = quantile(errors, 0.9);
  h.mape = std::accumulate(errors.begin(), errors.end(), 0.0) / n;
  h.rank_correlation = spearman(measured, predicted);
  return h;
}

nlohmann::json to_json(const Holdout& h) {
  nlohmann::json rows = nlohmann::json::array();
  for (const HoldoutRow& r : h.rows)
    rows.push_back({{"id", r.id},
                    {"measured_s", r.measured},
                    {"predicted_s", r.predicted},
                    {"lower_s", r.lower},
                    {"upper_s", r.upper},
                    {"error", r.error()},
                    {"inside", r.inside()}});
  return {{"runs", h.rows.size()},
          {"median_error", h.median_error},
          {"mape", h.mape},
          {"p90_error", h.p90},
          {"bias", h.bias},
          {"coverage", h.coverage},
          {"rank_correlation", h.rank_correlation},
          {"rows", rows}};
}

}  // namespace isobar
