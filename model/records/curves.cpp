#include "model/records/curves.h"

#include <algorithm>
#include <set>

namespace isobar::records {
namespace {

void put(std::vector<CurvePoint>& to, std::string tag, const std::optional<double>& value) {
  if (value) to.push_back({std::move(tag), *value});
}

}  // namespace

std::string RunCurves::channel(size_t i) const {
  return i < channels_.size() ? channels_[i] : std::to_string(i);
}

std::string RunCurves::of(const char* what, size_t i, const char* part) const {
  return std::string(what) + "(" + channel(i) + ")/" + part;
}

std::vector<CurvePoint> RunCurves::of(const StepRecord& s) const {
  std::vector<CurvePoint> out;
  put(out, "Loss/train", s.loss);
  put(out, of("RMSE", 0, "train"), s.rmse);
  put(out, of("MAE", 0, "train"), s.mae);
  put(out, "Accuracy/train", s.accuracy);
  put(out, "Learning Rate", s.lr);
  put(out, "Gradient norm", s.grad_norm);
  if (s.seconds > 0) put(out, "Avg iters per sec", 1 / s.seconds);
  put(out, "Avg samples per sec", s.samples_per_s);
  return out;
}

std::vector<CurvePoint> RunCurves::of(const ValidRecord& v) const {
  std::vector<CurvePoint> out;
  put(out, "Loss/valid", v.loss);
  for (size_t c = 0; c < v.rmse.size(); ++c) put(out, of("RMSE", c, "valid"), v.rmse[c]);
  for (size_t c = 0; c < v.mae.size(); ++c) put(out, of("MAE", c, "valid"), v.mae[c]);
  put(out, "Accuracy/valid", v.accuracy);
  put(out, "Perplexity/valid", v.perplexity);
  return out;
}

std::vector<CurvePoint> RunCurves::of(const RanksRecord& r) const {
  std::vector<CurvePoint> out;
  if (r.ranks.empty()) return out;
  std::optional<double> least, most;
  int64_t bytes = 0;
  for (const RankRecord& rank : r.ranks) {
    bytes = std::max(bytes, rank.rss_bytes);
    if (!rank.compute_s) continue;
    least = std::min(least.value_or(*rank.compute_s), *rank.compute_s);
    most = std::max(most.value_or(0), *rank.compute_s);
  }
  if (least) put(out, "Rank compute (ms)/least", 1e3 * *least);
  if (most) put(out, "Rank compute (ms)/most", 1e3 * *most);
  put(out, "Rank memory (MB)/most", 1e-6 * static_cast<double>(bytes));
  if (!r.joules_per_step) return out;
  put(out, "Power (W)", *r.joules_per_step / r.ranks[0].step_s);
  put(out, "Energy per sample (J)", *r.joules_per_step / static_cast<double>(batch_));
  return out;
}

size_t pictured_channel(const std::vector<std::string>& channels) {
  for (const char* name : {"t2m", "2t", "2m_temperature"})
    if (const auto at = std::find(channels.begin(), channels.end(), name); at != channels.end())
      return static_cast<size_t>(at - channels.begin());
  return 0;
}

nlohmann::json hyperparameters(const RunSpec& spec) {
  RunSpec usual;
  usual.net.set_kind(spec.net.kind());
  const nlohmann::json all = to_json(spec), before = to_json(usual);
  const std::set<std::string> files = {"train", "valid", "means", "stds", "static_file"};  // of data
  nlohmann::json out = {{"net.kind", spec.net.kind()}};
  for (const char* section : {"net", "data", "train", "layout", "policy"})
    for (const auto& [key, value] : all.at(section).items()) {
      const bool file = section == std::string("data") && files.contains(key);
      if (!file && before.at(section).value(key, nlohmann::json()) != value)
        out[std::string(section).append(".").append(key)] = value;
    }
  return out;
}

}  // namespace isobar::records
