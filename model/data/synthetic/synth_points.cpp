#include "model/data/synthetic/synth_points.h"

#include <netcdf.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "model/base/error.h"
#include "model/base/rng.h"
#include "model/base/text/progress.h"
#include "model/data/files/library_lock.h"
#include "model/data/synthetic/synth.h"
#include "model/data/written/netcdf_output.h"

namespace isobar::data {
namespace {

namespace fs = std::filesystem;

constexpr short kLandValue = -32767;
constexpr double kStepHours = 6, kFreezing = 273.15, kHalfTurn = std::numbers::pi;
constexpr double kSlower = 10;                                   // factor by which water is slower than air
constexpr uint64_t kWater = 0x7761746572, kIceNoise = 0x696365;  // seeds of their own
enum : int64_t {
  u10 = 0,
  v10 = 1,
  t2m = 2,
  r850 = 18,
  tcwv = 19,
  air_channels = 20
};  // indices into default_channel_names

struct Field {
  const char *name, *units, *long_name;
  double low, high;  // range of the packing
};
constexpr Field kOcean[] = {{"sst", "degC", "sea surface temperature", -5, 45},
                            {"sss", "psu", "sea surface salinity", 25, 45},
                            {"tsfc", "degC", "temperature of the surface, water or ice", -80, 60},
                            {"hi", "m", "ice thickness", 0, 5},
                            {"hs", "m", "snow thickness", 0, 2},
                            {"sice", "psu", "salinity of the ice", 0, 15},
                            {"uocn", "m s-1", "eastward current", -3, 3},
                            {"vocn", "m s-1", "northward current", -3, 3},
                            {"aice", "1", "ice concentration", 0, 1}};
constexpr Field kAir[] = {{"tair", "K", "air temperature at 2 m", 180, 340},
                          {"uatm", "m s-1", "eastward wind at 10 m", -60, 60},
                          {"vatm", "m s-1", "northward wind at 10 m", -60, 60},
                          {"qref", "kg kg-1", "specific humidity", 0, 0.04},
                          {"flwdn", "W m-2", "downward longwave radiation", 0, 700},
                          {"fswdn", "W m-2", "downward shortwave radiation", 0, 1400}};

struct Place {
  double latitude, longitude;  // rad
  bool land;
};

struct Point {  // its variables, in the order of kOcean and kAir
  double ocean[std::size(kOcean)], air[std::size(kAir)];
};

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

// Cosine of the sun's angle from the zenith, 0 at night: declination 23.44 degrees, noon by longitude
double sunlight(const Place& p, double hour) {
  const double declination = -23.44 * kHalfTurn / 180 * std::cos(2 * kHalfTurn * (hour + 240) / 8760),
               turned = 2 * kHalfTurn * hour / 24 + p.longitude - kHalfTurn;
  return std::max(0.0, std::sin(p.latitude) * std::sin(declination) +
                           std::cos(p.latitude) * std::cos(declination) * std::cos(turned));
}

// `air`, `water`: channels of the two atmospheres at the point
Point point_of(const Place& p, double hour, const float* air, const float* water, double noise) {
  const double tair = air[t2m], wet = std::max(0.5, static_cast<double>(air[tcwv])),
               cloud = std::clamp(air[r850] / 100.0, 0.0, 1.0), wind = std::hypot(air[u10], air[v10]);
  const double warm = water[t2m] - kFreezing;  // degC, far below freezing at the poles
  const double sst = -1.8 + 3 * std::log1p(std::exp((0.7 * warm + 1.8) / 3)),
               sss = 35 + 0.1 * (water[r850] - 60), cold = logistic(-(warm + 6) / 4);
  const double hi = 3 * cold * (1 + 0.02 * (water[tcwv] - 10)), hs = hi * 0.3 * cloud,
               sice = cold * (4 + 4 * std::exp(-hi)),
               tsfc = sst + (0.1 + 0.4 * cold) * (tair - kFreezing - sst);
  const double aice = logistic(2 * (hi - 1.2) - 0.15 * (tsfc + 5) - 0.08 * (wind - 5) - 0.3 * (sss - 35));
  const double black = 5.67e-8 * std::pow(tair, 4);  // W/m2, Stefan and Boltzmann
  return {{sst, sss, tsfc, hi, hs, sice, 0.03 * water[u10], 0.03 * water[v10], aice + 0.01 * noise},
          {tair, air[u10], air[v10], 3.5e-4 * wet, black * (0.65 + 0.1 * std::log10(wet) + 0.1 * cloud),
           1200 * sunlight(p, hour) * (0.8 - 0.5 * cloud)}};
}

// Land is about a third of the grid, in a few pieces.
std::vector<Place> places_of(const PointsOptions& o) {
  std::vector<Place> places;
  double phase[4];
  for (uint64_t k = 0; k < 4; ++k) phase[k] = 2 * kHalfTurn * uniform(o.seed, kWater, k);
  for (int64_t i = 0; i < o.height; ++i)
    for (int64_t j = 0; j < o.width; ++j) {
      const double lat = kHalfTurn / 2 -
                         kHalfTurn * (static_cast<double>(i) + 0.5) / static_cast<double>(o.height),
                   lon = 2 * kHalfTurn * static_cast<double>(j) / static_cast<double>(o.width);
      const double height = std::cos(2 * lon + phase[0]) * std::cos(lat) + std::cos(3 * lat + phase[1]) +
                            std::cos(3 * lon + 2 * lat + phase[2]) + std::cos(5 * lon - 3 * lat + phase[3]);
      places.push_back({lat, lon, height > 0.7});
    }
  return places;
}

class PackedFile {  // six-hourly fields on the grid
 public:
  PackedFile(const std::string& path, const PointsOptions& o, const Field* fields, size_t count)
      : out_(path), fields_(fields, fields + count), options_(o), packed_(o.height * o.width) {
    const LibraryLock lock;
    out_.text(NC_GLOBAL, "Conventions", "CF-1.8");
    out_.text(NC_GLOBAL, "title", "synthetic, by isobar data make-points, seed " + std::to_string(o.seed));
    const std::vector<int> dims = {out_.dimension("time", o.steps), out_.dimension("lat", o.height),
                                   out_.dimension("lon", o.width)};
    const double band = 180.0 / static_cast<double>(o.height);
    out_.coordinate("time", dims[0], "hours since 2015-01-01", spaced(o.steps, 0, kStepHours));
    out_.coordinate("lat", dims[1], "degrees_north", spaced(o.height, 90 - band / 2, -band));
    out_.coordinate("lon", dims[2], "degrees_east", spaced(o.width, 0, 360.0 / static_cast<double>(o.width)));
    for (const Field& f : fields_) define(f, dims);
    out_.end_header();
  }
  /// Writes of(c, p) as variable c at place p; NaN becomes _FillValue.
  template <class Values>
  void write(int64_t step, const Values& of) {
    const LibraryLock lock;
    for (size_t c = 0; c < fields_.size(); ++c) {
      const Field& f = fields_[c];
      for (size_t p = 0; p < packed_.size(); ++p) {
        const double value = of(c, p);
        packed_[p] =
            std::isnan(value)
                ? kLandValue
                : static_cast<short>(std::lround((std::clamp(value, f.low, f.high) - offset(f)) / scale(f)));
      }
      const size_t start[3] = {static_cast<size_t>(step), 0, 0},
                   count[3] = {1, static_cast<size_t>(options_.height), static_cast<size_t>(options_.width)};
      out_.check(nc_put_vara_short(out_.id(), variables_[c], start, count, packed_.data()),
                 "write " + std::string(f.name) + " of step " + std::to_string(step));
    }
  }
  void finish() { out_.finish(); }

