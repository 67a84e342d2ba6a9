#include "model/data/choice/selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "model/base/error.h"
#include "model/base/text/joined.h"
#include "model/data/cf/dates.h"
#include "model/data/cf/joined_times.h"
#include "model/data/fields/channels.h"
#include "model/data/fields/forcings.h"
#include "model/data/fields/static_fields.h"

namespace isobar::data {

namespace {

constexpr float kGap = std::numeric_limits<float>::quiet_NaN();
constexpr float kThere = 0.5f;  // least mask value of a valid point; land-sea masks are fractions

struct Taken {  // source of a channel of the selection
  size_t part;
  int64_t channel;
};

class SelectedFields : public FieldFile {
 public:
  /// `parts` with chosen steps (choose_times).
  SelectedFields(std::vector<Series> parts, const std::string& path, const std::string& key,
                 const FieldChoice& choice);
  void try_library(int64_t most_bytes, const std::function<void()>& alive) const override;
  void read_and_tell(int64_t t, FieldShape crop, const Statistics* norm, float* out,
                     float* there) const override;

 private:
  void take_channels();
  void require_one_grid() const;
  void require_degrees() const;
  void add_still(const std::string& path);
  void add_times();
  void name_channel(const std::string& name, const std::string& unit);
  void read_step(int64_t t, const GridWindow& window, const Statistics* norm, float* out,
                 bool gaps) const override;
  void read_part(size_t part, int64_t t, const GridWindow& window, float* out) const;
  void fill_gaps(int64_t t, int64_t c, const GridWindow& window, const Statistics* norm, float* plane) const;
  void refuse_infinities(int64_t t, int64_t fields, const GridWindow& window, const float* out) const;
  const FieldInfo& first() const { return parts_[0].files[0]->info(); }

