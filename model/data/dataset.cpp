#include "model/data/dataset.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/base/classes.h"
#include "model/base/error.h"
#include "model/base/step_tensor.h"
#include "model/base/text/progress.h"
#include "model/data/cf/dates.h"
#include "model/data/fields/channels.h"
#include "model/data/fields/field_file.h"
#include "model/data/files/foreign.h"
#include "model/data/statistics/stats.h"
#include "model/data/statistics/stats_cache.h"
#include "model/data/synthetic/noise.h"
#include "model/data/tables/table_dataset.h"
#include "model/data/tables/token_dataset.h"

namespace isobar::data {

namespace {

constexpr int64_t kNoiseFields = 64, kNoiseRows = 1 << 16, kNoiseTexts = 4096;  // samples of noise
constexpr int64_t kStatisticsSteps = 512;  // limit for sets of files, which may hold decades

/// Pairs (t, t + dt) within the segments of files.
class FileDataset : public Dataset {
 public:
  FileDataset(FieldFiles files, std::vector<TimeSegment> segments, Statistics statistics,
              ChannelChoice channels, const SampleShape& shape, int64_t dt, int64_t limit, bool wrap)
      : files_(std::move(files)),
        segments_(std::move(segments)),
        statistics_(usable(std::move(statistics), &flat_)),
        channels_(std::move(channels)),
        shape_(shape),
        file_shape_(shape.of_files(files_[0]->info().shape.channels)),
        dt_(dt),
        span_(dt * shape.span()),
        wrap_(wrap) {
    ends_.reserve(segments_.size());
    for (const TimeSegment& s : segments_) {
      if (s.steps > span_) size_ += wrap_ ? s.steps : s.steps - span_;
      ends_.push_back(size_);
    }
    if (limit > 0) size_ = std::min(size_, limit);
  }

  int64_t size() const override { return size_; }
  SampleShape shape() const override { return shape_; }
  ChannelNames channels() const override { return channels_.names; }

  Coordinates coordinates() const override {
    const FieldInfo& info = files_[0]->info();
    const auto first = [](std::vector<double> of, int64_t n) {
      if (static_cast<int64_t>(of.size()) > n) of.resize(static_cast<size_t>(n));
      return of;
    };
    Coordinates c{.latitude = first(info.latitude, shape_.target.height),
                  .longitude = first(info.longitude, shape_.target.width),
                  .no_degrees = info.no_degrees,
                  .rows = info.shape.height,
                  .columns = info.shape.width};
    // Files with different reference dates have no common time axis: better none than a wrong one.
    const bool one_axis = std::all_of(files_.begin(), files_.end(), [&](const auto& file) {
      const FieldInfo& f = file->info();
      return !f.times.empty() && f.time_units == info.time_units && f.calendar == info.calendar;
    });
    if (one_axis) c.time_units = info.time_units, c.calendar = info.calendar;
    if (!info.units.empty()) {
      for (const int64_t k : channels_.targets) c.units.push_back(info.units[k]);
      for (const int64_t k : all_inputs()) c.input_units.push_back(info.units[k]);
    }
    return c;
  }
  double target_time(int64_t i) const override {
    const auto [file, step] = place_of(i);
    const std::vector<double>& times = file->info().times;
    return times.empty() ? Dataset::target_time(i)
                         : times[step + dt_ * (shape_.history - 1 + shape_.first_step)];
  }
  double hours(int64_t i, int64_t later) const override {
    const auto [file, oldest] = place_of(i);
    const FieldInfo& info = file->info();
    const int64_t step = oldest + dt_ * (shape_.history - 1 + later);
    if (info.times.empty()) return Dataset::hours(i, later);
    const TimeScale scale = time_scale(info.time_units, info.calendar);
    const auto seconds = scale.seconds(info.times[step]);
    return seconds && of_real_days(scale.calendar) ? *seconds / 3600 : Dataset::hours(i, later);
  }
  // The next sample must lie in the same segment. A wrapped segment has its pairs from step span_ on.
  int64_t one_later(int64_t i) const override {
    const size_t at = segment_of(i);
    const TimeSegment& s = segments_[at];
    const int64_t later = place_of(i).step - s.first + dt_;
    const int64_t sample = (at > 0 ? ends_[at - 1] : 0) + later;
    return later + span_ < s.steps && sample < size_ ? sample : -1;
  }
  Statistics target_statistics() const override { return of(channels_.targets); }
  Statistics input_statistics() const override { return of(all_inputs()); }
  std::vector<std::string> flat_channels() const override {
    std::vector<std::string> names;
    for (const size_t c : flat_) {
      const auto channel = static_cast<int64_t>(c);
      const auto used = [&](const std::vector<int64_t>& of) {
        return std::find(of.begin(), of.end(), channel) != of.end();
      };
      if (used(channels_.inputs) || used(channels_.fixed) || used(channels_.targets))
        names.push_back(files_[0]->info().channels[c]);
    }
    return names;
  }

