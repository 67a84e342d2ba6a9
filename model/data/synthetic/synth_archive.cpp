#include "model/data/synthetic/synth_archive.h"

#include <netcdf.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <numbers>

#include "model/base/error.h"
#include "model/base/rng.h"
#include "model/base/text/progress.h"
#include "model/data/files/library_lock.h"
#include "model/data/files/zarr/zarr_writer.h"
#include "model/data/synthetic/synth.h"
#include "model/data/written/netcdf_output.h"

namespace isobar::data {

const std::vector<int64_t>& archive_levels() {
  static const std::vector<int64_t> levels = {50,  100, 150, 200, 250, 300, 400,
                                              500, 600, 700, 850, 925, 1000};
  return levels;
}

namespace {

namespace fs = std::filesystem;

constexpr double kHoursBetween = 6;
constexpr float kNotThere = std::numeric_limits<float>::quiet_NaN();
constexpr uint64_t kLandSeed = 0x6c616e64, kCloudSeed = 0x636c6f7564;
enum AirChannel : int64_t {  // index into default_channel_names
  kU10 = 0,
  kV10 = 1,
  kT2m = 2,
  kMsl = 4,
  kT850 = 5,
  kU1000 = 6,
  kV1000 = 7,
  kZ1000 = 8,
  kU850 = 9,
  kV850 = 10,
  kZ850 = 11,
  kU500 = 12,
  kV500 = 13,
  kZ500 = 14,
  kT500 = 15,
  kZ50 = 16,
  kR500 = 17,
  kR850 = 18,
  kAirChannels = 20
};

struct ArchiveField {
  const char *name, *units;
};
constexpr ArchiveField kUpper[] = {
    {"z", "m**2 s**-2"}, {"u", "m s**-1"}, {"v", "m s**-1"}, {"t", "K"}, {"q", "kg kg**-1"}};
constexpr ArchiveField kSingle[] = {{"t2m", "K"},  {"u10", "m s**-1"}, {"v10", "m s**-1"},
                                    {"msl", "Pa"}, {"siconc", "1"},    {"sst", "K"}};
constexpr ArchiveField kStill[] = {{"lsm", "1"}, {"ocean", "1"}, {"orography", "m"}};

// ---- the fields ----

struct Anchor {  // a known value at a level
  double hpa, value;
};
// Interpolates linearly in ln p; constant beyond the outermost anchors
double between(std::initializer_list<Anchor> from_below, double hpa) {
  const Anchor* before = from_below.begin();
  for (const Anchor& a : from_below) {
    if (hpa >= a.hpa) {
      if (&a == before || hpa >= before->hpa) return a.value;
      const double share = std::log(before->hpa / hpa) / std::log(before->hpa / a.hpa);
      return before->value + share * (a.value - before->value);
    }
    before = &a;
  }
  return before->value;
}

// The variables of kUpper at a level, from the atmosphere's channels at the point
void upper_at(double hpa, const std::function<double(int64_t)>& air, double* out) {
  const double above = std::log(std::max(1.0, 500 / hpa)), jet = 1 + std::min(0.6, 0.5 * above);
  out[0] = between({{1000, air(kZ1000)}, {850, air(kZ850)}, {500, air(kZ500)}, {50, air(kZ50)}}, hpa);
  out[1] = jet * between({{1000, air(kU1000)}, {850, air(kU850)}, {500, air(kU500)}}, hpa);
  out[2] = jet * between({{1000, air(kV1000)}, {850, air(kV850)}, {500, air(kV500)}}, hpa);
  const double t500 = air(kT500), below = between({{1000, air(kT2m)}, {850, air(kT850)}, {500, t500}}, hpa);
  const double t =
      hpa >= 500 ? below : std::max(t500 - 35 * above, 205 + 0.3 * (t500 - 250));  // a tropopause
  out[3] = t;
  const double humidity = std::clamp(between({{850, air(kR850)}, {500, air(kR500)}}, hpa), 5.0, 100.0) / 100 *
                          std::pow(std::min(1.0, hpa / 500), 1.5);                // dry above
  const double saturated = 6.112 * std::exp(17.67 * (t - 273.15) / (t - 29.65));  // hPa (Bolton 1980)
  out[4] = humidity * 0.622 * saturated / (hpa - std::min(0.5 * hpa, 0.378 * saturated));
}

class ArchiveWorld {
 public:
  explicit ArchiveWorld(const ArchiveOptions& o)
      : options_(o),
        points_(o.height * o.width),
        atmosphere_({kAirChannels, o.height, o.width}, o.seed),
        air_(static_cast<size_t>(kAirChannels * points_)) {
    double phase[4];
    for (uint64_t k = 0; k < 4; ++k) phase[k] = 2 * std::numbers::pi * uniform(o.seed, kLandSeed, k);
    for (int64_t i = 0; i < points_; ++i) {
      const double lat = std::numbers::pi *
                         (0.5 - (static_cast<double>(i / o.width) + 0.5) / static_cast<double>(o.height)),
                   lon =
                       2 * std::numbers::pi * static_cast<double>(i % o.width) / static_cast<double>(o.width);
      const double height = std::cos(2 * lon + phase[0]) * std::cos(lat) + std::cos(3 * lat + phase[1]) +
                            std::cos(3 * lon + 2 * lat + phase[2]) + std::cos(5 * lon - 3 * lat + phase[3]);
      land_.push_back(height > 0.7 ? 1.0f : 0.0f);
      orography_.push_back(height > 0.7 ? static_cast<float>(900 * (height - 0.7)) : 0.0f);
    }
  }

