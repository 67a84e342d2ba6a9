#include "model/data/fields/field_file.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/data/cf/joined_times.h"
#include "model/data/choice/selection.h"
#include "model/data/fields/channels.h"
#include "model/data/fields/static_fields.h"
#include "model/data/files/netcdf/hdf5_array.h"
#include "model/data/files/zarr/zarr_store.h"
#include "model/data/statistics/normalise.h"

namespace isobar::data {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kCacheBytes = 64 << 20;

enum class Format : uint8_t { hdf5, netcdf, zarr, npz, grib };

/// Refuses a file that was compressed whole: readers need any part of it at any time.
void require_unpacked(const fs::path& path, const std::string& key, const std::string& head) {
  const struct {
    const char *magic, *name, *command;
  } known[] = {{"\x1f\x8b", "gzip", "gunzip"},
               {"BZh", "bzip2", "bunzip2"},
               {"\xfd"
                "7zXZ",
                "xz", "unxz"},
               {"\x28\xb5\x2f\xfd", "zstd", "unzstd"}};
  for (const auto& k : known)
    if (head.starts_with(k.magic))
      throw ConfigError(path, key, std::string("is compressed whole by ") + k.name,
                        std::string("unpack it: ") + k.command + " -k " + path.filename().string());
}

Format format_of(const fs::path& path, const std::string& key) {
  char magic[8] = "";
  if (fs::is_directory(path) || is_zarr(path)) return Format::zarr;
  const InputFile file(path, key);
  if (file.size() == 0) throw ConfigError(path, key, "is empty", "copy or download it again");
  const std::string head(magic, std::max<ssize_t>(0, ::pread(file.fd(), magic, sizeof magic, 0)));
  if (head.starts_with("CDF")) return Format::netcdf;
  if (head.starts_with("\x89HDF")) return has_nersc_layout(path) ? Format::hdf5 : Format::netcdf;
  if (head.starts_with("GRIB")) return Format::grib;
  if (head.starts_with("PK") && path.extension() == ".npz") return Format::npz;
  if (head.starts_with("PK"))
    throw ConfigError(
        path, key,
        "is a ZIP archive with no Zarr group at its root (the Copernicus store packs several streams so)",
        "unzip it and name the .nc file, or the Zarr folder, in it");
  require_unpacked(path, key, head);
  throw ConfigError(path, key, "is neither HDF5 nor NetCDF nor GRIB, nor a Zarr store nor .npz",
                    "give a .h5, .nc, .grib or .npz file, a Zarr directory or zip, or a directory of them");
}

std::vector<fs::path> list(const fs::path& dir, const std::string& key,
                           std::initializer_list<const char*> extensions) {
  std::vector<fs::path> found;
  std::error_code error;
  const fs::directory_iterator entries(dir, error);
  if (error) throw ConfigError(dir, key, "cannot be read: " + error.message(), "check its permissions");
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename(), ext = entry.path().extension();
    const bool wanted =
        std::any_of(extensions.begin(), extensions.end(), [&](const char* e) { return ext == e; });
    if (wanted && !name.starts_with('.')) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> paths_of_part(const std::string& path, const std::string& key) {
  std::error_code unknown;
  const fs::file_status about = fs::status(path, unknown);
  if (about.type() == fs::file_type::not_found)
    throw ConfigError(
        path, key, "no such file or directory",
        "check the path (relative paths start in the working directory), or make data: isobar data make");
  if (!fs::is_directory(about) || is_zarr(path)) return {path};
  auto files = list(path, key, {".h5", ".hdf5"});
  if (files.empty()) files = list(path, key, {".nc", ".nc4"});
  if (files.empty()) files = list(path, key, {".grib", ".grb", ".grib2", ".grb2"});
  if (files.empty()) files = list(path, key, {".zarr", ".zip"});
  if (files.empty()) files = list(path, key, {".npz"});
  if (files.empty())
    throw ConfigError(path, key, "the directory holds no .h5, .nc or .grib file, no .npz and no Zarr store",
                      "name the directory that holds the yearly files, for instance .../train");
  return files;
}

std::string text(FieldShape s) {
  return std::to_string(s.channels) + " channels on " + std::to_string(s.height) + " x " +
         std::to_string(s.width);
}

}  // namespace

namespace {

void require_same_units(const FieldInfo& a, const FieldInfo& b) {
  for (size_t c = 0; c < std::min(a.units.size(), b.units.size()); ++c) {
    const std::string &one = a.units[c], &other = b.units[c];
    if (same_unit(one, other)) continue;
    throw ConfigError(b.path, b.key,
                      "'" + b.channels[c] + "' is in '" + other + "', and in " + a.path + " in '" + one + "'",
                      "convert one of them, or mend the attribute units: ncap2, ncatted");
  }
}

std::string ends_of(const std::vector<double>& axis) {
  if (axis.empty()) return "unknown";
  char text[64];
  std::snprintf(text, sizeof text, "%.6g to %.6g", axis.front(), axis.back());
  return text;
}

}  // namespace

std::string other_grid(const FieldInfo& a, const FieldInfo& b) {
  const auto size = [](const FieldInfo& f) {
    return std::to_string(f.shape.height) + " x " + std::to_string(f.shape.width);
  };
  if (a.shape.height != b.shape.height || a.shape.width != b.shape.width)
    return "its grid of " + size(b) + " is not that of " + a.path + ", " + size(a);
  if (!same_axis(a.latitude, b.latitude))
    return "its latitudes are " + ends_of(b.latitude) + ", and those of " + a.path + " " +
           ends_of(a.latitude);
  if (!same_longitudes(a.longitude, b.longitude))
    return "its longitudes are " + ends_of(b.longitude) + ", and those of " + a.path + " " +
           ends_of(a.longitude);
  return same_axis(a.grid_identity, b.grid_identity)
             ? ""
             : "its grid of " + size(b) + " has other coordinates than that of " + a.path;
}

void FieldFile::fail(int64_t t, int64_t c, const std::string& what, const std::string& mend) const {
  std::string where = "time step " + std::to_string(t);
  if (c >= 0) where += ", channel '" + info_.channels[c] + "'";
  throw ConfigError(info_.path, info_.key, where + ": " + what, mend);
}

bool FieldFile::finish_stretch(int64_t t, int64_t c, const GridWindow& window, const Statistics* norm,
                               float* planes, Stretch s) const {
  const int64_t plane = window.height * window.width;
  const bool scale = norm && !norm->mean.empty();
  bool filled = false;
  while (s.n > 0) {
    const int64_t of = s.first / plane, n = std::min(s.n, (of + 1) * plane - s.first);
    float* const x = planes + s.first;
    Finish how{.swapped = s.swapped, .fill = s.fill};
    if (scale) how.scale = true, how.mean = norm->mean[c + of], how.std = norm->std[c + of];
    const Finished done = finish(x, n, how);
    filled = filled || done.filled;
    if (!done.finite) {
      // Statistics are finite and std is not zero, so a value that was not finite still is not.
      const auto bad = std::find_if(x, x + n, [](float v) { return !std::isfinite(v); }) - x;
      const int64_t at = s.first % plane + bad;
      fail(t, c + of,
           std::string(std::isnan(x[bad]) ? "NaN" : "an infinite value") + " at row " +
               std::to_string(window.row + at / window.width) + ", column " +
               std::to_string(window.column + at % window.width),
           std::isnan(x[bad])
               ? "training needs complete fields: fill or drop this step, or say data.mask: missing"
               : kInfinityMend);
    }
    s.first += n, s.n -= n;
  }
  return filled;
}

std::vector<std::string> field_parts(const std::string& path) {
  std::error_code unknown;
  if (path.find(',') == std::string::npos || fs::exists(path, unknown)) return {path};
  std::vector<std::string> parts;
  std::istringstream in(path);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

std::vector<fs::path> field_paths(const std::string& path, const std::string& key) {
  std::vector<fs::path> all;
  for (const std::string& part : field_parts(path))
    for (fs::path& p : paths_of_part(part, key)) all.push_back(std::move(p));
  return all;
}

void require_sizes(const std::string& path, const std::string& key, int64_t steps, FieldShape shape) {
  const struct {
    const char* name;
    int64_t has, most;
  } extents[] = {{"time steps", steps, int64_t{1} << 25},  // hourly: 3,800 years
                 {"channels", shape.channels, int64_t{1} << 16},
                 {"rows", shape.height, int64_t{1} << 18},  // 150 m on the globe
                 {"columns", shape.width, int64_t{1} << 18}};
  for (const auto& e : extents) {
    if (e.has < 1)
      throw ConfigError(path, key, std::string("holds no ") + e.name, "give a file that holds some");
    if (e.has > e.most)
      throw ConfigError(path, key,
                        "declares " + std::to_string(e.has) + " " + e.name + "; up to " +
                            std::to_string(e.most) + " are read",
                        "cut it into smaller files, or copy it again if it should be small");
  }
}

FieldFiles open_series(const std::string& path, const std::string& key, const NamedFields& variables,
                       const std::shared_ptr<ChunkCache>& cache, const std::function<void(size_t)>& opening) {
  FieldFiles files;
  for (const fs::path& p : paths_of_part(path, key)) {
    if (opening) opening(files.size());
    const Format format = format_of(p, key);
    if (format != Format::hdf5 && !variables.given.empty())
      throw ConfigError(p, "data.channel_names", "is of HDF5 `fields`, and this file has names of its own",
                        "leave it out, or choose by data.variables");
    auto file = format == Format::hdf5 ? open_hdf5_fields(p, key, cache, variables.given)
                                       : open_cf_fields(p, key, variables, cache);
    if (!files.empty()) {
      const FieldInfo &a = files[0]->info(), &b = file->info();
      if (text(a.shape) != text(b.shape) || a.channels != b.channels)
        throw ConfigError(b.path, key,
                          text(b.shape) + ", but " + a.path + " has " + text(a.shape) +
                              (a.channels != b.channels ? ", or other names" : ""),
                          "keep only files of one kind there");
      if (const std::string other = other_grid(a, b); !other.empty())
        throw ConfigError(b.path, key, other,
                          "keep only files of one grid there, or put all on one: cdo remapbil");
      require_same_units(a, b);
    }
    files.push_back(std::move(file));
  }
  return files;
}

FieldFiles open_fields(const std::string& path, const std::string& key, const FieldChoice& choice,
                       const std::function<void(size_t)>& opening) {
  const auto cache = std::make_shared<ChunkCache>(kCacheBytes);
  const std::vector<std::string> parts = field_parts(path), names = expand_levels(choice.variables);
  std::vector<FieldFiles> all;
  size_t opened = 0;
  for (const std::string& part : parts) {
    all.push_back(open_series(part, key, {names, parts.size() > 1, choice.channel_names}, cache,
                              [&](size_t) { return opening ? opening(opened++) : void(); }));
  }
  const bool hdf5 = all[0][0]->info().format.starts_with("HDF5");
  const bool series = all[0].size() > 1 && std::all_of(all[0].begin(), all[0].end(),
                                                       [](const auto& f) { return tells_time(f->info()); });
  if (all.size() == 1 && choice.takes_all() && !series && (names.empty() || !hdf5)) return std::move(all[0]);
  return select_fields(std::move(all), path, key, choice);
}

std::vector<TimeSegment> segments_of(const FieldFiles& files) {
  std::vector<TimeSegment> out;
  for (const auto& file : files) {
    const FieldInfo& info = file->info();
    int64_t first = 0;
    if (!info.time_unread.empty()) {
      for (int64_t t = 0; t < info.steps; ++t) out.push_back({file.get(), t, 1});
      continue;
    }
    if (info.times.size() > 2) {
      std::vector<double> gaps;
      for (size_t t = 1; t < info.times.size(); ++t) gaps.push_back(info.times[t] - info.times[t - 1]);
      std::vector<double> sorted = gaps;
      const auto middle = sorted.begin() + static_cast<int64_t>(sorted.size() / 2);
      std::nth_element(sorted.begin(), middle, sorted.end());
      for (size_t i = 0; i < gaps.size(); ++i) {
        if (gaps[i] <= 1.5 * *middle && 1.5 * gaps[i] >= *middle) continue;
        out.push_back({file.get(), first, static_cast<int64_t>(i) + 1 - first});
        first = static_cast<int64_t>(i) + 1;
      }
    }
    out.push_back({file.get(), first, info.steps - first});
  }
  return out;
}

std::vector<TimeSegment> split_in_time(const std::vector<TimeSegment>& all, double fraction, Split split) {
  int64_t total = 0;
  for (const TimeSegment& s : all) total += s.steps;
  const auto cut = static_cast<int64_t>(std::floor(static_cast<double>(total) * fraction + 1e-9));
  const int64_t low = split == Split::train ? 0 : cut, high = split == Split::train ? cut : total;
  std::vector<TimeSegment> out;
  int64_t at = 0;  // steps before this segment
  for (const TimeSegment& s : all) {
    const int64_t from = std::max(low, at), to = std::min(high, at + s.steps);
    if (from < to) out.push_back({s.file, s.first + from - at, to - from});
    at += s.steps;
  }
  return out;
}

}  // namespace isobar::data
