#include "model/data/static_fields.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "model/base/error.h"
#include "model/data/cf_file.h"
#include "model/data/channels.h"
#include "model/data/slab.h"

namespace isobar {

namespace {

namespace fs = std::filesystem;

struct Placed {  // a variable's axes
  int row = -1, column = -1;
  bool is_field = true;  // of one step and level
};

Placed place(const CfFile& file, const CfVariable& v) {
  Placed p;
  for (size_t k = 0; k < v.dims.size(); ++k) {
    const CfAxis axis = axis_of(file, v.dims[k]);
    if (axis == CfAxis::latitude) p.row = static_cast<int>(k);
    if (axis == CfAxis::longitude) p.column = static_cast<int>(k);
    if (axis != CfAxis::latitude && axis != CfAxis::longitude && file.dimensions()[v.dims[k]].size != 1)
      p.is_field = false;
  }
  p.is_field = p.is_field && v.numeric && p.row >= 0 && p.column >= 0;
  return p;
}

/// The whole grid, north first.
std::vector<float> all_of(CfFile& file, const CfVariable& v, const Placed& p, bool south_first) {
  const Packing packing = packing_of(file, v);
  const auto array = file.array(v, std::make_shared<ChunkCache>(0));
  const Index dims = array->dims();
  declared_product(dims);
  std::vector<std::byte> raw(static_cast<size_t>(product(dims) * size_of(array->element())));
  array->read(Index(dims.size(), 0), dims, raw.data());
  std::vector<float> flat(static_cast<size_t>(product(dims))), out(flat.size());
  unpack(raw.data(), array->element(), product(dims), packing, flat.data(), true);
  const Index strides = strides_of(dims);
  for (int64_t i = 0; i < dims[p.row]; ++i)
    for (int64_t j = 0; j < dims[p.column]; ++j) {
      const int64_t row = south_first ? dims[p.row] - 1 - i : i;
      out[i * dims[p.column] + j] = flat[row * strides[p.row] + j * strides[p.column]];
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
           return std::abs(x - y) <= 1e-5 * std::max(1.0, std::abs(x));
         });
}

StaticField read_static_field(const std::vector<fs::path>& files, const std::string& key,
                              const std::string& name, const FieldInfo& like, const ChosenGrid& grid) {
  std::vector<std::string> has;
  for (const fs::path& path : files) {
    try {
      const auto file = open_cf_file(path);
      for (const CfVariable& v : file->variables())
        if (place(*file, v).is_field) has.push_back(v.name);
      const CfVariable* v = file->find(name);
      const Placed p = v ? place(*file, *v) : Placed{.is_field = false};
      if (!v || !p.is_field) continue;
      std::vector<double> latitude = coordinate_of(*file, v->dims[p.row]);
      const bool south_first = latitude.size() > 1 && latitude.front() < latitude.back();
      if (south_first) std::reverse(latitude.begin(), latitude.end());
      const std::vector<double> longitude = coordinate_of(*file, v->dims[p.column]);
      const bool alike = (like.latitude.empty() || same_axis(latitude, like.latitude)) &&
                         (like.longitude.empty() || same_axis(longitude, like.longitude)) &&
                         static_cast<int64_t>(latitude.size()) == like.shape.height &&
                         static_cast<int64_t>(longitude.size()) == like.shape.width;
      if (!alike)
        throw ConfigError(path, key, "'" + name + "' lies on another grid than " + like.path,
                          "put it on that grid: cdo remapbil, or ncks");
      StaticField field{.name = showable(name), .units = showable(file->text(*v, "units"))};
      field.values = chosen(all_of(*file, *v, p, south_first), like.shape.width, grid);
      return field;
    } catch (const ArrayError& e) {
      throw ConfigError(path, key, e.what(), e.mend);
    }
  }
  throw ConfigError(
      files.empty() ? like.path : files[0].string(), key,
      "there is no variable '" + name + "' without a time axis",
      has.empty() ? "name a NetCDF or Zarr that has it: data.static_file" : "there are: " + listed(has));
}

}  // namespace isobar
