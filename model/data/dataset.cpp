#include "model/data/dataset.h"

#include <algorithm>
#include <cstdio>

#include "model/base/classes.h"
#include "model/base/error.h"
#include "model/base/step_tensor.h"
#include "model/data/channels.h"
#include "model/data/dates.h"
#include "model/data/field_file.h"
#include "model/data/foreign.h"
#include "model/data/noise.h"
#include "model/data/stats.h"
#include "model/data/table_dataset.h"

namespace isobar {

namespace {

constexpr int64_t kNoiseFields = 64, kNoiseRows = 1 << 16;  // samples of noise
constexpr int64_t kStatisticsSteps = 512;  // of all but single NetCDF files: they may hold decades

/// Pairs (t, t + dt) of the segments of some files.
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
                  .longitude = first(info.longitude, shape_.target.width)};
    // Files that count from different days have no one time axis: none is better than a wrong one.
    const bool one_axis = std::all_of(files_.begin(), files_.end(), [&](const auto& file) {
      const FieldInfo& f = file->info();
      return !f.times.empty() && f.time_units == info.time_units && f.calendar == info.calendar;
    });
    if (one_axis) c.time_units = info.time_units, c.calendar = info.calendar;
    if (!info.units.empty()) {
      for (const int64_t k : channels_.targets) c.units.push_back(info.units[k]);
      for (int64_t h = 0; h < shape_.history; ++h)
        for (const int64_t k : channels_.inputs) c.input_units.push_back(info.units[k]);
    }
    return c;
  }
  double target_time(int64_t i) const override {
    const auto [file, step] = place_of(i);
    const std::vector<double>& times = file->info().times;
    return times.empty() ? Dataset::target_time(i)
                         : times[step + dt_ * (shape_.history - 1 + shape_.first_step)];
  }
  double input_hours(int64_t i) const override {
    const auto [file, step] = place_of(i);
    const FieldInfo& info = file->info();
    const auto seconds =
        info.times.empty() ? std::nullopt : seconds_of(info.times[step], info.time_units, info.calendar);
    return seconds ? *seconds / 3600 : Dataset::input_hours(i);
  }
  Statistics target_statistics() const override { return of(channels_.targets); }
  Statistics input_statistics() const override {
    const Statistics one = of(channels_.inputs);
    Statistics all;
    for (int64_t h = 0; h < shape_.history; ++h) {
      all.mean.insert(all.mean.end(), one.mean.begin(), one.mean.end());
      all.std.insert(all.std.end(), one.std.begin(), one.std.end());
    }
    return all;
  }
  std::vector<std::string> flat_channels() const override {
    std::vector<std::string> names;
    for (const size_t c : flat_) {
      const auto channel = static_cast<int64_t>(c);
      const auto used = [&](const std::vector<int64_t>& of) {
        return std::find(of.begin(), of.end(), channel) != of.end();
      };
      if (used(channels_.inputs) || used(channels_.targets)) names.push_back(files_[0]->info().channels[c]);
    }
    return names;
  }

  void read(int64_t i, float* input, float* target) const override {
    const auto [file, step] = place_of(i);
    const int64_t one_input = shape_.input.size() / shape_.history;
    for (int64_t h = 0; h < shape_.history; ++h)
      read_channels(*file, step + h * dt_, channels_.inputs, input + h * one_input);
    read_channels(*file, step + dt_ * (shape_.history - 1 + shape_.first_step), channels_.targets, target);
  }
  void read_tensors(int64_t i, std::span<float* const> to) const override {
    auto next = to.begin();
    float* const input = *next++;
    read(i, input, *next++);
    const auto [file, step] = place_of(i);
    const int64_t newest = step + dt_ * (shape_.history - 1);
    for (int64_t k = 1; k < shape_.steps; ++k)
      read_channels(*file, newest + (shape_.first_step + k) * dt_, channels_.targets, *next++);
    const std::vector<int64_t> known(channels_.inputs.end() - shape_.known, channels_.inputs.end());
    for (int64_t k = 1; k <= shape_.later && shape_.known > 0; ++k)
      read_channels(*file, newest + k * dt_, known, *next++);
  }

 private:
  Statistics of(const std::vector<int64_t>& channels) const {
    Statistics s;
    if (statistics_.mean.empty()) return s;
    for (const int64_t k : channels)
      s.mean.push_back(statistics_.mean[k]), s.std.push_back(statistics_.std[k]);
    return s;
  }
  struct Place {
    const FieldFile* file;
    int64_t step;  // of the oldest input
  };
  Place place_of(int64_t i) const {
    const auto at = std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin();
    const TimeSegment& s = segments_[at];
    int64_t t = i - (at ? ends_[at - 1] : 0);
    if (wrap_) {
      // As the NERSC loader counts: one sample per step of the year; the last dt wrap around to its start,
      // and the first dt steps are never inputs, so a few pairs come up twice. (Of several states or targets:
      // as many steps as a sample spans.)
      const int64_t inputs = s.steps - span_;
      t %= inputs;
      if (t < span_ && t + span_ < inputs) t += span_;
    }
    return {s.file, s.first + t};
  }

  void read_channels(const FieldFile& file, int64_t t, const std::vector<int64_t>& wanted, float* out) const {
    const auto all = static_cast<size_t>(file_shape_.channels);
    if (wanted.size() == all && std::is_sorted(wanted.begin(), wanted.end()))
      return file.read(t, file_shape_, &statistics_, out);
    thread_local std::vector<float> fields;
    fields.resize(static_cast<size_t>(file_shape_.size()));
    file.read(t, file_shape_, &statistics_, fields.data());
    const int64_t plane = file_shape_.height * file_shape_.width;
    for (const int64_t c : wanted) out = std::copy_n(fields.data() + c * plane, plane, out);
  }

  FieldFiles files_;
  std::vector<TimeSegment> segments_;
  std::vector<int64_t> ends_;  // number of pairs up to and including a segment
  std::vector<size_t> flat_;   // channels of the file
  Statistics statistics_;
  ChannelChoice channels_;
  SampleShape shape_;
  FieldShape file_shape_;  // all its channels, cropped
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

