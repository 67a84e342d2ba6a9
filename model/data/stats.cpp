#include "model/data/stats.h"

#include <cmath>
#include <filesystem>

#include "model/base/error.h"
#include "model/base/progress.h"
#include "model/data/npy.h"

namespace isobar {

namespace {

/// Running count, mean and sum of squared deviations; planes are merged as Chan et al. (1979) do.
struct Moments {
  double n = 0, mean = 0, m2 = 0;

  void add(const float* x, int64_t count) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]);
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

Statistics compute_statistics(const std::vector<TimeSegment>& segments, FieldShape crop, int64_t max_steps,
                              bool show_progress) {
  int64_t total = 0;
  for (const TimeSegment& s : segments) total += s.steps;
  const int64_t wanted = max_steps > 0 && max_steps < total ? max_steps : total;
  std::vector<Moments> moments(crop.channels);
  std::vector<float> fields(crop.size());
  Progress bar("statistics", wanted, show_progress);
  size_t segment = 0;
  int64_t before = 0;  // steps before this segment
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t step = i * total / wanted;
    while (step >= before + segments[segment].steps) before += segments[segment++].steps;
    const TimeSegment& s = segments[segment];
    s.file->read(s.first + step - before, crop, nullptr, fields.data());
    for (int64_t c = 0; c < crop.channels; ++c)
      moments[c].add(fields.data() + c * crop.height * crop.width, crop.height * crop.width);
    bar.update(i + 1);
  }
  bar.finish();
  Statistics out;
  for (int64_t c = 0; c < crop.channels; ++c) {
    const double std = std::sqrt(moments[c].m2 / moments[c].n);
    const FieldInfo& info = segments[0].file->info();
    if (!(static_cast<float>(std) > 0))
      throw ConfigError(info.path, info.key,
                        "channel '" + info.channels[c] + "' is constant, so it cannot be normalised",
                        "leave it out (data.variables)");
    out.mean.push_back(static_cast<float>(moments[c].mean));
    out.std.push_back(static_cast<float>(std));
  }
  return out;
}

Statistics compute_statistics(const std::string& path, const std::vector<std::string>& variables,
                              int64_t max_steps, bool show_progress) {
  const auto files = open_fields(path, "", variables);
  return compute_statistics(segments_of(files), files[0]->info().shape, max_steps, show_progress);
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
    if (!(s.std[c] > 0))
      throw ConfigError(
          stds, "data.stds",
          "the standard deviation of channel " + std::to_string(c) + " is " + std::to_string(s.std[c]),
          "it must be above 0: isobar data stats makes it from the data");
  return s;
}

}  // namespace isobar
