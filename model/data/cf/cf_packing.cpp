// Packing and missing values of a variable, from its attributes.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "model/base/dtype.h"
#include "model/data/cf/cf_file.h"

namespace isobar::data {

namespace {

bool is_floating(Element e) {
  return e == Element::f16 || e == Element::f32 || e == Element::f64;
}

/// An attribute's number rounded to the variable's type: the double 1e20 is not equal to any float.
double as_stored(double x, Element e, const Packing& p) {
  if (p.flips_sign) return in_range_of(other_sign(e), x);
  if (e == Element::f32 && std::abs(x) <= static_cast<double>(std::numeric_limits<float>::max()))
    return static_cast<double>(static_cast<float>(x));
  if (e == Element::f16 && std::abs(x) < 65520)
    return static_cast<double>(to_float(to_f16(static_cast<float>(x))));
  return x;
}

/// NetCDF User's Guide: a valid range whose type is that of the unpacked values, and wider than the packed
/// type, limits unpacked values. A floating-point range of packed integers does too, as no packed value has a
/// fraction.
bool is_of_unpacked(Element range, const CfVariable& v, const CfFile& file) {
  Element unpacked = v.element;
  for (const char* name : {"scale_factor", "add_offset"})
    if (const auto type = file.type_of(v, name))
      if (is_floating(*type) && (!is_floating(unpacked) || size_of(*type) > size_of(unpacked)))
        unpacked = *type;
  if (unpacked == v.element) return false;
  return is_floating(v.element) ? range == unpacked : is_floating(range);
}

/// Converts a limit of unpacked values to packed ones, with slack for rounding.
double packed_limit(double x, const Packing& p, bool lowest) {
  const double exact = (x - p.offset) / p.scale;
  const double slack = 1e-6 * std::max({1.0, std::abs(x / p.scale), std::abs(p.offset / p.scale)});
  return lowest ? exact - slack : exact + slack;
}

void set_limits(const CfFile& file, const CfVariable& v, Packing& p) {
  const auto range = file.numbers(v, "valid_range", 2);
  if (range.size() == 1)
    throw ArrayError("variable '" + v.name + "' has a valid_range of one number", "give it two: ncatted");
  const auto limit = [&](const char* name, size_t of_range, bool is_least) {
    const std::string attribute = range.size() == 2 ? "valid_range" : name;
    const auto x = range.size() == 2 ? std::optional(range[of_range]) : file.number(v, name);
    if (!x) return;
    if (std::isnan(*x))
      throw ArrayError("variable '" + v.name + "' has a valid range that is not a number",
                       "mend the attributes: ncatted");
    const auto type = file.type_of(v, attribute);
    const bool unpacked = type && is_of_unpacked(*type, v, file);
    if (unpacked && std::isinf(*x)) return;
    const bool low = is_least != (unpacked && p.scale < 0);
    (low ? p.lowest : p.highest) = unpacked ? packed_limit(*x, p, low) : as_stored(*x, v.element, p);
  };
  limit("valid_min", 0, true), limit("valid_max", 1, false);
}

/// True when _Unsigned gives the stored bits another sign than the variable's type does.
bool has_other_sign(const CfFile& file, const CfVariable& v) {
  std::string marked = file.text(v, "_Unsigned");
  std::transform(marked.begin(), marked.end(), marked.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const char sign = name_of(v.element)[0];
  if (!(marked == "true" && sign == 'i') && !(marked == "false" && sign == 'u')) return false;
  if (other_sign(v.element) == v.element)
    throw ArrayError("variable '" + v.name + "' is of 64 bits and marked _Unsigned",
                     "convert it: ncap2, or xarray's to_netcdf");
  return true;
}

}  // namespace

Packing packing_of(const CfFile& file, const CfVariable& v) {
  file.numbers(v, "_FillValue", 1);  // throws for one that is no number
  Packing p;
  p.flips_sign = has_other_sign(file, v);
  p.scale = file.number(v, "scale_factor").value_or(1);
  p.offset = file.number(v, "add_offset").value_or(0);
  if (p.scale == 0 || !std::isfinite(p.scale) || !std::isfinite(p.offset))
    throw ArrayError("variable '" + v.name + "' has scale_factor " + std::to_string(p.scale) +
                         " and add_offset " + std::to_string(p.offset),
                     "mend the attributes: ncatted");
  size_t n = 0;
  const double fill = as_stored(v.fill, v.element, p);
  if (v.has_fill) p.missing[n++] = fill;
  for (double m : file.numbers(v, "missing_value", p.missing.size() - n)) {
    m = as_stored(m, v.element, p);
    if (!(v.has_fill && m == fill)) p.missing[n++] = m;
  }
  set_limits(file, v, p);
  return p;
}

}  // namespace isobar::data