 private:
  static double scale(const Field& f) { return (f.high - f.low) / 65000; }
  static double offset(const Field& f) { return (f.high + f.low) / 2; }
  static std::vector<double> spaced(int64_t n, double first, double by) {
    std::vector<double> at;
    for (int64_t i = 0; i < n; ++i) at.push_back(first + by * static_cast<double>(i));
    return at;
  }
  void define(const Field& f, const std::vector<int>& dims) {
    const int variable = variables_.emplace_back(out_.variable(f.name, NC_SHORT, dims));
    out_.text(variable, "units", f.units);
    out_.text(variable, "long_name", f.long_name);
    const double by = scale(f), from = offset(f);
    const std::string doing = std::string("say how ") + f.name + " is packed";
    out_.check(nc_put_att_short(out_.id(), variable, "_FillValue", NC_SHORT, 1, &kLandValue), doing);
    out_.check(nc_put_att_double(out_.id(), variable, "scale_factor", NC_DOUBLE, 1, &by), doing);
    out_.check(nc_put_att_double(out_.id(), variable, "add_offset", NC_DOUBLE, 1, &from), doing);
  }
  NetcdfOutput out_;
  std::vector<Field> fields_;
  PointsOptions options_;
  std::vector<int> variables_;
  std::vector<short> packed_;  // [H,W]
};

void require_possible(const std::string& dir, const PointsOptions& o) {
  if (o.steps < 1 || o.steps > 1 << 20)
    throw ConfigError(dir, "steps", std::to_string(o.steps), "use 1 to 1048576");
  if (o.height < 2 || o.width < 2 || o.height > 1 << 14 || o.width > 1 << 14)
    throw ConfigError(dir, "height, width",
                      "a grid of " + std::to_string(o.height) + " x " + std::to_string(o.width),
                      "use at least 2 x 2, at most 16384 x 16384");
}

}  // namespace

std::vector<std::string> points_inputs() {
  return {"sst",  "sss",  "tair", "tsfc", "hi",   "hs",    "sice",
          "uocn", "vocn", "uatm", "vatm", "qref", "flwdn", "fswdn"};
}

void make_points(const std::string& dir, const PointsOptions& o) {
  require_possible(dir, o);
  const std::string ocean_path = dir + "/ocean.nc", air_path = dir + "/atmosphere.nc";
  for (const std::string& path : {ocean_path, air_path})
    if (fs::exists(path) && !o.force)
      throw ConfigError(path, "", "is there already", "name another directory, or add --force");
  std::error_code failed;
  fs::create_directories(dir, failed);
  if (failed) throw ConfigError(dir, "", "cannot be made: " + failed.message(), "name another directory");

  const FieldShape shape{air_channels, o.height, o.width};
  const SyntheticAtmosphere atmosphere(shape, o.seed), water(shape, o.seed ^ kWater);
  const std::vector<Place> places = places_of(o);
  const auto plane = static_cast<int64_t>(places.size());
  std::vector<float> above(shape.size()), below(shape.size());
  std::vector<Point> points(places.size());
  PackedFile ocean(ocean_path, o, kOcean, std::size(kOcean)), air(air_path, o, kAir, std::size(kAir));
  Progress bar("synthetic points", o.steps, o.show_progress);
  for (int64_t step = 0; step < o.steps; ++step) {
    const double hour = kStepHours * static_cast<double>(step);
    atmosphere.at(hour, above.data());
    water.at(hour / kSlower, below.data());
    for (int64_t p = 0; p < plane; ++p) {
      float a[air_channels], w[air_channels];
      for (int64_t c = 0; c < air_channels; ++c) a[c] = above[c * plane + p], w[c] = below[c * plane + p];
      const float noise = normal(o.seed, kIceNoise, static_cast<uint64_t>(step * plane + p));
      points[p] = point_of(places[p], hour, a, w, noise);
    }
    ocean.write(step, [&](size_t c, size_t p) { return places[p].land ? std::nan("") : points[p].ocean[c]; });
    air.write(step, [&](size_t c, size_t p) { return points[p].air[c]; });
    bar.update(step + 1);
  }
  ocean.finish();
  air.finish();
  bar.finish();
}

}  // namespace isobar::data
