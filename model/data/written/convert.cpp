#include "model/data/written/convert.h"

#include <netcdf.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "model/base/error.h"
#include "model/base/text/progress.h"
#include "model/data/cf/dates.h"
#include "model/data/files/foreign.h"
#include "model/data/files/library_lock.h"
#include "model/data/files/netcdf/hdf5_writer.h"
#include "model/data/written/netcdf_output.h"

namespace isobar::data {

namespace {

/// The interface that all output formats share: append steps, then finish.
struct Sink {
  std::function<void(const float*)> append;
  std::function<void()> finish;
};

Sink zarr_sink(const std::string& out, const FieldInfo& info, const ConvertOptions& o) {
  ZarrLayout layout = o.chunks;
  layout.version = o.format == "zarr3" ? 3 : 2;
  const auto writer = std::make_shared<ZarrWriter>(out, info, layout);
  return {[=](const float* x) { writer->append(x); }, [=] { writer->finish(); }};
}

Sink hdf5_sink(const std::string& out, const FieldInfo& info) {
  const auto writer =
      std::make_shared<FieldsWriter>(out, info.steps, info.shape, info.channels, info.units, 0);
  const auto step = std::make_shared<int64_t>(0);
  const FieldInfo of = info;
  const auto append = [=](const float* x) {
    const float* gap = std::find_if(x, x + of.shape.size(), [](float v) { return std::isnan(v); });
    if (gap != x + of.shape.size())
      throw ConfigError(of.path, "",
                        "time step " + std::to_string(*step) + ", channel '" +
                            of.channels[(gap - x) / (of.shape.height * of.shape.width)] +
                            "': a value is missing, and HDF5 fields have no way to say so",
                        "write Zarr or NetCDF, or fill them: --mask fill");
    writer->append(x);
    ++*step;
  };
  return {append, [=] { writer->finish(); }};
}

class NetcdfSink {
 public:
  NetcdfSink(const std::string& path, const FieldInfo& info, bool classic)
      : out_(path, classic), info_(info) {
    const LibraryLock lock;
    const int time = out_.dimension("time", info.steps), y = out_.dimension("latitude", info.shape.height),
              x = out_.dimension("longitude", info.shape.width);
    const int times = out_.coordinate("time", time, info.time_units, info.times);
    if (times >= 0 && !info.calendar.empty()) out_.text(times, "calendar", info.calendar);
    out_.coordinate("latitude", y, "degrees_north", info.latitude);
    out_.coordinate("longitude", x, "degrees_east", info.longitude);
    for (size_t c = 0; c < info.channels.size(); ++c) {
      const int v = out_.variable(info.channels[c], NC_FLOAT, {time, y, x});
      out_.fill_value(v, std::nanf(""));
      if (!info.units.empty()) out_.text(v, "units", info.units[c]);
      variables_.push_back(v);
    }
    out_.end_header();
  }
  void append(const float* fields) {
    const LibraryLock lock;
    const int64_t H = info_.shape.height, W = info_.shape.width;
    const size_t start[3] = {written_++, 0, 0},
                 count[3] = {1, static_cast<size_t>(H), static_cast<size_t>(W)};
    for (size_t c = 0; c < variables_.size(); ++c)
      out_.check(
          nc_put_vara_float(out_.id(), variables_[c], start, count, fields + static_cast<int64_t>(c) * H * W),
          "write a field");
  }
  void finish() { out_.finish(); }

 private:
  NetcdfOutput out_;
  FieldInfo info_;
  std::vector<int> variables_;
  size_t written_ = 0;
};

Sink sink_of(const std::string& out, const FieldInfo& info, const ConvertOptions& o) {
  if (o.format.starts_with("zarr")) return zarr_sink(out, info, o);
  if (o.format == "hdf5") return hdf5_sink(out, info);
  const auto netcdf = std::make_shared<NetcdfSink>(out, info, o.format == "netcdf3");
  return {[=](const float* x) { netcdf->append(x); }, [=] { netcdf->finish(); }};
}

/// Joins the times of all files on one axis: unchanged when units and calendars agree, else since 1970.
void join_times(const FieldFiles& files, FieldInfo& info) {
  bool alike = true, any_times = false;
  for (const auto& file : files) {
    const FieldInfo& f = file->info();
    alike = alike && f.time_units == info.time_units && f.calendar == info.calendar;
    any_times = any_times || !f.times.empty();
  }
  info.times.clear();
  if (!any_times) return;
  const std::optional<Calendar> calendar = calendar_of(info.calendar);
  for (const auto& file : files) {
    const FieldInfo& f = file->info();
    const TimeScale scale = time_scale(f.time_units, f.calendar);
    const bool as_it_is = alike && !f.times.empty();
    const bool same_days =
        scale.unread.empty() && calendar &&
        (scale.calendar == calendar || (of_real_days(scale.calendar) && of_real_days(*calendar)));
    if (!as_it_is && (f.times.empty() || !same_days))
      throw ConfigError(f.path, "", "its times cannot be joined to those of " + info.path,
                        "convert files that count times alike, or one at a time");
    for (const double t : f.times) info.times.push_back(as_it_is ? t : scale.seconds(t).value_or(0) / 3600);
  }
  if (alike) return;
  info.time_units = "hours since 1970-01-01 00:00:00";
  if (of_real_days(*calendar)) info.calendar = "proleptic_gregorian";
}

}  // namespace

void convert(const std::string& path, const FieldChoice& choice, const std::string& out,
             const ConvertOptions& o) {
  if (std::filesystem::exists(out))
    throw ConfigError(out, "", "is there already", "remove it, or name another place");
  constexpr int64_t kThousandths = 1000;
  Progress bar("convert", kThousandths, o.show_progress);
  const auto work = [&](const FieldFiles& files, const ChildProgress& done) {
    FieldInfo info = files[0]->info();
    for (size_t i = 1; i < files.size(); ++i) info.steps += files[i]->info().steps;
    join_times(files, info);
    const Sink sink = sink_of(out, info, o);
    std::vector<float> fields(static_cast<size_t>(info.shape.size()));
    int64_t written = 0;
    for (const auto& file : files)
      for (int64_t t = 0; t < file->info().steps; ++t) {
        // mask = "fill" replaces missing values; otherwise missing and masked points stay missing.
        if (choice.mask == "fill")
          file->read(t, info.shape, nullptr, fields.data());
        else
          file->read_with_gaps(t, info.shape, fields.data());
        sink.append(fields.data());
        done(++written * kThousandths / info.steps);
      }
    sink.finish();
    return std::string();
  };
  read_foreign(path, "", choice, work, [&](int64_t n) { bar.update(n); });
  bar.finish();
}

}  // namespace isobar::data
