#include "model/data/stats.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "model/base/error.h"
#include "model/base/progress.h"
#include "model/data/foreign.h"
#include "model/data/npy.h"

namespace isobar {

namespace {

constexpr int64_t kThousandths = 1000;

/// Running count, mean and sum of squared deviations; planes are merged as Chan et al. (1979) do.
struct Moments {
  double n = 0, mean = 0, m2 = 0;
  float low = std::numeric_limits<float>::infinity(), high = -low;

  void add(const float* x, int64_t count) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]);
    const auto [least, most] = std::minmax_element(x, x + count);
    low = std::min(low, *least), high = std::max(high, *most);
    const double m = sum / static_cast<double>(count);
    for (int64_t i = 0; i < count; ++i)
      square += (static_cast<double>(x[i]) - m) * (static_cast<double>(x[i]) - m);
    const double k = static_cast<double>(count), total = n + k, delta = m - mean;
    mean += delta * k / total;
    m2 += square + delta * delta * n * k / total;
    n = total;
  }
};

std::vector<float> read_vector(const std::string& path, const std::string& key, int64_t channels) {
  const NpyArray a = read_npy(path, key);
  // [1,C,1,1] as NERSC writes it, or any shape with C elements along one axis.
  if (static_cast<int64_t>(a.values.size()) != channels)
    throw ConfigError(
        path, key,
        "holds " + std::to_string(a.values.size()) + " numbers for " + std::to_string(channels) + " channels",
        "make it for this data: isobar data stats DATA -o DIR");
  for (double v : a.values)
    if (!std::isfinite(v))
      throw ConfigError(path, key, "holds a number that is not finite", "make it again: isobar data stats");
  return {a.values.begin(), a.values.end()};
}

}  // namespace

Statistics usable(Statistics s, std::vector<size_t>* flat) {
  constexpr float kLeast = 1e-6f;  // of the mean's size
  for (size_t c = 0; c < s.std.size(); ++c) {
    if (s.std[c] >= kLeast * std::abs(s.mean[c]) && s.std[c] >= std::numeric_limits<float>::min()) continue;
    s.std[c] = 1;
    if (flat) flat->push_back(c);
  }
  return s;
}

Statistics compute_statistics(const std::vector<TimeSegment>& segments, FieldShape crop, int64_t max_steps,
                              const std::function<void(int64_t)>& progress) {
  int64_t total = 0;
  for (const TimeSegment& s : segments) total += s.steps;
  if (total < 1) throw std::invalid_argument("compute_statistics: no step");
  const int64_t wanted = max_steps > 0 && max_steps < total ? max_steps : total;
  std::vector<Moments> moments(crop.channels);
  std::vector<float> fields(crop.size());
  size_t segment = 0;
  int64_t before = 0;  // steps before this segment
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t step = i * total / wanted;
    while (step >= before + segments[segment].steps) before += segments[segment++].steps;
    const TimeSegment& s = segments[segment];
    s.file->read(s.first + step - before, crop, nullptr, fields.data());
    for (int64_t c = 0; c < crop.channels; ++c)
      moments[c].add(fields.data() + c * crop.height * crop.width, crop.height * crop.width);
    if (progress) progress((i + 1) * kThousandths / wanted);
  }
  Statistics out;
  for (int64_t c = 0; c < crop.channels; ++c) {
    const double std = std::sqrt(moments[c].m2 / moments[c].n);
    out.mean.push_back(static_cast<float>(moments[c].mean));
    // Sums of equal numbers are rounded: their deviation may come out as 1e-17.
    out.std.push_back(moments[c].high > moments[c].low ? static_cast<float>(std) : 0.0f);
  }
  return out;
}

FileStatistics compute_statistics(const std::string& path, const std::vector<std::string>& variables,
                                  int64_t max_steps, bool show_progress) {
  Progress bar("statistics", kThousandths, show_progress);
  const auto compute = [&](const FieldFiles& files, const ChildProgress& done) {
    const FieldInfo& info = files[0]->info();
    const Statistics s = compute_statistics(segments_of(files), info.shape, max_steps, done);
    const auto bytes = nlohmann::json::to_cbor(
        {{"mean", s.mean}, {"std", s.std}, {"channels", info.channels}, {"units", info.units}});
    return std::string(bytes.begin(), bytes.end());
  };
  const auto j = nlohmann::json::from_cbor(
      read_foreign(path, "", variables, compute, [&](int64_t n) { bar.update(n); }));
  bar.finish();
  FileStatistics out;
  out.mean = j["mean"].get<std::vector<float>>();
  out.std = j["std"].get<std::vector<float>>();
  out.channels = j["channels"].get<std::vector<std::string>>();
  out.units = j["units"].get<std::vector<std::string>>();
  return out;
}

std::string packed(const Statistics& s) {
  if (s.mean.empty()) return "";
  const auto bytes = nlohmann::json::to_cbor({{"mean", s.mean}, {"std", s.std}});
  return {bytes.begin(), bytes.end()};
}

Statistics unpacked(const std::string& bytes) {
  if (bytes.empty()) return {};
  const auto j = nlohmann::json::from_cbor(bytes);
  return {j["mean"].get<std::vector<float>>(), j["std"].get<std::vector<float>>()};
}

void write_statistics(const std::string& dir, const Statistics& s) {
  std::filesystem::create_directories(dir);
  const std::vector<int64_t> shape = {1, static_cast<int64_t>(s.mean.size()), 1, 1};
  write_npy(dir + "/global_means.npy", shape, s.mean);
  write_npy(dir + "/global_stds.npy", shape, s.std);
}

Statistics read_statistics(const std::string& means, const std::string& stds, int64_t channels) {
  if (means.empty() != stds.empty())
    throw ConfigError(means.empty() ? stds : means, means.empty() ? "data.means" : "data.stds",
                      "means and standard deviations are given one without the other",
                      "give both, or neither");
  Statistics s{read_vector(means, "data.means", channels), read_vector(stds, "data.stds", channels)};
  for (size_t c = 0; c < s.std.size(); ++c)
    if (!(s.std[c] >= 0))
      throw ConfigError(
          stds, "data.stds",
          "the standard deviation of channel " + std::to_string(c) + " is " + std::to_string(s.std[c]),
          "it must not be negative: isobar data stats makes it from the data");
  return s;
}

}  // namespace isobar
