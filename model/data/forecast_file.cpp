#include "model/data/forecast_file.h"

#include <netcdf.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <utility>

#include "model/base/error.h"
#include "model/base/files.h"
#include "model/data/library_lock.h"

namespace isobar {
namespace {

// As netCDF takes names: letters, digits and underscores, a letter first, each once
std::vector<std::string> variable_names(const std::vector<std::string>& channels) {
  std::vector<std::string> names, taken = {"time", "latitude", "longitude", "row"};
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

}  // namespace

ForecastFile::ForecastFile(std::string path, const std::map<std::string, std::string>& about, int64_t samples,
                           const SampleShape& shape, const std::vector<std::string>& names,
                           const Coordinates& at, const std::string& what)
    : path_(std::move(path)), part_(path_ + ".part"), shape_(shape.target), of_table_(shape.of_table) {
  const LibraryLock lock;
  check(nc_create(part_.c_str(), NC_CLOBBER | NC_NETCDF4 | NC_CLASSIC_MODEL, &file_), "create it");
  try {
    define(about, samples, names, at, what);
  } catch (...) {
    give_up();
    throw;
  }
}

void ForecastFile::define(const std::map<std::string, std::string>& about, int64_t samples,
                          const std::vector<std::string>& names, const Coordinates& at,
                          const std::string& what) {
  text(NC_GLOBAL, "Conventions", "CF-1.8");
  for (const auto& [name, value] : about) text(NC_GLOBAL, name, value);
  std::vector<int> dims;
  if (of_table_) {
    dims = {dimension("row", samples)};
  } else {
    dims = {dimension("time", samples), dimension("latitude", shape_.height),
            dimension("longitude", shape_.width)};
    if (!at.time_units.empty()) {
      check(nc_def_var(file_, "time", NC_DOUBLE, 1, &dims[0], &time_), "define time");
      text(time_, "standard_name", "time");
      text(time_, "units", at.time_units);
      text(time_, "calendar", at.calendar.empty() ? "standard" : at.calendar);
    }
    coordinate("latitude", dims[1], "degrees_north", at.latitude);
    coordinate("longitude", dims[2], "degrees_east", at.longitude);
  }
  const std::vector<std::string> variables = variable_names(names);
  for (size_t c = 0; c < names.size(); ++c) {
    const std::string& name = variables[c];
    check(nc_def_var(file_, name.c_str(), NC_FLOAT, static_cast<int>(dims.size()), dims.data(),
                     &variables_.emplace_back()),
          "define " + name);
    text(variables_.back(), "long_name", what + names[c]);
    if (c < at.units.size() && !at.units[c].empty()) text(variables_.back(), "units", at.units[c]);
  }
  check(nc_enddef(file_), "end its header");
  for (const auto& [variable, values] : coordinates_)
    check(nc_put_var_double(file_, variable, values.data()), "write coordinates");
}

ForecastFile::~ForecastFile() {
  if (file_ < 0) return;
  const LibraryLock lock;
  give_up();
}

void ForecastFile::give_up() {
  nc_abort(std::exchange(file_, -1));
  std::error_code gone;
  std::filesystem::remove(part_, gone);
}

void ForecastFile::check(int rc, const std::string& doing) {
  if (rc == NC_NOERR) return;
  throw ConfigError(path_, "", "cannot " + doing + ": " + nc_strerror(rc),
                    "give a folder that exists, can be written and has room");
}

int ForecastFile::dimension(const std::string& name, int64_t size) {
  int id = -1;
  check(nc_def_dim(file_, name.c_str(), static_cast<size_t>(size), &id), "define " + name);
  return id;
}

void ForecastFile::coordinate(const std::string& name, int dimension, const std::string& units,
                              const std::vector<double>& values) {
  if (values.empty()) return;
  int id = -1;
  check(nc_def_var(file_, name.c_str(), NC_DOUBLE, 1, &dimension, &id), "define " + name);
  text(id, "standard_name", name);
  text(id, "units", units);
  coordinates_[id] = values;
}

void ForecastFile::text(int variable, const std::string& attribute, const std::string& value) {
  check(nc_put_att_text(file_, variable, attribute.c_str(), value.size(), value.c_str()),
        "write " + attribute);
}

void ForecastFile::append(const float* fields, double time) {
  const LibraryLock lock;
  const auto sample = static_cast<size_t>(written_++);
  const size_t start[3] = {sample, 0, 0},
               count[3] = {1, static_cast<size_t>(shape_.height), static_cast<size_t>(shape_.width)};
  for (size_t c = 0; c < variables_.size(); ++c)
    check(nc_put_vara_float(file_, variables_[c], start, count,
                            fields + static_cast<int64_t>(c) * shape_.height * shape_.width),
          "write sample " + std::to_string(sample));
  if (time_ >= 0 && !std::isnan(time))
    check(nc_put_var1_double(file_, time_, &sample, &time),
          "write the time of sample " + std::to_string(sample));
}

void ForecastFile::finish() {
  {
    const LibraryLock lock;
    const int rc = nc_close(std::exchange(file_, -1));
    if (rc != NC_NOERR) std::filesystem::remove(part_);
    check(rc, "close it");
  }
  rename_synced(part_, path_);
}

}  // namespace isobar