  std::vector<Series> parts_;
  FieldChoice choice_;
  ChosenGrid grid_;
  std::vector<Taken> taken_;
  std::vector<StaticField> still_;
  std::vector<float> mask_;  // [height, width]; empty: no mask
};

SelectedFields::SelectedFields(std::vector<Series> parts, const std::string& path, const std::string& key,
                               const FieldChoice& choice)
    : parts_(std::move(parts)), choice_(choice) {
  info_.path = path;
  info_.key = key;
  info_.format =
      parts_.size() == 1 ? first().format + (choice_.takes_all() ? "" : ", chosen") : "several files, joined";
  require_one_grid();
  grid_ = choose_grid(first(), choice_);
  info_.latitude = grid_.latitude, info_.longitude = grid_.longitude;
  info_.layout = first().layout;
  info_.no_degrees = first().no_degrees, info_.remark = first().remark;
  if (choice_.region.empty()) info_.area = first().area, info_.area_of = first().area_of;
  for (const Series& s : parts_)
    for (const std::string& one : s.files[0]->info().left_out)
      info_.left_out.push_back(parts_.size() == 1 ? one : s.files[0]->info().path + ": " + one);
  require_degrees();
  info_.steps_per_chunk = first().steps_per_chunk;
  info_.masked = !choice_.mask.empty();
  take_channels();
  add_still(path);
  for (const std::string& name : forcing_channels(choice_.forcings)) name_channel(name, "1");
  const auto fields = static_cast<int64_t>(taken_.size());
  const auto all = static_cast<int64_t>(info_.channels.size());
  info_.inputs_alone = all - fields;
  info_.shape = {all, grid_.height(), grid_.width()};
  info_.steps = static_cast<int64_t>(parts_[0].steps.size());
  require_sizes(info_.path, info_.key, info_.steps, info_.shape);
  const std::set<std::string> unique(info_.channels.begin(), info_.channels.end());
  if (unique.size() != info_.channels.size())
    throw ConfigError(path, "data.variables", "two channels have one name among " + joined(info_.channels),
                      "name each once, or choose one of the files that have it");
  add_times();
}

void SelectedFields::name_channel(const std::string& name, const std::string& unit) {
  info_.channels.push_back(name);
  info_.variables.push_back(name);
  info_.units.push_back(unit);
}

void SelectedFields::require_one_grid() const {
  const FieldInfo& a = first();
  for (const Series& s : parts_) {
    const FieldInfo& b = s.files[0]->info();
    if (const std::string other = other_grid(a, b); !other.empty())
      throw ConfigError(b.path, info_.key, other, "put both on one grid: cdo remapbil, or ncks");
  }
}

/// Refuses forcings that depend on a point's position when degrees are unknown.
void SelectedFields::require_degrees() const {
  const bool wanted = std::any_of(choice_.forcings.begin(), choice_.forcings.end(),
                                  [](const std::string& f) { return f != "day_of_year"; });
  if (!wanted || (!grid_.latitude.empty() && !grid_.longitude.empty())) return;
  throw ConfigError(
      info_.path, "data.forcings",
      first().no_degrees.empty() ? "the file does not say where its rows and columns lie"
                                 : first().no_degrees,
      "put it on rows of latitude and columns of longitude (cdo remapbil), or choose day_of_year");
}

void SelectedFields::take_channels() {
  const auto take = [&](size_t part, int64_t channel) {
    const FieldInfo& of = parts_[part].files[0]->info();
    taken_.push_back({part, channel});
    name_channel(of.channels[channel], of.units.empty() ? "" : of.units[channel]);
    info_.variables.back() = of.variables.empty() ? of.channels[channel] : of.variables[channel];
  };
  const auto each = [&](const auto& visit) {
    for (size_t p = 0; p < parts_.size(); ++p)
      for (int64_t c = 0; c < parts_[p].files[0]->info().shape.channels; ++c)
        visit(p, c, parts_[p].files[0]->info());
  };
  const std::vector<std::string> names = expand_levels(choice_.variables);
  if (names.empty()) return each([&](size_t p, int64_t c, const FieldInfo&) { take(p, c); });
  for (const std::string& name : names) {
    const size_t before = taken_.size();
    each([&](size_t p, int64_t c, const FieldInfo& of) {
      if (of.channels[c] == name || (!of.variables.empty() && of.variables[c] == name)) take(p, c);
    });
    if (taken_.size() > before) continue;
    std::vector<std::string> has;
    each([&](size_t, int64_t c, const FieldInfo& of) { has.push_back(of.channels[c]); });
    throw ConfigError(info_.path, "data.variables", "no field '" + name + "'",
                      "the fields are: " + joined(has));
  }
}

void SelectedFields::add_still(const std::string& path) {
  if (choice_.static_fields.empty() && !choice_.masks_by_a_variable()) return;
  std::vector<std::filesystem::path> files;
  if (!choice_.static_file.empty()) {
    files = field_paths(choice_.static_file, "data.static_file");
  } else {
    for (const std::filesystem::path& p : field_paths(path, info_.key))
      if (p.extension() != ".h5" && p.extension() != ".hdf5") files.push_back(p);
  }
  for (const std::string& name : choice_.static_fields) {
    StaticField field = read_static_field(files, "data.static_fields", name, first(), grid_);
    if (choice_.mask.empty() &&
        std::any_of(field.values.begin(), field.values.end(), [](float x) { return !std::isfinite(x); }))
      throw ConfigError(path, "data.static_fields", "'" + name + "' has missing values",
                        "fill them, or say data.mask: missing");
    name_channel(name, field.units);
    still_.push_back(std::move(field));
  }
  if (choice_.masks_by_a_variable())
    mask_ = read_static_field(files, "data.mask", choice_.mask, first(), grid_).values;
}

void SelectedFields::add_times() {
  if (std::isnan(parts_[0].steps[0].seconds)) {  // one file without times, taken whole
    info_.times = first().times, info_.time_units = first().time_units, info_.calendar = first().calendar;
    info_.time_unread = first().time_unread;
    return;
  }
  info_.time_units = "hours since 1970-01-01 00:00:00";
  // Seconds since 1970 agree in the standard and the proleptic Gregorian calendar; 1970-01-01 is another day
  // in the Julian one.
  const Calendar calendar = *calendar_of(first().calendar);
  const bool real = of_real_days(calendar), before_1582 = parts_[0].steps[0].seconds < -141427 * 86400.0;
  info_.calendar = !real                                           ? first().calendar
                   : calendar == Calendar::standard && before_1582 ? "standard"
                                                                   : "proleptic_gregorian";
  for (const Series::Step& s : parts_[0].steps) info_.times.push_back(s.seconds / 3600);
}

/// All channels of a part at one step: out [channels, window.height, window.width].
void SelectedFields::read_part(size_t part, int64_t t, const GridWindow& window, float* out) const {
  const Series::Step& at = parts_[part].steps[t];
  const int64_t channels = at.file->info().shape.channels, stride = grid_.stride;
  const int64_t rows = (window.height - 1) * stride + 1;
  const int64_t low = window.column * stride, high = (window.column + window.width - 1) * stride + 1;
  thread_local std::vector<float> read;
  int64_t before = 0;  // columns of earlier runs
  for (const ChosenGrid::Run& run : grid_.runs) {
    const int64_t from = std::max(low, before), to = std::min(high, before + run.count);
    if (from < to) {
      const int64_t columns = to - from;
      read.resize(static_cast<size_t>(channels * rows * columns));
      at.file->read_with_gaps(at.step,
                              {.row = grid_.first_row + window.row * stride,
                               .column = run.first + from - before,
                               .height = rows,
                               .width = columns},
                              read.data());
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < window.height; ++i) {
          const float* line = read.data() + (c * rows + i * stride) * columns;
          float* to_line = out + (c * window.height + i) * window.width;
          for (int64_t j = (from + stride - 1) / stride; j * stride < to; ++j)
            to_line[j - window.column] = line[j * stride - from];
        }
    }
    before += run.count;
  }
}

void SelectedFields::read_step(int64_t t, const GridWindow& window, const Statistics* norm, float* out,
                               bool gaps) const {
  const int64_t plane = window.height * window.width;
  thread_local std::vector<float> of_part;
  for (size_t p = 0; p < parts_.size(); ++p) {
    of_part.resize(static_cast<size_t>(parts_[p].files[0]->info().shape.channels * plane));
    read_part(p, t, window, of_part.data());
    for (size_t c = 0; c < taken_.size(); ++c)
      if (taken_[c].part == p)
        std::copy_n(of_part.data() + taken_[c].channel * plane, plane, out + static_cast<int64_t>(c) * plane);
  }
  float* at = out + static_cast<int64_t>(taken_.size()) * plane;
  for (const StaticField& s : still_) {
    for (int64_t i = 0; i < window.height; ++i)
      std::copy_n(s.values.data() + (window.row + i) * grid_.width() + window.column, window.width,
                  at + i * window.width);
    at += plane;
  }
  const auto from = [](const std::vector<double>& of, int64_t n) {
    return std::vector<double>(of.begin() + std::min<int64_t>(n, static_cast<int64_t>(of.size())), of.end());
  };
  if (!choice_.forcings.empty())
    compute_forcings(choice_.forcings, parts_[0].steps[t].seconds, from(grid_.latitude, window.row),
                     from(grid_.longitude, window.column), window.height, window.width, at);
  const auto fields = static_cast<int64_t>(taken_.size());
  for (int64_t c = 0; c < fields && !mask_.empty(); ++c)
    for (int64_t i = 0; i < plane; ++i)
      if (!(mask_[(window.row + i / window.width) * grid_.width() + window.column + i % window.width] >=
            kThere))
        out[c * plane + i] = kGap;
  if (!choice_.mask.empty()) refuse_infinities(t, fields, window, out);
  for (int64_t c = 0; c < info_.shape.channels && !gaps; ++c) fill_gaps(t, c, window, norm, out + c * plane);
}

// Statistics of what is there would be of no number, and a loss as well.
void SelectedFields::refuse_infinities(int64_t t, int64_t fields, const GridWindow& window,
                                       const float* out) const {
  const int64_t plane = window.height * window.width;
  const float* const end = out + fields * plane;
  const float* const bad = std::find_if(out, end, [](float x) { return std::isinf(x); });
  if (bad == end) return;
  const int64_t at = (bad - out) % plane;
  fail(t, (bad - out) / plane,
       "an infinite value at row " + std::to_string(window.row + at / window.width) + ", column " +
           std::to_string(window.column + at % window.width),
       kInfinityMend);
}

void SelectedFields::read_and_tell(int64_t t, FieldShape crop, const Statistics* norm, float* out,
                                   float* there) const {
  const GridWindow window{.height = crop.height, .width = crop.width};
  read_step(t, window, nullptr, out, true);
  for (int64_t i = 0; i < crop.size(); ++i) there[i] = std::isnan(out[i]) ? 0.0f : 1.0f;
  for (int64_t c = 0; c < crop.channels; ++c)
    fill_gaps(t, c, window, norm, out + c * crop.height * crop.width);
}

/// Fills masked or missing points with the mean of the statistics, or of the valid points if there are none.
/// Normalises the others; throws for missing points that no mask covers.
void SelectedFields::fill_gaps(int64_t t, int64_t c, const GridWindow& window, const Statistics* norm,
                               float* plane) const {
  const int64_t n = window.height * window.width;
  if (choice_.mask.empty()) return finish_plane(t, c, window, norm, plane);
  float mean = 0;
  if (norm && !norm->mean.empty()) {
    mean = norm->mean[c];
  } else {
    double sum = 0, there = 0;
    for (int64_t i = 0; i < n; ++i)
      if (!std::isnan(plane[i])) sum += static_cast<double>(plane[i]), ++there;
    mean = there > 0 ? static_cast<float>(sum / there) : 0;
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t point = (window.row + i / window.width) * grid_.width() + window.column + i % window.width;
    if (std::isnan(plane[i]) && (mask_.empty() || !(mask_[point] >= kThere))) plane[i] = mean;
  }
  finish_plane(t, c, window, norm, plane);
}

void SelectedFields::try_library(int64_t most_bytes, const std::function<void()>& alive) const {
  size_t files = 0;
  for (const Series& s : parts_) files += s.files.size();
  for (const Series& s : parts_)
    for (const auto& file : s.files) file->try_library(most_bytes / static_cast<int64_t>(files), alive);
}

}  // namespace

FieldFiles select_fields(std::vector<FieldFiles> parts, const std::string& path, const std::string& key,
                         const FieldChoice& choice) {
  std::vector<Series> series;
  if (parts.size() == 1 &&
      !std::all_of(parts[0].begin(), parts[0].end(), [](const auto& f) { return tells_time(f->info()); })) {
    FieldFiles out;
    for (auto& file : parts[0]) {
      series.clear();
      const std::string name = file->info().path;
      series.emplace_back().files.push_back(std::move(file));
      choose_times(series, choice, key);
      out.push_back(std::make_unique<SelectedFields>(std::move(series), name, key, choice));
    }
    return out;
  }
  for (FieldFiles& files : parts) series.push_back({.files = std::move(files)});
  choose_times(series, choice, key);
  FieldFiles one;
  one.push_back(std::make_unique<SelectedFields>(std::move(series), path, key, choice));
  return one;
}

}  // namespace isobar::data
