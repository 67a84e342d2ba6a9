#include "model/data/statistics/stats.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <thread>

#include "model/base/error.h"
#include "model/base/text/progress.h"
#include "model/data/files/foreign.h"
#include "model/data/files/npy.h"
#include "model/data/statistics/stats_cache.h"

namespace isobar::data {

namespace {

constexpr int64_t kThousandths = 1000;

/// Running count, mean and sum of squared deviations; planes are merged as Chan et al. (1979) do.
struct Moments {
  double n = 0, mean = 0, m2 = 0;
  float low = std::numeric_limits<float>::infinity(), high = -low;

  /// Adds the values of one field.
  void add(const float* x, int64_t count) {
    double sum = 0, square = 0;
    if (count == 0) return;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]);
    const auto [least, most] = std::minmax_element(x, x + count);
    low = *least, high = *most;
    const double m = sum / static_cast<double>(count);
    for (int64_t i = 0; i < count; ++i)
      square += (static_cast<double>(x[i]) - m) * (static_cast<double>(x[i]) - m);
    n = static_cast<double>(count), mean = m, m2 = square;
  }
  void merge(const Moments& with) {
    if (with.n == 0) return;
    const double total = n + with.n, delta = with.mean - mean;
    mean += delta * with.n / total;
    m2 += with.m2 + delta * delta * n * with.n / total;
    n = total;
    low = std::min(low, with.low), high = std::max(high, with.high);
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
  constexpr float kLeast = 1e-6f;  // relative to the mean
  for (size_t c = 0; c < s.std.size(); ++c) {
    if (s.std[c] >= kLeast * std::abs(s.mean[c]) && s.std[c] >= std::numeric_limits<float>::min()) continue;
    s.std[c] = 1;
    if (flat) flat->push_back(c);
  }
  return s;
}

namespace {

struct StepOfFile {
  const FieldFile* file;
  int64_t step;
};

/// Evenly spaced steps among those that have another `dt` steps later.
std::vector<StepOfFile> places_of(const std::vector<TimeSegment>& segments, int64_t max_steps, int64_t dt) {
  int64_t total = 0;
  for (const TimeSegment& s : segments) total += std::max<int64_t>(0, s.steps - dt);
  const int64_t wanted = max_steps > 0 && max_steps < total ? max_steps : total;
  std::vector<StepOfFile> places;
  size_t segment = 0;
  int64_t before = 0;  // steps in earlier segments
  for (int64_t i = 0; i < wanted; ++i) {
    const int64_t step = i * total / wanted;
    const auto held = [&] { return std::max<int64_t>(0, segments[segment].steps - dt); };
    while (step >= before + held()) before += held(), ++segment;
    places.push_back({segments[segment].file, segments[segment].first + step - before});
  }
  return places;
}

/// The moments per channel of one step, or of its change over dt.
std::vector<Moments> moments_at(const StepOfFile& at, FieldShape crop, int64_t dt) {
  thread_local std::vector<float> fields, later;
  const bool masked = at.file->info().masked;
  const auto read = [&](int64_t step, std::vector<float>& to) {
    to.resize(static_cast<size_t>(crop.size()));
    if (masked)
      at.file->read_with_gaps(step, crop, to.data());
    else
      at.file->read(step, crop, nullptr, to.data());
  };
  read(at.step, fields);
  if (dt > 0) {
    read(at.step + dt, later);
    for (size_t i = 0; i < fields.size(); ++i) fields[i] = later[i] - fields[i];
  }
  std::vector<Moments> moments(static_cast<size_t>(crop.channels));
  const int64_t plane = crop.height * crop.width;
  for (int64_t c = 0; c < crop.channels; ++c) {
    float *first = fields.data() + c * plane, *last = first + plane;
    if (masked) last = std::remove_if(first, last, [](float x) { return std::isnan(x); });
    moments[c].add(first, last - first);
  }
  return moments;
}

/// Refuses a channel without any valid value, which has no mean.
void require_values(const std::vector<Moments>& moments, const FieldInfo& info, size_t steps) {
  for (size_t c = 0; c < moments.size(); ++c)
    if (moments[c].n == 0)
      throw ConfigError(info.path, info.key,
                        "channel '" + info.channels[c] + "' has no value at all in the " +
                            std::to_string(steps) + " steps that were read: it has no mean",
                        "leave it out: choose variables without it (data.variables)");
}

int reading_threads(size_t steps) {
  constexpr int kMost = 8;  // limited by a child's address space
  cpu_set_t set;
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::clamp(std::min(cores, static_cast<int>(std::min<size_t>(steps, kMost))), 1, kMost);
}

}  // namespace

// Several threads read steps, but moments are merged in step order, so that sums do not depend on timing.
Statistics compute_statistics(const std::vector<TimeSegment>& segments, FieldShape crop, int64_t max_steps,
                              const std::function<void(int64_t)>& progress, int64_t dt) {
  const std::vector<StepOfFile> places = places_of(segments, max_steps, dt);
  if (places.empty()) throw std::invalid_argument("compute_statistics: no step");
  std::vector<Moments> moments(crop.channels);
  std::map<size_t, std::vector<Moments>> waiting;  // read before an earlier step was merged
  std::map<size_t, std::exception_ptr> failed;     // the first is reported
  std::mutex mutex;
  size_t next = 0, merged = 0;
  const auto work = [&] {
    for (;;) {
      std::unique_lock lock(mutex);
      if (next == places.size() || !failed.empty()) return;
      const size_t mine = next++;
      lock.unlock();
      try {
        std::vector<Moments> one = moments_at(places[mine], crop, dt);
        lock.lock();
        waiting.emplace(mine, std::move(one));
        for (auto at = waiting.begin(); at != waiting.end() && at->first == merged; at = waiting.erase(at)) {
          for (int64_t c = 0; c < crop.channels; ++c) moments[c].merge(at->second[c]);
          ++merged;
        }
        if (progress)
          progress(static_cast<int64_t>(merged) * kThousandths / static_cast<int64_t>(places.size()));
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        failed.emplace(mine, std::current_exception());
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < reading_threads(places.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  if (!failed.empty()) std::rethrow_exception(failed.begin()->second);
  require_values(moments, segments[0].file->info(), places.size());
  Statistics out;
  for (int64_t c = 0; c < crop.channels; ++c) {
    const double std = moments[c].n > 0 ? std::sqrt(moments[c].m2 / moments[c].n) : 0;
    out.mean.push_back(static_cast<float>(moments[c].mean));
    // The deviation of equal values may round to 1e-17 instead of 0.
    out.std.push_back(moments[c].high > moments[c].low ? static_cast<float>(std) : 0.0f);
  }
  return out;
}

namespace {

std::vector<TimeSegment> longer_than(std::vector<TimeSegment> segments, int64_t dt, const std::string& path) {
  const FieldInfo& info = segments[0].file->info();
  if (dt > 0 && !info.time_unread.empty())
    throw ConfigError(
        info.path, "",
        info.time_unread + ", so that no two steps are known to be " + std::to_string(dt) + " steps apart",
        "give a time axis such as CF has it ('hours since 2000-01-01')");
  if (std::any_of(segments.begin(), segments.end(), [&](const TimeSegment& s) { return s.steps > dt; }))
    return segments;
  throw ConfigError(path, "", "no pair of steps " + std::to_string(dt) + " apart lies in it", "lower --dt");
}

}  // namespace

FileStatistics compute_statistics(const std::string& path, const FieldChoice& choice, int64_t max_steps,
                                  bool show_progress, int64_t dt) {
  const KeptStatistics kept(path, "", choice, {{"steps", max_steps}, {"dt", dt}});
  std::optional<nlohmann::json> known = kept.find({"channels", "units"});
  if (known && show_progress)
    std::fprintf(stderr, "isobar: computed before, and kept in %s\n", kept.file().c_str());
  Progress bar("statistics", kThousandths, show_progress && !known);
  const auto compute = [&](const FieldFiles& files, const ChildProgress& done) {
    const FieldInfo& info = files[0]->info();
    const Statistics s =
        compute_statistics(longer_than(segments_of(files), dt, path), info.shape, max_steps, done, dt);
    const auto bytes = nlohmann::json::to_cbor(
        {{"mean", s.mean}, {"std", s.std}, {"channels", info.channels}, {"units", info.units}});
    return std::string(bytes.begin(), bytes.end());
  };
  if (!known) {
    known =
        nlohmann::json::from_cbor(read_foreign(path, "", choice, compute, [&](int64_t n) { bar.update(n); }));
    bar.finish();
    kept.keep(*known);
  }
  const nlohmann::json& j = *known;
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

}  // namespace isobar::data