/// The part of a file or directory that the split gives, with a step or more.
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

/// That part, where it holds a pair of steps: told before anything is read.
std::vector<TimeSegment> segments_for(const FieldFiles& files, const DataSpec& data, const std::string& path,
                                      Split split, bool whole, const SampleShape& want) {
  choose_channels(data, files[0]->info(), want);
  check_grid(files[0]->info(), want.input);
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

/// Of files with so many channels. `training`: the segments of data.train where they are open, else null.
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
  std::vector<SampleTensor> out{{"input", shape.input.size()}};
  for (int64_t k = 0; k < shape.steps; ++k) out.push_back({step_tensor("target", k), shape.target.size()});
  const int64_t known = shape.known * shape.input.height * shape.input.width;
  for (int64_t k = 0; k < shape.later && known > 0; ++k) out.push_back({step_tensor("forcing", k), known});
  return out;
}

SampleShape sample_shape(const RunSpec& spec) {
  const NetSpec& net = spec.net;
  if (net.kind() == MlpSpec::kKind) {
    const MlpSpec& n = net.mlp();
    const int64_t classes = classes_of(spec);
    SampleShape shape({n.in_features, 1, 1}, {classes > 0 ? 1 : n.out_features, 1, 1});
    shape.of_table = true;
    shape.classes = classes;
    return shape;
  }
  const Images* i = net.images();
  if (!i)
    throw ConfigError("", "net.kind", net.kind() + " reads words, and there is no loader of them yet",
                      "plan and predict take it; train a vit");
  SampleShape shape({i->in_channels, i->img_height, i->img_width},
                    {i->out_channels, i->img_height, i->img_width});
  shape.history = spec.data.history;
  shape.steps = spec.learnt_steps();
  shape.first_step = spec.train.rollout - shape.steps + 1;
  shape.known = spec.known_channels();
  shape.later = spec.train.rollout - 1;
  shape.feeds_back = spec.train.rollout > 1 || spec.train.prediction == "increment";
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
  if (spec.net.kind() == MlpSpec::kKind) return require_tables(d, classes_of(spec));
  if (!d.train.empty()) require_fields(d.train, "data.train", field_choice(d, Split::train));
  if (!d.valid.empty()) require_fields(d.valid, "data.valid", field_choice(d, Split::valid));
}

bool needs_statistics(const DataSpec& data, const SampleShape& want) {
  return !want.of_table && !data.train.empty() && !are_given(data);
}

std::function<Statistics()> begin_statistics(const DataSpec& data, SampleShape want) {
  check(data);
  const auto compute = [=](const FieldFiles& files, const ChildProgress& done) {
    return packed(
        statistics_of(segments_for(files, data, data.train, Split::train, false, want), want, done));
  };
  const auto child =
      std::make_shared<ForeignRead>(data.train, "data.train", field_choice(data, Split::train), compute);
  return [child] { return unpacked(child->answer()); };
}

std::unique_ptr<Dataset> open_dataset(const DataSpec& data, const std::string& path, Split split,
                                      SampleShape want, const Statistics* known) {
  const int64_t limit = split == Split::train ? data.limit_samples : data.limit_valid_samples;
  check(data);
  if (data.train.empty() && path.empty()) {
    const int64_t usual = want.of_table ? kNoiseRows : kNoiseFields;
    return make_noise(limit > 0 ? limit : usual, data.dt, split, want);
  }
  if (want.of_table) return open_table(data, path, split, want, known);

  const bool tail = split == Split::valid && path.empty();  // the end of data.train validates
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

}  // namespace isobar
