#include "model/data/fields/region.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "model/base/error.h"

namespace isobar::data {

namespace {

constexpr double kExact = 1e-4;  // degrees: tolerates coordinates rounded to f32

std::string degrees(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

double east_of(double longitude, double west) {
  double d = std::fmod(longitude - west, 360.0);
  if (d < -kExact) d += 360;
  return d >= 360 - kExact ? d - 360 : d;
}

/// Every `stride`-th value.
std::vector<double> thinned(const std::vector<double>& of, int64_t stride) {
  std::vector<double> out;
  for (size_t i = 0; i < of.size(); i += static_cast<size_t>(stride)) out.push_back(of[i]);
  return out;
}

void choose_rows(const FieldInfo& info, const FieldChoice& c, ChosenGrid& grid) {
  const double north = c.region[0], south = c.region[2];
  const auto inside = [&](double y) { return y <= north + kExact && y >= south - kExact; };
  const auto& y = info.latitude;
  const auto first = std::find_if(y.begin(), y.end(), inside);
  const auto last = std::find_if_not(first, y.end(), inside);
  if (first == y.end())
    throw ConfigError(info.path, "data.region",
                      "no row lies between " + degrees(south) + " and " + degrees(north) + " degrees north",
                      "the file's rows reach from " + degrees(y.front()) + " to " + degrees(y.back()));
  grid.first_row = first - y.begin(), grid.rows = last - first;
  grid.latitude.assign(first, last);
}

void choose_columns(const FieldInfo& info, const FieldChoice& c, ChosenGrid& grid) {
  const double west = c.region[1];
  double width = east_of(c.region[3], west);
  if (c.region[3] - west >= 360 - kExact) width = 360;
  const auto& x = info.longitude;
  std::vector<int64_t> columns;
  for (size_t i = 0; i < x.size(); ++i)
    if (east_of(x[i], west) <= width + kExact) columns.push_back(static_cast<int64_t>(i));
  if (columns.empty())
    throw ConfigError(
        info.path, "data.region",
        "no column lies between " + degrees(west) + " and " + degrees(c.region[3]) + " degrees east",
        "the file's columns reach from " + degrees(x.front()) + " to " + degrees(x.back()));
  std::sort(columns.begin(), columns.end(),
            [&](int64_t a, int64_t b) { return east_of(x[a], west) < east_of(x[b], west); });
  for (const int64_t i : columns) {
    if (!grid.runs.empty() && grid.runs.back().first + grid.runs.back().count == i)
      ++grid.runs.back().count;
    else
      grid.runs.push_back({i, 1});
    grid.longitude.push_back(west + east_of(x[i], west));
  }
}

}  // namespace

int64_t ChosenGrid::width() const {
  int64_t all = 0;
  for (const Run& r : runs) all += r.count;
  return (all + stride - 1) / stride;
}

ChosenGrid choose_grid(const FieldInfo& info, const FieldChoice& c) {
  ChosenGrid grid{.rows = info.shape.height, .stride = c.stride};
  if (c.region.empty()) {
    grid.runs = {{0, info.shape.width}};
    grid.latitude = info.latitude, grid.longitude = info.longitude;
  } else {
    if (info.latitude.empty() || info.longitude.empty())
      throw ConfigError(
          info.path, "data.region",
          info.no_degrees.empty() ? "the file does not say where its rows and columns lie" : info.no_degrees,
          "leave it out, or put the data on rows of latitude and columns of longitude: cdo remapbil");
    choose_rows(info, c, grid);
    choose_columns(info, c, grid);
  }
  grid.latitude = thinned(grid.latitude, c.stride);
  grid.longitude = thinned(grid.longitude, c.stride);
  return grid;
}

}  // namespace isobar::data
