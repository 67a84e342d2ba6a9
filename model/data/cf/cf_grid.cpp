#include "model/data/cf/cf_grid.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "model/data/fields/slab.h"

namespace isobar::data {

namespace {

constexpr double kNear = 1e-4;  // degrees: coordinates are written as f32, too
constexpr double kTurn360 = 360, kMostPoints = 1 << 26;

std::string short_text(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

/// True for a latitude or longitude that converts to degrees, judged by its attributes.
bool is_true(const CfFile& file, const CfVariable& v, CfAxis axis) {
  const CfCoordinate c = about(file, v);
  return v.numeric && classify(c) == axis && degrees_of(c) > 0;
}

/// The variables named in the attribute `coordinates`, then all others.
std::vector<const CfVariable*> candidates(const CfFile& file, const CfVariable& v) {
  std::vector<const CfVariable*> out;
  std::istringstream named(file.text(v, "coordinates"));
  for (std::string name; named >> name;)
    if (const CfVariable* c = file.find(name)) out.push_back(c);
  for (const CfVariable& c : file.variables()) out.push_back(&c);
  return out;
}

/// A two-dimensional latitude or longitude, which may also have a time dimension; null when there is none.
const CfVariable* two_dimensional(const CfFile& file, const CfVariable& v, CfAxis axis) {
  for (const CfVariable* c : candidates(file, v)) {
    const size_t n = c->dims.size();
    if (c->id == v.id || n < 2 || n > 3 || !is_true(file, *c, axis)) continue;
    if (n == 3 && axis_of(file, c->dims[0]) != CfAxis::time) continue;
    double values = 1;
    for (const int64_t d : c->dims) values *= static_cast<double>(file.dimensions()[d].size);
    if (values > kMostPoints) continue;  // a coordinate is held whole
    const auto has = [&](int64_t d) { return std::find(v.dims.begin(), v.dims.end(), d) != v.dims.end(); };
    if (has(c->dims[n - 2]) && has(c->dims[n - 1])) return c;
  }
  return nullptr;
}

/// A one-dimensional latitude or longitude along a dimension; null when there is none.
const CfVariable* along(const CfFile& file, const CfVariable& v, int64_t dimension, CfAxis axis) {
  const CfVariable* own = coordinate_variable(file, dimension);
  if (own && is_true(file, *own, axis)) return own;
  for (const CfVariable* c : candidates(file, v))
    if (c->dims == Index{dimension} && is_true(file, *c, axis)) return c;
  return nullptr;
}

std::vector<double> in_degrees(const CfFile& file, const CfVariable& v) {
  std::vector<double> values = decoded(file, v);
  const double factor = degrees_of(about(file, v));
  for (double& x : values) x *= factor;
  return values;
}

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw ArrayError("'" + name + "' " + what, "mend the coordinate: ncap2, or write the file anew");
}

void require_finite(const std::string& name, const std::vector<double>& x) {
  for (size_t i = 0; i < x.size(); ++i)
    if (!std::isfinite(x[i])) refuse(name, "has no value at " + std::to_string(i));
}

void require_latitudes(const std::string& name, const std::vector<double>& x) {
  require_finite(name, x);
  for (const double y : x)
    if (std::abs(y) > 90 + kNear) refuse(name, "is " + short_text(y) + ", and no latitude is beyond 90");
  if (x.size() > 1 && x[0] == x[1]) refuse(name, "has two rows at " + short_text(x[0]));
  for (size_t i = 2; i < x.size(); ++i)
    if ((x[i] - x[i - 1]) * (x[1] - x[0]) <= 0)
      refuse(name, "does not go on one way at row " + std::to_string(i));
}

/// The extent of the columns in degrees; one step may wrap at 180 or 360.
double require_longitudes(const std::string& name, const std::vector<double>& x) {
  require_finite(name, x);
  double all = 0, first = 0;
  for (size_t i = 1; i < x.size(); ++i) {
    double step = x[i] - x[i - 1];
    if (std::abs(step) > kTurn360 / 2) step = std::remainder(step, kTurn360);
    if (i == 1) first = step;
    if (step == 0 || step * first < 0) refuse(name, "does not go on one way at column " + std::to_string(i));
    all += step;
  }
  if (std::abs(all) > kTurn360 + kNear)
    refuse(name, "goes round more than once: " + short_text(all) + " degrees");
  return std::abs(all);
}

/// The coordinate values along a dimension, in any unit; {} when there are none
std::vector<double> own_numbers(const CfFile& file, int64_t dimension) {
  const CfVariable* own = coordinate_variable(file, dimension);
  return own && own->numeric ? decoded(file, *own) : std::vector<double>();
}

std::string why_none(const CfFile& file, int64_t row, int64_t column) {
  std::string why;
  for (const int64_t d : {row, column}) {
    const CfVariable* own = coordinate_variable(file, d);
    if (!own || !own->numeric) continue;
    const CfCoordinate c = about(file, *own);
    if (degrees_of(c) > 0) continue;
    why += (why.empty() ? "" : ", ") + ("'" + own->name + "' ");
    if (c.standard_name.starts_with("grid_"))
      why += "counts from a rotated pole";
    else
      why += c.units.empty() ? "has no units" : "is in '" + c.units + "'";
  }
  return why.empty() ? "no variable gives a latitude and a longitude to its rows and columns"
                     : why + ", and these are no degrees of latitude and longitude";
}

/// Reduces two-dimensional coordinates to one axis each, when rows and columns follow latitude and longitude.
bool as_rows_and_columns(const std::vector<double>& lat, const std::vector<double>& lon, CfGrid& g) {
  const auto n = static_cast<size_t>(g.columns);
  for (size_t i = 0; i < lat.size(); ++i)
    if (!(std::abs(lat[i] - lat[i - i % n]) <= 1e-5) || !(std::abs(lon[i] - lon[i % n]) <= 1e-5))
      return false;
  for (size_t i = 0; i < lat.size(); i += n) g.latitude.push_back(lat[i]);
  g.longitude.assign(lon.begin(), lon.begin() + static_cast<int64_t>(n));
  return true;
}

void note_area(const std::vector<double>& lat, const std::vector<double>& lon, CfGrid& g) {
  const auto least = [](double a, double b) { return std::isnan(a) ? false : std::isnan(b) || a < b; };
  const auto most = [](double a, double b) { return std::isnan(b) ? false : std::isnan(a) || a < b; };
  const auto [south, north] = std::pair(*std::min_element(lat.begin(), lat.end(), least),
                                        *std::max_element(lat.begin(), lat.end(), most));
  const auto [west, east] = std::pair(*std::min_element(lon.begin(), lon.end(), least),
                                      *std::max_element(lon.begin(), lon.end(), most));
  g.area = {north, south, west, east};
}

/// The coordinate values of the first time as [row, column].
std::vector<double> plane_of(const CfFile& file, const CfVariable& v, int64_t row) {
  std::vector<double> x = in_degrees(file, v);
  const size_t n = v.dims.size();
  const int64_t a = file.dimensions()[v.dims[n - 2]].size, b = file.dimensions()[v.dims[n - 1]].size;
  x.resize(static_cast<size_t>(a * b));
  if (v.dims[n - 2] == row) return x;
  std::vector<double> turned(x.size());
  for (int64_t i = 0; i < a; ++i)
    for (int64_t j = 0; j < b; ++j) turned[j * a + i] = x[i * b + j];
  return turned;
}

void take_two_dimensional(const CfFile& file, const CfVariable& y, const CfVariable& x, int64_t row,
                          CfGrid& g) {
  const std::vector<double> lat = plane_of(file, y, row), lon = plane_of(file, x, row);
  for (const double value : lat)
    if (std::abs(value) > 90 + kNear)
      refuse(y.name, "is " + short_text(value) + ", and no latitude is beyond 90");
  if (lat.empty() || lat.size() != lon.size() || as_rows_and_columns(lat, lon, g)) return;
  note_area(lat, lon, g);
  g.named = "'" + y.name + "' and '" + x.name + "'";
  g.no_degrees =
      g.named + " are of two dimensions: its rows and columns have no latitude and longitude of their own";
  const auto mean_of_row = [&](size_t r) {
    double sum = 0, n = 0;
    for (int64_t j = 0; j < g.columns; ++j)
      if (const double value = lat[r * static_cast<size_t>(g.columns) + static_cast<size_t>(j)];
          !std::isnan(value))
        sum += value, ++n;
    return sum / n;
  };
  g.south_first = mean_of_row(0) < mean_of_row(static_cast<size_t>(g.rows) - 1);
  const size_t corner = static_cast<size_t>(g.columns) - 1;
  g.identity = {g.area[0],   g.area[1],  g.area[2],   g.area[3],   lat.front(),
                lat[corner], lat.back(), lon.front(), lon[corner], lon.back()};
}

}  // namespace

CfPlaces places_of(const CfFile& file, const CfVariable& v) {
  CfPlaces p;
  for (size_t k = 0; k < v.dims.size(); ++k) {
    const int at = static_cast<int>(k);
    const CfAxis axis = axis_of(file, v.dims[k]);
    if (axis == CfAxis::time) p.time = at;
    if (axis == CfAxis::level) p.level = at;
    if (axis == CfAxis::latitude) p.row = at;
    if (axis == CfAxis::longitude) p.column = at;
  }
  if (p.row >= 0 && p.column >= 0) return p;
  const CfVariable* y = two_dimensional(file, v, CfAxis::latitude);
  if (!y) return p;
  const size_t n = y->dims.size();
  const auto place = [&](int64_t d) {
    return static_cast<int>(std::find(v.dims.begin(), v.dims.end(), d) - v.dims.begin());
  };
  const int row = place(y->dims[n - 2]), column = place(y->dims[n - 1]);
  if (row == p.time || column == p.time || row == p.level || column == p.level) return p;
  p.row = row, p.column = column;
  return p;
}

CfGrid grid_of(const CfFile& file, const CfVariable& v, const CfPlaces& at) {
  const int64_t row = v.dims[at.row], column = v.dims[at.column];
  CfGrid g{.rows = file.dimensions()[row].size, .columns = file.dimensions()[column].size};
  const CfVariable *y = along(file, v, row, CfAxis::latitude), *x = along(file, v, column, CfAxis::longitude);
  if (y && x) {
    g.latitude = in_degrees(file, *y), g.longitude = in_degrees(file, *x);
  } else {
    y = two_dimensional(file, v, CfAxis::latitude), x = two_dimensional(file, v, CfAxis::longitude);
    if (y && x) take_two_dimensional(file, *y, *x, row, g);
    if (g.latitude.empty() && g.area.empty()) {
      g.no_degrees = why_none(file, row, column);
      g.identity = own_numbers(file, row);
      g.south_first = g.identity.size() > 1 && g.identity.front() < g.identity.back();
      const std::vector<double> columns = own_numbers(file, column);
      g.identity.insert(g.identity.end(), columns.begin(), columns.end());
    }
  }
  if (g.latitude.empty()) return g;
  require_latitudes(y->name, g.latitude);
  const double reach = require_longitudes(x->name, g.longitude);
  g.south_first = g.latitude.front() < g.latitude.back();
  if (g.south_first) std::reverse(g.latitude.begin(), g.latitude.end());
  if (g.columns > 2 && std::abs(reach - kTurn360) <= kNear) {
    g.remark = "the last column, " + short_text(g.longitude.back()) + " degrees east, is the first again (" +
               short_text(g.longitude.front()) + "), and is left out";
    g.longitude.pop_back(), --g.columns;
  }
  return g;
}

CfPoints points_of(const CfFile& file, const CfVariable& v) {
  const CfPlaces at = places_of(file, v);
  std::vector<size_t> sizes;  // 1 for time, so that an element's index is its place in a step
  size_t all = 1;
  for (size_t k = 0; k < v.dims.size(); ++k) {
    const bool is_time = v.dims.size() > 1 && static_cast<int>(k) == at.time;
    all *= sizes.emplace_back(is_time ? 1 : static_cast<size_t>(file.dimensions()[v.dims[k]].size));
  }
  const auto index = [&](size_t element, int dimension) {
    for (size_t k = sizes.size() - 1; static_cast<int>(k) > dimension; --k) element /= sizes[k];
    return element % sizes[static_cast<size_t>(dimension)];
  };
  int row = at.row, column = at.column;
  for (size_t k = 0; k < v.dims.size() && (row < 0 || column < 0); ++k)  // a list of points
    if (along(file, v, v.dims[k], CfAxis::latitude) && along(file, v, v.dims[k], CfAxis::longitude))
      row = column = static_cast<int>(k);
  if (row < 0 || column < 0) return {};
  const CfVariable *y = along(file, v, v.dims[row], CfAxis::latitude),
                   *x = along(file, v, v.dims[column], CfAxis::longitude);
  const bool one = y && x;
  if (!one) y = two_dimensional(file, v, CfAxis::latitude), x = two_dimensional(file, v, CfAxis::longitude);
  if (!y || !x) return {};
  const std::vector<double> lat = one ? in_degrees(file, *y) : plane_of(file, *y, v.dims[row]),
                            lon = one ? in_degrees(file, *x) : plane_of(file, *x, v.dims[row]);
  CfPoints p;
  for (size_t i = 0; i < all; ++i) {
    const size_t r = index(i, row), c = index(i, column);
    const size_t flat = r * sizes[static_cast<size_t>(column)] + c;
    p.latitude.push_back(lat[one ? r : flat]), p.longitude.push_back(lon[one ? c : flat]);
  }
  return p;
}

}  // namespace isobar::data
