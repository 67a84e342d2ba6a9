#include "model/data/cf/cf_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "model/data/files/netcdf/netcdf_file.h"
#include "model/data/files/zarr/zarr_store.h"

namespace isobar::data {

const CfVariable* CfFile::find(const std::string& name) const {
  const auto at =
      std::find_if(variables_.begin(), variables_.end(), [&](const CfVariable& v) { return v.name == name; });
  return at == variables_.end() ? nullptr : &*at;
}

std::optional<double> CfFile::number(const CfVariable& v, const std::string& attribute) const {
  const auto x = numbers(v, attribute, 1);
  return x.empty() ? std::nullopt : std::optional(x[0]);
}

void CfFile::refuse_numbers(const std::string& variable, const std::string& attribute,
                            const std::string& what, size_t at_most) {
  throw ArrayError(
      "variable '" + variable + "' has " + attribute + " of " + what,
      "give it " +
          (at_most == 1 ? std::string("one number") : "1 to " + std::to_string(at_most) + " numbers") +
          ": ncatted, or leave the variable out");
}

Index CfFile::sizes_of(const CfVariable& v) const {
  Index sizes;
  for (const int64_t d : v.dims) sizes.push_back(dimensions_[d].size);
  return sizes;
}

std::unique_ptr<CfFile> open_cf_file(const std::string& path) {
  if (is_zarr(path)) return open_zarr_file(path);
  if (std::filesystem::path(path).extension() == ".npz") return open_npz_file(path);
  if (is_grib(path)) return open_grib_file(path);
  return std::make_unique<NetcdfFile>(path);
}

CfCoordinate about(const CfFile& file, const CfVariable& v) {
  const bool dated = v.dates && file.text(v, "standard_name").empty();
  return {v.name, dated ? "time" : file.text(v, "standard_name"), file.text(v, "units"), file.text(v, "axis"),
          file.text(v, "positive")};
}

const CfVariable* coordinate_variable(const CfFile& file, int64_t dimension) {
  const std::string& name = file.dimensions()[dimension].name;
  const CfVariable* own = file.find(name);
  if (own && own->dims != Index{dimension}) own = nullptr;
  const CfAxis by_name = own ? CfAxis::other : classify({.name = name});
  if (own && classify(about(file, *own)) != CfAxis::other) return own;
  const CfVariable* found = nullptr;
  for (const CfVariable& v : file.variables()) {
    if (!v.numeric || v.dims != Index{dimension}) continue;
    const CfAxis axis = classify(about(file, v));
    if (axis == CfAxis::other || (by_name != CfAxis::other && axis != by_name)) continue;
    // A list of points has latitude and longitude along one dimension, which is then neither axis.
    if (found && classify(about(file, *found)) != axis) return own;
    if (!found) found = &v;
  }
  // Beside starts of forecasts or lead times, the times that count are those when a step is valid.
  if (own) return found && classify(about(file, *found)) == CfAxis::time ? found : own;
  return found;
}

CfAxis axis_of(const CfFile& file, int64_t dimension) {
  const std::string& name = file.dimensions()[dimension].name;
  const CfVariable* v = coordinate_variable(file, dimension);
  const CfAxis axis = classify(v ? about(file, *v) : CfCoordinate{.name = name});
  // Names of levels that are also those of fields: only a dimension is known by them.
  constexpr const char* kHeights[] = {"depth", "height", "altitude"};
  const bool height = std::find(std::begin(kHeights), std::end(kHeights), name) != std::end(kHeights);
  return axis == CfAxis::other && height ? CfAxis::level : axis;
}

std::vector<double> decoded(const CfFile& file, const CfVariable& v) {
  std::vector<double> values = file.values(v);
  CfVariable coordinate = v;
  if (v.fill_of_store) coordinate.has_fill = false;
  const Packing p = packing_of(file, coordinate);
  for (double& x : values) x = physical_value(x, v.element, p);
  return values;
}

std::vector<double> coordinate_of(const CfFile& file, int64_t dimension) {
  const CfVariable* v = coordinate_variable(file, dimension);
  if (v && v->numeric) return decoded(file, *v);
  std::vector<double> count(file.dimensions()[dimension].size);
  for (size_t i = 0; i < count.size(); ++i) count[i] = static_cast<double>(i);
  return count;
}

}  // namespace isobar::data
