#include "model/data/cf/cf_contents.h"

#include <algorithm>
#include <filesystem>
#include <ranges>
#include <sstream>

#include "model/base/text/joined.h"
#include "model/data/fields/channels.h"

namespace isobar::data {

std::set<std::string> named_by_others(const CfFile& file) {
  std::set<std::string> names;
  for (const CfVariable& v : file.variables())
    for (const char* attribute :
         {"coordinates", "ancillary_variables", "bounds", "climatology", "grid_mapping"}) {
      std::istringstream words(v.numeric ? file.text(v, attribute) : "");
      for (std::string name; words >> name;) names.insert(name);
    }
  return names;
}

namespace {

std::string dims_text(const CfFile& file, const CfVariable& v) {
  const std::string text = joined(v.dims, ", ", [&](int64_t d) {
    return file.dimensions()[d].name + " (" + std::to_string(file.dimensions()[d].size) + ")";
  });
  return text.empty() ? "no dimension" : text;
}

std::string group_text(const CfGroup& g) {
  constexpr size_t kMost = 8;
  std::vector<std::string> names(
      g.variables.begin(), g.variables.begin() + static_cast<int64_t>(std::min(kMost, g.variables.size())));
  if (names.size() < g.variables.size()) names.emplace_back("...");
  return "group '" + g.name + "'" + (names.empty() ? "" : " (" + joined(names) + ")");
}

bool is_coordinate(const CfFile& file, const CfVariable& v) {
  if (v.dims.size() == 1 &&
      (file.dimensions()[v.dims[0]].name == v.name || coordinate_variable(file, v.dims[0]) == &v))
    return true;
  const CfAxis axis = classify(about(file, v));
  return (axis == CfAxis::latitude || axis == CfAxis::longitude) && v.dims.size() < 3;
}

/// The variable most likely meant as a field: numeric, with the most dimensions, then the most values.
const CfVariable* likeliest(const CfFile& file) {
  const std::set<std::string> named = named_by_others(file);
  const CfVariable* best = nullptr;
  const auto extent = [&](const CfVariable& v) {
    double n = 1;
    for (const int64_t d : v.dims) n *= static_cast<double>(file.dimensions()[d].size);
    return std::pair(v.dims.size(), n);
  };
  for (const CfVariable& v : file.variables()) {
    if (!v.numeric || v.dates || v.dims.empty() || named.contains(v.name) || is_coordinate(file, v)) continue;
    if (!best || extent(v) > extent(*best)) best = &v;
  }
  return best;
}

ArrayError in_groups(const CfFile& file, const std::string& at) {
  constexpr size_t kMost = 6;
  const auto& groups = file.groups();
  std::string all = joined(groups | std::views::take(kMost), ", ", group_text);
  if (groups.size() > kMost) all += " and " + std::to_string(groups.size() - kMost) + " more";
  const std::string first = groups[0].name;
  std::error_code unknown;
  const bool netcdf = file.format().starts_with("netCDF");
  const std::string mend = netcdf ? "take one out: ncks -G : -g " + first + " in.nc out.nc"
                           : std::filesystem::is_directory(at, unknown)
                               ? "name the group: " + at + "/" + first
                               : "unzip it, and name the group's folder: …/" + first;
  return {"has no field at its root; it has the " + all, mend};
}

ArrayError without_time(const CfFile& file, const CfVariable& v) {
  for (const CfVariable& t : file.variables())
    if (t.numeric && t.dims.empty() && classify(about(file, t)) == CfAxis::time)
      return {
          "'" + v.name + "' has no time axis: '" + t.name + "' is one number, and no dimension",
          "make it one: ncecat -u " + t.name + " in.nc out.nc, or xarray's expand_dims('" + t.name + "')"};
  for (const int64_t d : v.dims)
    if (const CfVariable* c = coordinate_variable(file, d))
      if (const std::string of = file.text(*c, "standard_name"); of.starts_with("forecast_"))
        return {"'" + v.name + "' has no time axis: '" + c->name + "' is of " + of +
                    ", and no variable along it has the times when its steps are valid",
                "add one of standard_name 'time': xarray's assign_coords(valid_time=('" + c->name + "', …))"};
  return {"'" + v.name + "' lies along " + dims_text(file, v) + ", and none of these is a time",
          "give it a time axis (units such as 'hours since 2000-01-01'): ncap2, or xarray's expand_dims"};
}

ArrayError without_rows(const CfFile& file, const CfVariable& v, const CfPlaces& at) {
  if (file.dimensions()[v.dims[0]].name.starts_with("phony_dim"))  // as netCDF names those of plain HDF5
    return {"has no dataset 'fields', and the dimensions of '" + v.name + "' have no names",
            "the NERSC layout needs: fields [time, channel, lat, lon]; netCDF-4 needs dimension scales"};
  std::vector<std::string> unknown;
  for (size_t k = 0; k < v.dims.size(); ++k)
    if (axis_of(file, v.dims[k]) == CfAxis::other) unknown.push_back(file.dimensions()[v.dims[k]].name);
  const bool one_missing = (at.row < 0) != (at.column < 0);
  if (v.dims.size() - (at.time >= 0) - (at.level >= 0) == 1)
    return {
        "'" + v.name + "' lies along " + dims_text(file, v) + ": a list of points, and no rows and columns",
        "put it on a regular grid: cdo remapbil; an mlp reads points as rows of a table (net.kind: mlp)"};
  std::string what = "'" + v.name + "' lies along " + dims_text(file, v) + ", and ";
  if (one_missing)
    what += at.row < 0 ? "none of these is a latitude" : "none of these is a longitude";
  else
    what += "these are no time, latitude and longitude";
  if (at.time < 0) what += ", nor is there a time";
  return {what, unknown.empty() ? "give it one: it needs a time, a latitude and a longitude"
                                : "say what " + joined(unknown) +
                                      " is by CF attributes of a variable of that name (units degrees_north, "
                                      "degrees_east; axis X, Y, T), or by a latitude and longitude of both"};
}

}  // namespace

bool is_field(const CfFile& file, const CfVariable& v, const CfPlaces& at) {
  // WRF repeats the latitudes and longitudes of its points at every time.
  const CfAxis axis = classify(about(file, v));
  if ((axis == CfAxis::latitude || axis == CfAxis::longitude) && degrees_of(about(file, v)) > 0) return false;
  return v.numeric && !v.dates && at.time >= 0 && at.row >= 0 && at.column >= 0;
}

ArrayError why_no_field(const CfFile& file, const std::string& at) {
  const CfVariable* v = likeliest(file);
  const bool bare = !v || v->dims.size() < 2;
  if (bare && !file.groups().empty()) return in_groups(file, at);
  if (!v) {
    std::vector<std::string> has;
    for (const CfVariable& one : file.variables())
      if (!one.numeric && !one.type.empty() && has.size() < 6)
        has.push_back("'" + one.name + "' holds " + one.type);
    return {has.empty() ? "holds no variable but coordinates" : "holds no field: " + joined(has),
            "give a file with fields of integers or floats on time, latitude and longitude"};
  }
  const CfPlaces places = places_of(file, *v);
  if (places.row >= 0 && places.column >= 0) return without_time(file, *v);
  return without_rows(file, *v, places);
}

std::vector<std::string> left_out(const CfFile& file) {
  constexpr size_t kMost = 20;
  const std::set<std::string> named = named_by_others(file);
  std::vector<std::string> out;
  for (const CfVariable& v : file.variables()) {
    const bool field = is_field(file, v, places_of(file, v));
    if (field && named.contains(v.name)) out.push_back("'" + v.name + "' is named by others as theirs");
    if (field || named.contains(v.name)) continue;
    if (!v.numeric) {
      if (!v.type.empty()) out.push_back("'" + v.name + "' holds " + v.type);
      continue;
    }
    if (v.dims.empty() || is_coordinate(file, v)) continue;
    out.push_back("'" + v.name + "' lies along " + dims_text(file, v));
  }
  for (const CfGroup& g : file.groups()) out.push_back(group_text(g));
  if (out.size() <= kMost) return out;
  const size_t more = out.size() - kMost;
  out.resize(kMost);
  out.push_back("and " + std::to_string(more) + " more");
  return out;
}

}  // namespace isobar::data