  /// The static field with index `which` in kStill
  std::vector<float> still(size_t which) const {
    if (which == 2) return orography_;
    std::vector<float> out = land_;
    if (which == 1)
      for (float& x : out) x = 1 - x;
    return out;
  }

  void go_to(int64_t step) {
    step_ = step;
    atmosphere_.at(static_cast<double>(step) * kHoursBetween, air_.data());
  }

  /// [5 * levels, H, W], levels of a variable together
  void levels(float* out) const {
    const std::vector<int64_t>& hpa = archive_levels();
    const auto L = static_cast<int64_t>(hpa.size());
    for (int64_t i = 0; i < points_; ++i)
      for (int64_t l = 0; l < L; ++l) {
        double values[std::size(kUpper)];
        upper_at(
            static_cast<double>(hpa[l]), [&](int64_t c) { return air(c, i); }, values);
        for (size_t v = 0; v < std::size(kUpper); ++v)
          out[(static_cast<int64_t>(v) * L + l) * points_ + i] = static_cast<float>(values[v]);
      }
  }

  /// [6, H, W]
  void single(float* out) const {
    constexpr int64_t kAsTheyAre[] = {kT2m, kU10, kV10, kMsl};
    for (int64_t i = 0; i < points_; ++i) {
      for (size_t c = 0; c < std::size(kAsTheyAre); ++c)
        out[static_cast<int64_t>(c) * points_ + i] = static_cast<float>(air(kAsTheyAre[c], i));
      // Water varies less than air: half of its temperature depends on latitude alone.
      const double lat = std::numbers::pi * (0.5 - (static_cast<double>(i / options_.width) + 0.5) /
                                                       static_cast<double>(options_.height)),
                   water = 0.5 * air(kT2m, i) + 0.5 * (302 - 42 * std::sin(lat) * std::sin(lat));
      const bool sea = land_[static_cast<size_t>(i)] == 0;
      const auto place = static_cast<uint64_t>(step_ * points_ + i);
      const bool seen = static_cast<double>(uniform(options_.seed, kCloudSeed, place)) >= options_.missing;
      const auto ice = static_cast<float>(std::clamp((273 - water) / 8, 0.0, 1.0));
      out[4 * points_ + i] = sea ? ice : kNotThere;
      out[5 * points_ + i] = sea && seen ? static_cast<float>(std::max(271.35, water)) : kNotThere;
    }
  }