  void read(int64_t i, float* input, float* target) const override {
    const auto [file, step] = place_of(i);
    read_input(*file, step, input);
    read_channels(*file, step + dt_ * (shape_.history - 1 + shape_.first_step), channels_.targets, target);
  }
  void read_tensors(int64_t i, std::span<float* const> to) const override {
    auto next = to.begin();
    const auto [file, step] = place_of(i);
    const int64_t newest = step + dt_ * (shape_.history - 1);
    read_input(*file, step, *next++);
    auto mask = to.end() - (shape_.masked ? shape_.steps : 0);
    for (int64_t k = 0; k < shape_.steps; ++k)
      read_target(*file, newest + (shape_.first_step + k) * dt_, *next++, shape_.masked ? *mask++ : nullptr);
    const std::vector<int64_t> known(channels_.inputs.end() - shape_.known, channels_.inputs.end());
    for (int64_t k = 1; k <= shape_.later && shape_.known > 0; ++k)
      read_channels(*file, newest + k * dt_, known, *next++);
  }

 private:
  /// File channels in the order of the net's input
  std::vector<int64_t> all_inputs() const {
    std::vector<int64_t> all;
    for (int64_t h = 0; h < shape_.history; ++h)
      all.insert(all.end(), channels_.inputs.begin(), channels_.inputs.end());
    all.insert(all.end(), channels_.fixed.begin(), channels_.fixed.end());
    return all;
  }
  Statistics of(const std::vector<int64_t>& channels) const {
    Statistics s;
    if (statistics_.mean.empty()) return s;
    for (const int64_t k : channels)
      s.mean.push_back(statistics_.mean[k]), s.std.push_back(statistics_.std[k]);
    return s;
  }
  struct Place {
    const FieldFile* file;
    int64_t step;  // the step of the oldest input
  };
  size_t segment_of(int64_t i) const {
    return static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
  }
  Place place_of(int64_t i) const {
    const size_t at = segment_of(i);
    const TimeSegment& s = segments_[at];
    int64_t t = i - (at ? ends_[at - 1] : 0);
    if (wrap_) {
      // Like the NERSC loader: one sample per step of the year, where the last dt wrap around to its start
      // and the first dt are never inputs, so a few pairs come twice. With several states or targets, dt is
      // the span of a sample.
      const int64_t inputs = s.steps - span_;
      t %= inputs;
      if (t < span_ && t + span_ < inputs) t += span_;
    }
    return {s.file, s.first + t};
  }

  void read_input(const FieldFile& file, int64_t oldest, float* out) const {
    const int64_t of_a_time = shape_.of_a_time() * shape_.input.height * shape_.input.width;
    for (int64_t h = 0; h < shape_.history; ++h, out += of_a_time)
      read_channels(file, oldest + h * dt_, channels_.inputs, out);
    if (!channels_.fixed.empty())
      read_channels(file, oldest + (shape_.history - 1) * dt_, channels_.fixed, out);
  }

  bool are_all(const std::vector<int64_t>& wanted) const {
    return static_cast<int64_t>(wanted.size()) == file_shape_.channels &&
           std::is_sorted(wanted.begin(), wanted.end());
  }

  float* take(const std::vector<float>& fields, const std::vector<int64_t>& wanted, float* out) const {
    const int64_t plane = file_shape_.height * file_shape_.width;
    for (const int64_t c : wanted) out = std::copy_n(fields.data() + c * plane, plane, out);
    return out;
  }

  void read_channels(const FieldFile& file, int64_t t, const std::vector<int64_t>& wanted, float* out) const {
    if (are_all(wanted)) return read_fields(file, t, out);
    thread_local std::vector<float> fields;
    fields.resize(static_cast<size_t>(file_shape_.size()));
    read_fields(file, t, fields.data());
    take(fields, wanted, out);
  }

  // Samples in physical units have no mean to fill masked points with: leave them NaN.
  void read_fields(const FieldFile& file, int64_t t, float* out) const {
    if (!statistics_.mean.empty() || !file.info().masked) return file.read(t, file_shape_, &statistics_, out);
    thread_local std::vector<float> there;
    there.resize(static_cast<size_t>(file_shape_.size()));
    file.read_and_tell(t, file_shape_, nullptr, out, there.data());
    for (size_t i = 0; i < there.size(); ++i)
      if (there[i] == 0) out[i] = std::numeric_limits<float>::quiet_NaN();
  }

