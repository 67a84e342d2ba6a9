#include "model/data/written/forecast_file.h"

#include <netcdf.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "model/data/files/library_lock.h"

namespace isobar::data {
std::vector<std::string> variable_names(const std::vector<std::string>& channels,
                                        std::vector<std::string> taken) {
  std::vector<std::string> names;
  for (const std::string& channel : channels) {
    std::string name;
    for (const char c : channel) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (name.empty() || !std::isalpha(static_cast<unsigned char>(name[0]))) name = "v_" + name;
    while (std::find(taken.begin(), taken.end(), name) != taken.end()) name += "_";
    taken.push_back(name);
    names.push_back(std::move(name));
  }
  return names;
}

std::string define_places(NetcdfOutput& out, int row, const Coordinates& at) {
  std::string named;
  const auto add = [&](const std::string& name, const std::string& units, const std::vector<double>& values) {
    const int variable = out.coordinate(name, row, units, values, name);
    if (variable >= 0) named += (named.empty() ? "" : " ") + name;
    return variable;
  };
  const int time = add("time", at.time_units, at.times);
  if (time >= 0) out.text(time, "calendar", at.calendar.empty() ? "standard" : at.calendar);
  add("latitude", "degrees_north", at.latitude);
  add("longitude", "degrees_east", at.longitude);
  if (!at.latitude.empty()) out.text(NC_GLOBAL, "featureType", "point");
  return named;
}

ForecastFile::ForecastFile(std::string path, const std::map<std::string, std::string>& about, int64_t samples,
                           const SampleShape& shape, const std::vector<std::string>& names,
                           const Coordinates& at, const std::string& what, const std::vector<double>& leads)
    : out_(std::move(path)),
      shape_(shape.target),
      of_table_(shape.of_table),
      leads_(std::max<int64_t>(1, static_cast<int64_t>(leads.size()))) {
  const LibraryLock lock;
  define(about, samples, names, at, what, leads);
}

void ForecastFile::define(const std::map<std::string, std::string>& about, int64_t samples,
                          const std::vector<std::string>& names, const Coordinates& at,
                          const std::string& what, std::vector<double> leads) {
  out_.text(NC_GLOBAL, "Conventions", "CF-1.8");
  for (const auto& [name, value] : about) out_.text(NC_GLOBAL, name, value);
  std::vector<int> dims;
  std::string along;  // coordinates of a table's rows
  if (of_table_) {
    dims = {out_.dimension("row", samples)};
    along = define_places(out_, dims[0], at);
  } else {
    dims = {out_.dimension("time", samples)};
    if (leads_ > 1) dims.push_back(out_.dimension("step", leads_));
    dims.push_back(out_.dimension("latitude", shape_.height));
    dims.push_back(out_.dimension("longitude", shape_.width));
    if (!at.time_units.empty()) {
      time_ = out_.variable("time", NC_DOUBLE, {dims[0]});
      out_.text(time_, "standard_name", leads_ > 1 ? "forecast_reference_time" : "time");
      out_.text(time_, "units", at.time_units);
      out_.text(time_, "calendar", at.calendar.empty() ? "standard" : at.calendar);
    }
    if (leads_ > 1) {
      const bool hours = std::none_of(leads.begin(), leads.end(), [](double h) { return std::isnan(h); });
      for (size_t k = 0; k < leads.size() && !hours; ++k) leads[k] = static_cast<double>(k + 1);
      out_.coordinate("step", dims[1], hours ? "hours" : "1", leads, hours ? "forecast_period" : "");
    }
    out_.coordinate("latitude", dims[dims.size() - 2], "degrees_north", at.latitude, "latitude");
    out_.coordinate("longitude", dims[dims.size() - 1], "degrees_east", at.longitude, "longitude");
  }
  const std::vector<std::string> variables =
      variable_names(names, {"time", "step", "latitude", "longitude", "row"});
  for (size_t c = 0; c < names.size(); ++c) {
    variables_.push_back(out_.variable(variables[c], NC_FLOAT, dims));
    out_.text(variables_.back(), "long_name", what + names[c]);
    if (c < at.units.size() && !at.units[c].empty()) out_.text(variables_.back(), "units", at.units[c]);
    if (!along.empty()) out_.text(variables_.back(), "coordinates", along);
  }
  out_.end_header();
}

void ForecastFile::append(const float* fields, double time) {
  const LibraryLock lock;
  const int64_t here = written_++;
  const auto sample = static_cast<size_t>(here / leads_), lead = static_cast<size_t>(here % leads_);
  std::vector<size_t> start = {sample, 0, 0},
                      count = {1, static_cast<size_t>(shape_.height), static_cast<size_t>(shape_.width)};
  if (leads_ > 1) start.insert(start.begin() + 1, lead), count.insert(count.begin() + 1, 1);
  for (size_t c = 0; c < variables_.size(); ++c)
    out_.check(nc_put_vara_float(out_.id(), variables_[c], start.data(), count.data(),
                                 fields + static_cast<int64_t>(c) * shape_.height * shape_.width),
               "write sample " + std::to_string(sample));
  if (time_ >= 0 && !std::isnan(time))
    out_.check(nc_put_var1_double(out_.id(), time_, &sample, &time),
               "write the time of sample " + std::to_string(sample));
}

}  // namespace isobar::data