 private:
  double air(int64_t channel, int64_t point) const {
    return static_cast<double>(air_[static_cast<size_t>(channel * points_ + point)]);
  }
  const ArchiveOptions options_;
  const int64_t points_;
  const SyntheticAtmosphere atmosphere_;
  std::vector<float> air_, land_, orography_;
  int64_t step_ = 0;
};

// ---- the files ----

struct ArchiveFile {
  std::function<void(const float*)> append;
  std::function<void()> finish;
};

FieldInfo info_of_archive(const ArchiveOptions& o, bool levels) {
  FieldInfo info;
  const auto add = [&](const std::string& name, const char* units) {
    info.channels.push_back(name), info.units.emplace_back(units);
  };
  if (levels)
    for (const ArchiveField& f : kUpper)
      for (const int64_t hpa : archive_levels()) add(f.name + std::to_string(hpa), f.units);
  else
    for (const ArchiveField& f : kSingle) add(f.name, f.units);
  info.steps = o.steps;
  info.shape = {static_cast<int64_t>(info.channels.size()), o.height, o.width};
  info.time_units = "hours since 2015-01-01 00:00:00", info.calendar = "standard";
  for (int64_t t = 0; t < o.steps; ++t) info.times.push_back(static_cast<double>(t) * kHoursBetween);
  const double band = 180.0 / static_cast<double>(o.height);
  for (int64_t i = 0; i < o.height; ++i) info.latitude.push_back(90 - band * (static_cast<double>(i) + 0.5));
  for (int64_t j = 0; j < o.width; ++j)
    info.longitude.push_back(360.0 * static_cast<double>(j) / static_cast<double>(o.width));
  return info;
}

ArchiveFile zarr_archive(const std::string& path, const FieldInfo& info, const ArchiveOptions& o,
                         const ArchiveWorld* still) {
  const auto out =
      std::make_shared<ZarrWriter>(path, info, ZarrLayout{.version = o.format == "zarr3" ? 3 : 2});
  for (size_t k = 0; still && k < std::size(kStill); ++k)
    out->put_still(kStill[k].name, kStill[k].units, still->still(k));
  return {[=](const float* x) { out->append(x); }, [=] { out->finish(); }};
}

class NetcdfArchive {
 public:
  NetcdfArchive(const std::string& path, const FieldInfo& info, const ArchiveOptions& o, bool levels,
                const ArchiveWorld* still)
      : out_(path, o.format == "netcdf3"), height_(o.height), width_(o.width), levels_(levels) {
    const LibraryLock lock;
    out_.text(NC_GLOBAL, "Conventions", "CF-1.8");
    out_.text(NC_GLOBAL, "title", "synthetic, by isobar data make-archive, seed " + std::to_string(o.seed));
    std::vector<int> dims;
    const auto axis = [&](const char* name, const std::string& units, const std::vector<double>& values) {
      dims.push_back(out_.dimension(name, static_cast<int64_t>(values.size())));
      out_.coordinate(name, dims.back(), units, values);
    };
    axis("time", info.time_units, info.times);
    if (levels) axis("level", "hPa", {archive_levels().begin(), archive_levels().end()});
    axis("latitude", "degrees_north", info.latitude), axis("longitude", "degrees_east", info.longitude);
    const auto define = [&](const ArchiveField& f, const std::vector<int>& of) {
      const int v = out_.variable(f.name, NC_FLOAT, of);
      out_.fill_value(v, kGapIsWritten);
      out_.text(v, "units", f.units);
      return v;
    };
    if (levels)
      for (const ArchiveField& f : kUpper) variables_.push_back(define(f, dims));
    else
      for (const ArchiveField& f : kSingle) variables_.push_back(define(f, dims));
    std::vector<int> standing;
    for (size_t k = 0; still && k < std::size(kStill); ++k)
      standing.push_back(define(kStill[k], {dims.end() - 2, dims.end()}));
    out_.end_header();
    for (size_t k = 0; k < standing.size(); ++k)
      out_.check(nc_put_var_float(out_.id(), standing[k], still->still(k).data()), "write a field");
  }