  // `mask`: null when all points count. A channel without any valid point has no defined error, so it is
  // refused.
  void read_target(const FieldFile& file, int64_t t, float* out, float* mask) const {
    if (!mask) return read_channels(file, t, channels_.targets, out);
    thread_local std::vector<float> fields, there;
    fields.resize(static_cast<size_t>(file_shape_.size()));
    there.resize(fields.size());
    file.read_and_tell(t, file_shape_, &statistics_, fields.data(), there.data());
    for (size_t i = 0; statistics_.mean.empty() && i < there.size(); ++i)
      if (there[i] == 0) fields[i] = std::numeric_limits<float>::quiet_NaN();
    take(fields, channels_.targets, out);
    take(there, channels_.targets, mask);
    const int64_t plane = file_shape_.height * file_shape_.width;
    for (size_t c = 0; c < channels_.targets.size(); ++c, mask += plane)
      if (std::find(mask, mask + plane, 1.0f) == mask + plane)
        throw ConfigError(file.info().path, file.info().key,
                          "time step " + std::to_string(t) + ", channel '" + channels_.names.targets[c] +
                              "': every value is missing",
                          "leave the step out (data.dates), or the channel (data.variables)");
  }

  FieldFiles files_;
  std::vector<TimeSegment> segments_;
  std::vector<int64_t> ends_;  // pairs up to and including each segment
  std::vector<size_t> flat_;   // file channels that hardly vary
  Statistics statistics_;
  ChannelChoice channels_;
  SampleShape shape_;
  FieldShape file_shape_;  // all file channels, cropped
  int64_t dt_, span_, size_ = 0;
  bool wrap_;
};

void check_grid(const FieldInfo& info, const FieldShape& want) {
  const FieldShape have = info.shape;
  if (have.height < want.height || have.width < want.width)
    throw ConfigError(info.path, have.height < want.height ? "net.img_height" : "net.img_width",
                      "the grid of " + std::to_string(have.height) + " x " + std::to_string(have.width) +
                          " is smaller than the image of " + std::to_string(want.height) + " x " +
                          std::to_string(want.width),
                      "lower net.img_height and net.img_width (multiples of the patch size)");
}

/// Refuses files whose steps are at unknown distances: pairs must be data.dt apart.
void require_known_steps(const FieldFiles& files) {
  for (const auto& file : files)
    if (const FieldInfo& info = file->info(); !info.time_unread.empty())
      throw ConfigError(info.path, info.key, info.time_unread,
                        "no pairs of steps are made of it: give a time axis such as CF has it ('hours since "
                        "2000-01-01'), for instance by cdo settaxis");
}

/// The segments of a split, which must hold at least one step.
std::vector<TimeSegment> part_of(const FieldFiles& files, const DataSpec& data, const std::string& path,
                                 Split split) {
  const std::vector<TimeSegment> all = segments_of(files);
  std::vector<TimeSegment> part = split_in_time(all, data.train_fraction, split);
  if (!part.empty()) return part;
  int64_t steps = 0;
  for (const TimeSegment& s : all) steps += s.steps;
  char fraction[32];
  std::snprintf(fraction, sizeof fraction, "%.6g", data.train_fraction);
  throw ConfigError(
      path, "data.train_fraction",
      std::string("a part of ") + fraction + " of " + std::to_string(steps) + " steps leaves the " +
          (split == Split::train ? "training" : "validation") + " part empty",
      split == Split::train ? "raise it, or give longer files" : "lower it, or name data.valid");
}

/// The segments of a split that must hold at least one pair; checked before data are read.
std::vector<TimeSegment> segments_for(const FieldFiles& files, const DataSpec& data, const std::string& path,
                                      Split split, bool whole, const SampleShape& want) {
  choose_channels(data, files[0]->info(), want);
  check_grid(files[0]->info(), want.input);
  require_known_steps(files);
  std::vector<TimeSegment> segments = whole ? segments_of(files) : part_of(files, data, path, split);
  int64_t longest = 0;
  for (const TimeSegment& s : segments) longest = std::max(longest, s.steps);
  if (longest > data.dt * want.span()) return segments;
  const std::string what =
      want.span() == 1 ? "no pair of steps " + std::to_string(data.dt) + " apart lies in the "
                       : "no sample of " + std::to_string(want.span() + 1) + " times (data.history, " +
                             "train.rollout) " + std::to_string(data.dt) + " steps apart lies in the ";
  throw ConfigError(path, "data.dt",
                    what + (split == Split::train ? "training" : "validation") +
                        " part, whose longest stretch has " + std::to_string(longest) + " steps",
                    std::string("lower data.dt, ") + (whole ? "" : "change data.train_fraction, ") +
                        "or give longer files");
}

void check(const DataSpec& data) {
  if (data.dt < 1)
    throw ConfigError("configuration", "data.dt", std::to_string(data.dt) + " is not a lead",
                      "use 1 or more file steps");
  if (!(data.train_fraction > 0 && data.train_fraction <= 1))
    throw ConfigError("configuration", "data.train_fraction",
                      std::to_string(data.train_fraction) + " is out of range",
                      "use a number above 0 and up to 1");
}

Statistics statistics_of(const std::vector<TimeSegment>& training, const SampleShape& want,
                         const std::function<void(int64_t)>& progress = {}) {
  const FieldInfo& info = training[0].file->info();
  const bool whole = info.format.starts_with("netCDF");
  return compute_statistics(training, want.of_files(info.shape.channels), whole ? 0 : kStatisticsSteps,
                            progress);
}

bool are_given(const DataSpec& statistics) {
  return !statistics.means.empty() || !statistics.stds.empty();
}

/// Statistics for files with `channels` channels. `training`: the segments of data.train if they are open,
/// else null.
Statistics statistics_for(const DataSpec& data, int64_t channels, const std::vector<TimeSegment>* training,
                          const SampleShape& want) {
  if (are_given(data)) return read_statistics(data.means, data.stds, channels);
  if (training) return statistics_of(*training, want);
  const FieldFiles opened = open_fields(data.train, "data.train", field_choice(data, Split::train));
  return statistics_of(segments_for(opened, data, data.train, Split::train, !data.valid_dates.empty(), want),
                       want);
}

}  // namespace

std::vector<SampleTensor> tensors_of(const SampleShape& shape) {
  if (shape.words > 0)
    return {{"tokens", shape.input.size(), DType::i32}, {"labels", shape.target.size(), DType::i32}};
  std::vector<SampleTensor> out{{"input", shape.input.size()}};
  for (int64_t k = 0; k < shape.steps; ++k) out.push_back({step_tensor("target", k), shape.target.size()});
  const int64_t known = shape.known * shape.input.height * shape.input.width;
  for (int64_t k = 0; k < shape.later && known > 0; ++k) out.push_back({step_tensor("forcing", k), known});
  for (int64_t k = 0; k < shape.steps && shape.masked; ++k)
    out.push_back({step_tensor("mask", k), shape.target.size()});
  return out;
}

SampleShape sample_shape(const RunSpec& spec) {
  const NetSpec& net = spec.net;
  if (net.reads_rows()) {
    const MlpSpec& n = net.mlp();
    const int64_t classes = classes_of(spec);
    SampleShape shape({n.in_features, 1, 1}, {classes > 0 ? 1 : n.out_features, 1, 1});
    shape.of_table = true;
    shape.classes = classes;
    return shape;
  }
  if (const WordsSpec* words = net.words()) {
    SampleShape shape({1, 1, words->seq_length});
    shape.words = words->vocab_size;
    return shape;
  }
  const Images* i = net.images();
  SampleShape shape({i->in_channels, i->img_height, i->img_width},
                    {i->out_channels, i->img_height, i->img_width});
  shape.history = spec.history();
  shape.fixed = net.fixed_channels();
  shape.steps = spec.learnt_steps();
  shape.first_step = spec.train.rollout - shape.steps + 1;
  shape.known = spec.known_channels();
  shape.later = spec.train.rollout - 1;
  shape.masked = spec.masks_targets();
  shape.feeds_back = spec.feeds_back();
  return shape;
}

std::vector<int64_t> ChannelNames::persistent() const {
  std::vector<int64_t> of;
  for (const std::string& name : targets) {
    const auto at = std::find(inputs.begin(), inputs.end(), name);
    of.push_back(at == inputs.end() ? -1 : at - inputs.begin());
  }
  return of;
}

void require_data(const RunSpec& spec) {
  const DataSpec& d = spec.data;
  if (spec.net.reads_rows()) return require_tables(d, classes_of(spec));
  if (spec.net.words()) {
    const SampleShape shape = sample_shape(spec);
    if (!d.train.empty()) (void)open_tokens(d, d.train, Split::train, shape);
    if (!d.valid.empty()) (void)open_tokens(d, d.valid, Split::valid, shape);
    return;
  }
  // A regional net takes latitudes from its own grid.
  const bool by_rows = spec.train.latitude_weights && spec.net.kind() != RegionalGnnSpec::kKind;
  const auto require_weights = [&](const FieldInfo& info) {
    if (by_rows && !info.no_degrees.empty())
      throw ConfigError(
          info.path, "train.latitude_weights", info.no_degrees,
          "say train.latitude_weights: false, or put the data on rows of latitude: cdo remapbil");
  };
  if (!d.train.empty()) require_fields(d.train, "data.train", field_choice(d, Split::train), require_weights);
  if (!d.valid.empty()) require_fields(d.valid, "data.valid", field_choice(d, Split::valid), require_weights);
}

namespace {

constexpr int64_t kWholeWork = 1000;  // thousandths, as compute_statistics reports them
constexpr double kWithoutBar_s = 2;   // shorter work shows no progress bar

Statistics statistics_in(const nlohmann::json& j) {
  return {j.at("mean").get<std::vector<float>>(), j.at("std").get<std::vector<float>>()};
}

}  // namespace

bool needs_statistics(const DataSpec& data, const SampleShape& want) {
  return !want.of_table && want.words == 0 && !data.train.empty() && !are_given(data);
}

std::function<Statistics()> begin_statistics(const DataSpec& data, SampleShape want) {
  check(data);
  const auto compute = [=](const FieldFiles& files, const ChildProgress& done) {
    return packed(
        statistics_of(segments_for(files, data, data.train, Split::train, false, want), want, done));
  };
  const FieldChoice choice = field_choice(data, Split::train);
  const FieldShape all = want.of_files(0);
  const auto kept = std::make_shared<KeptStatistics>(data.train, "data.train", choice,
                                                     nlohmann::json{{"fraction", data.train_fraction},
                                                                    {"rows", all.height},
                                                                    {"columns", all.width},
                                                                    {"span", data.dt * want.span()}});
  if (const auto known = kept->find()) return [s = statistics_in(*known)] { return s; };
  const auto child = std::make_shared<ForeignRead>(data.train, "data.train", choice, compute);
  return [child, kept] {
    const auto begun = std::chrono::steady_clock::now();
    std::optional<Progress> bar;
    const Statistics s = unpacked(child->answer([&](int64_t n) {
      if (!bar && std::chrono::steady_clock::now() - begun > std::chrono::duration<double>(kWithoutBar_s))
        bar.emplace("statistics of data.train", kWholeWork);
      if (bar) bar->update(n);
    }));
    kept->keep({{"mean", s.mean}, {"std", s.std}});
    return s;
  };
}

std::unique_ptr<Dataset> open_dataset(const DataSpec& data, const std::string& path, Split split,
                                      SampleShape want, const Statistics* known) {
  const int64_t limit = split == Split::train ? data.limit_samples : data.limit_valid_samples;
  check(data);
  if (data.train.empty() && path.empty()) {
    if (want.words > 0) return make_tokens(limit > 0 ? limit : kNoiseTexts, split, want);
    const int64_t usual = want.of_table ? kNoiseRows : kNoiseFields;
    return make_noise(limit > 0 ? limit : usual, data.dt, split, want);
  }
  if (want.of_table) return open_table(data, path, split, want, known);
  if (want.words > 0) return open_tokens(data, path, split, want);

  const bool tail = split == Split::valid && path.empty();  // validates on the end of data.train
  const std::string key = split == Split::train || tail ? "data.train" : "data.valid";
  if (tail && !data.validates())
    throw ConfigError(data.train, "data.valid", "there are no validation data",
                      "name some in data.valid or data.valid_dates, or set data.train_fraction below 1");
  auto files = open_fields(tail ? data.train : path, key, field_choice(data, split));
  const bool whole = !data.valid_dates.empty() || (split == Split::valid && !tail);  // nothing to cut off
  std::vector<TimeSegment> segments = segments_for(files, data, tail ? data.train : path, split, whole, want);
  const FieldInfo& info = files[0]->info();
  ChannelChoice channels = choose_channels(data, info, want);
  Statistics statistics;
  if (known && (known->mean.empty() || needs_statistics(data, want))) {
    statistics = *known;
  } else if (tail && data.valid_dates.empty()) {
    const auto first = part_of(files, data, data.train, Split::train);
    statistics = statistics_for(data, info.shape.channels, &first, want);
  } else {
    statistics = statistics_for(data, info.shape.channels, split == Split::train ? &segments : nullptr, want);
  }
  const bool wrap = info.format.starts_with("HDF5");
  return std::make_unique<FileDataset>(std::move(files), std::move(segments), std::move(statistics),
                                       std::move(channels), want, data.dt, limit, wrap);
}

}  // namespace isobar::data
