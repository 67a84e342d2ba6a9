#include "model/data/fields/static_fields.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "model/base/error.h"
#include "model/base/text/joined.h"
#include "model/data/cf/cf_grid.h"
#include "model/data/fields/channels.h"
#include "model/data/fields/slab.h"

namespace isobar::data {

namespace {

namespace fs = std::filesystem;

/// True for a variable on rows and columns with at most one step and level
bool is_still(const CfFile& file, const CfVariable& v, const CfPlaces& at) {
  for (size_t k = 0; k < v.dims.size(); ++k)
    if (static_cast<int>(k) != at.row && static_cast<int>(k) != at.column &&
        file.dimensions()[v.dims[k]].size != 1)
      return false;
  return v.numeric && !v.dates && at.row >= 0 && at.column >= 0;
}

/// The whole grid, north first.
std::vector<float> all_of(CfFile& file, const CfVariable& v, const CfPlaces& p, const CfGrid& grid) {
  const Packing packing = packing_of(file, v);
  const auto array = file.array(v, std::make_shared<ChunkCache>(0));
  const Index dims = array->dims();
  declared_product(dims);
  std::vector<std::byte> raw(static_cast<size_t>(product(dims) * size_of(array->element())));
  array->read(Index(dims.size(), 0), dims, raw.data());
  std::vector<float> flat(static_cast<size_t>(product(dims)));
  std::vector<float> out(static_cast<size_t>(grid.rows * grid.columns));
  unpack(raw.data(), array->element(), product(dims), packing, flat.data(), true);
  const Index strides = strides_of(dims);
  for (int64_t i = 0; i < grid.rows; ++i)
    for (int64_t j = 0; j < grid.columns; ++j) {
      const int64_t row = grid.south_first ? grid.rows - 1 - i : i;
      out[i * grid.columns + j] = flat[row * strides[p.row] + j * strides[p.column]];
    }
  return out;
}

std::vector<float> chosen(const std::vector<float>& all, int64_t columns, const ChosenGrid& grid) {
  std::vector<float> out;
  for (int64_t i = 0; i < grid.rows; i += grid.stride) {
    int64_t j = 0;
    for (const ChosenGrid::Run& run : grid.runs)
      for (int64_t k = 0; k < run.count; ++k, ++j)
        if (j % grid.stride == 0) out.push_back(all[(grid.first_row + i) * columns + run.first + k]);
  }
  return out;
}

}  // namespace

bool same_axis(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
           if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);  // beyond a disc's edge
           return std::abs(x - y) <= 1e-5 * std::max(1.0, std::abs(x));
         });
}

bool same_longitudes(const std::vector<double>& a, std::vector<double> b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) b[i] = a[i] + std::remainder(b[i] - a[i], 360.0);
  return same_axis(a, b);
}

StaticField read_static_field(const std::vector<fs::path>& files, const std::string& key,
                              const std::string& name, const FieldInfo& like, const ChosenGrid& grid) {
  std::vector<std::string> has;
  for (const fs::path& path : files) {
    try {
      const auto file = open_cf_file(path);
      for (const CfVariable& v : file->variables())
        if (is_still(*file, v, places_of(*file, v))) has.push_back(v.name);
      const CfVariable* v = file->find(name);
      const CfPlaces p = v ? places_of(*file, *v) : CfPlaces{};
      if (!v || !is_still(*file, *v, p)) continue;
      const CfGrid g = grid_of(*file, *v, p);
      const bool alike = (like.latitude.empty() || same_axis(g.latitude, like.latitude)) &&
                         (like.longitude.empty() || same_longitudes(g.longitude, like.longitude)) &&
                         (like.grid_identity.empty() || same_axis(g.identity, like.grid_identity)) &&
                         g.rows == like.shape.height && g.columns == like.shape.width;
      if (!alike)
        throw ConfigError(path, key, "'" + name + "' lies on another grid than " + like.path,
                          "put it on that grid: cdo remapbil, or ncks");
      StaticField field{.name = showable(name), .units = showable(file->text(*v, "units"))};
      field.values = chosen(all_of(*file, *v, p, g), like.shape.width, grid);
      return field;
    } catch (const ArrayError& e) {
      throw ConfigError(path, key, e.what(), e.mend);
    }
  }
  throw ConfigError(
      files.empty() ? like.path : files[0].string(), key,
      "there is no variable '" + name + "' without a time axis",
      has.empty() ? "name a NetCDF or Zarr that has it: data.static_file" : "there are: " + joined(has));
}

}  // namespace isobar::data