  void append(const float* fields) {
    const LibraryLock lock;
    const auto levels = static_cast<int64_t>(archive_levels().size());
    const int64_t one = (levels_ ? levels : 1) * height_ * width_;
    const size_t start[4] = {written_, 0, 0, 0};
    const auto L = static_cast<size_t>(levels), H = static_cast<size_t>(height_),
               W = static_cast<size_t>(width_);
    const size_t of_levels[4] = {1, L, H, W}, of_one[3] = {1, H, W};
    std::vector<float> converted(static_cast<size_t>(one));
    for (size_t v = 0; v < variables_.size(); ++v) {
      const float* from = fields + static_cast<int64_t>(v) * one;
      std::transform(from, from + one, converted.begin(),
                     [](float x) { return std::isnan(x) ? kGapIsWritten : x; });
      out_.check(
          nc_put_vara_float(out_.id(), variables_[v], start, levels_ ? of_levels : of_one, converted.data()),
          "write a field");
    }
    ++written_;
  }
  void finish() { out_.finish(); }

 private:
  static constexpr float kGapIsWritten = -32767;
  NetcdfOutput out_;
  const int64_t height_, width_;
  const bool levels_;
  std::vector<int> variables_;
  size_t written_ = 0;
};

ArchiveFile archive_file(const std::string& path, const ArchiveOptions& o, bool levels,
                         const ArchiveWorld& world) {
  const FieldInfo info = info_of_archive(o, levels);
  const ArchiveWorld* still = levels ? nullptr : &world;
  if (o.format.starts_with("zarr")) return zarr_archive(path, info, o, still);
  const auto out = std::make_shared<NetcdfArchive>(path, info, o, levels, still);
  return {[=](const float* x) { out->append(x); }, [=] { out->finish(); }};
}

void check_archive(const std::string& dir, const ArchiveOptions& o) {
  const auto refuse = [&](const std::string& key, const std::string& what, const std::string& mend) {
    throw ConfigError(dir, key, what, mend);
  };
  const std::vector<std::string> formats = {"netcdf4", "netcdf3", "zarr2", "zarr3"};
  if (std::find(formats.begin(), formats.end(), o.format) == formats.end())
    refuse("format", "'" + o.format + "' is none", "netcdf4, netcdf3, zarr2 or zarr3");
  if (o.height < 2 || o.width < 2 || o.height > 1 << 14 || o.width > 1 << 15)
    refuse("height, width", "a grid of " + std::to_string(o.height) + " x " + std::to_string(o.width),
           "use 2 x 2 to 16384 x 32768");
  if (o.steps < 2 || o.steps > 1 << 20) refuse("steps", std::to_string(o.steps), "use 2 to 1048576");
  if (!(o.missing >= 0 && o.missing < 1)) refuse("missing", std::to_string(o.missing), "use 0 to below 1");
}

}  // namespace

ArchivePaths make_archive(const std::string& dir, const ArchiveOptions& o) {
  check_archive(dir, o);
  const std::string ending = o.format.starts_with("zarr") ? ".zarr" : ".nc";
  const ArchivePaths paths{dir + "/levels" + ending, dir + "/single" + ending};
  std::error_code error;
  for (const std::string& path : {paths.levels, paths.single}) {
    if (!fs::exists(path)) continue;
    if (!o.force) throw ConfigError(path, "", "is there already", "name another directory, or add --force");
    fs::remove_all(path, error);
  }
  fs::create_directories(dir, error);
  if (error)
    throw ConfigError(dir, "", "cannot be made: " + error.message(), "name a place that can be written");
  ArchiveWorld world(o);
  const ArchiveFile levels = archive_file(paths.levels, o, true, world),
                    single = archive_file(paths.single, o, false, world);
  std::vector<float> of_levels(static_cast<size_t>(info_of_archive(o, true).shape.size())),
      of_single(static_cast<size_t>(info_of_archive(o, false).shape.size()));
  Progress bar("archive", o.steps, o.show_progress);
  for (int64_t t = 0; t < o.steps; ++t) {
    world.go_to(t);
    world.levels(of_levels.data()), world.single(of_single.data());
    levels.append(of_levels.data()), single.append(of_single.data());
    bar.update(t + 1);
  }
  levels.finish(), single.finish();
  bar.finish();
  return paths;
}

}  // namespace isobar::data
