#include "model/data/cf_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "model/data/grib_fields.h"
#include "model/data/netcdf_file.h"
#include "model/data/npz_fields.h"
#include "model/data/zarr_file.h"

namespace isobar {

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
  if (is_zarr(path)) return std::make_unique<ZarrFile>(path);
  if (std::filesystem::path(path).extension() == ".npz") return std::make_unique<NpzFields>(path);
  if (is_grib(path)) return std::make_unique<GribFields>(path);
  return std::make_unique<NetcdfFile>(path);
}

CfAxis axis_of(const CfFile& file, int64_t dimension) {
  const std::string& name = file.dimensions()[dimension].name;
  const CfVariable* v = file.find(name);
  if (!v || v->dims.size() != 1) return classify({.name = name});
  return classify({name, file.text(*v, "standard_name"), file.text(*v, "units"), file.text(*v, "axis"),
                   file.text(*v, "positive")});
}

std::vector<double> coordinate_of(const CfFile& file, int64_t dimension) {
  const auto& d = file.dimensions()[dimension];
  const CfVariable* v = file.find(d.name);
  if (v && v->numeric && v->dims.size() == 1) return file.values(*v);
  std::vector<double> count(d.size);
  for (int64_t i = 0; i < d.size; ++i) count[i] = static_cast<double>(i);
  return count;
}

Packing packing_of(const CfFile& file, const CfVariable& v) {
  const auto refuse = [](const std::string& what, const std::string& mend) { throw ArrayError(what, mend); };
  const std::string is_unsigned = file.text(v, "_Unsigned");
  if (is_unsigned == "true" || is_unsigned == "True")
    refuse("variable '" + v.name + "' is a signed type marked _Unsigned",
           "convert it: ncap2, or xarray's to_netcdf");
  Packing p;
  p.scale = file.number(v, "scale_factor").value_or(1);
  p.offset = file.number(v, "add_offset").value_or(0);
  if (p.scale == 0 || !std::isfinite(p.scale) || !std::isfinite(p.offset))
    refuse("variable '" + v.name + "' has scale_factor " + std::to_string(p.scale) + " and add_offset " +
               std::to_string(p.offset),
           "mend the attributes: ncatted");
  size_t n = 0;
  if (v.has_fill) p.missing[n++] = v.fill;
  for (double m : file.numbers(v, "missing_value", p.missing.size() - n))
    if (!(v.has_fill && m == v.fill)) p.missing[n++] = m;
  const auto range = file.numbers(v, "valid_range", 2);
  if (range.size() == 1)
    refuse("variable '" + v.name + "' has a valid_range of one number", "give it two: ncatted");
  const double inf = std::numeric_limits<double>::infinity();
  p.lowest = range.size() == 2 ? range[0] : file.number(v, "valid_min").value_or(-inf);
  p.highest = range.size() == 2 ? range[1] : file.number(v, "valid_max").value_or(inf);
  if (std::isnan(p.lowest) || std::isnan(p.highest))
    refuse("variable '" + v.name + "' has a valid range that is not a number",
           "mend the attributes: ncatted");
  return p;
}

}  // namespace isobar
