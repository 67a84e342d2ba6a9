#include "model/data/files/netcdf/netcdf_file.h"

#include <netcdf.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "model/base/system/files.h"
#include "model/data/fields/slab.h"
#include "model/data/files/library_lock.h"
#include "model/data/files/netcdf/hdf5_array.h"
#include "model/data/files/netcdf/hdf5_sources.h"
#include "model/data/files/netcdf/netcdf_path.h"

namespace isobar::data {

namespace {

bool element_of(nc_type type, Element& e) {
  switch (type) {
    case NC_BYTE:
      e = Element::i8;
      return true;
    case NC_UBYTE:
      e = Element::u8;
      return true;
    case NC_SHORT:
      e = Element::i16;
      return true;
    case NC_USHORT:
      e = Element::u16;
      return true;
    case NC_INT:
      e = Element::i32;
      return true;
    case NC_UINT:
      e = Element::u32;
      return true;
    case NC_INT64:
      e = Element::i64;
      return true;
    case NC_UINT64:
      e = Element::u64;
      return true;
    case NC_FLOAT:
      e = Element::f32;
      return true;
    case NC_DOUBLE:
      e = Element::f64;
      return true;
    default:
      return false;
  }
}

constexpr size_t kLongestAttribute = 1 << 20;
const char* const kNetcdfMend = "the file is damaged: copy or download it again";

}  // namespace

void NetcdfFile::check(int rc, const std::string& doing) const {
  if (rc != NC_NOERR)
    throw ArrayError("netCDF cannot " + doing + ": " + nc_strerror(rc), "copy or download the file again");
}

NetcdfFile::NetcdfFile(const std::string& path) : path_(path) {
  const LibraryLock lock(path_);
  {
    const InputFile file(path);
    file_bytes_ = file.size();
    char magic[4] = "";
    if (::pread(file.fd(), magic, sizeof magic, 0) == sizeof magic && std::memcmp(magic, "\x89HDF", 4) == 0)
      require_own_bytes(path);
  }
  const int rc = nc_open(netcdf_path(path).c_str(), NC_NOWRITE, &id_);
  if (rc != NC_NOERR) id_ = -1;
  check(rc, "open it");
  try {
    read_metadata();
  } catch (...) {
    nc_close(id_);
    throw;
  }
}

NetcdfFile::~NetcdfFile() {
  close();
}

void NetcdfFile::close() {
  if (id_ < 0) return;
  const LibraryLock lock(path_);
  nc_close(std::exchange(id_, -1));
}

std::unique_ptr<RawArray> NetcdfFile::array(const CfVariable& v, const std::shared_ptr<ChunkCache>& cache) {
  close();  // HDF5 refuses to open a file that netCDF has open
  if (hdf5_) return std::make_unique<Hdf5Array>(path_, v.name, cache);
  return classic_array(path_, v.name);
}

void NetcdfFile::read_metadata() {
  int format = 0, n_dims = 0, n_vars = 0;
  check(nc_inq_format(id_, &format), "tell the format");
  hdf5_ = format == NC_FORMAT_NETCDF4 || format == NC_FORMAT_NETCDF4_CLASSIC;
  check(nc_inq(id_, &n_dims, &n_vars, nullptr, nullptr), "list the variables");
  char name[NC_MAX_NAME + 1];
  // Dimension ids are those of the whole file; they need not start at 0 or be contiguous.
  std::vector<int> dim_ids(std::max(n_dims, 0));
  check(nc_inq_dimids(id_, &n_dims, dim_ids.data(), 0), "list the dimensions");
  for (const int d : dim_ids) {
    size_t size = 0;
    check(nc_inq_dim(id_, d, name, &size), "read a dimension");
    dimensions_.push_back({name, static_cast<int64_t>(size)});
  }
  for (int i = 0; i < n_vars; ++i) {
    CfVariable v;
    v.id = i;
    nc_type type = 0;
    int rank = 0, ids[NC_MAX_VAR_DIMS];
    check(nc_inq_var(id_, i, name, &type, &rank, ids, nullptr), "read a variable");
    v.name = name;
    v.numeric = element_of(type, v.element);
    if (!v.numeric && rank > 0) v.type = type == NC_CHAR || type == NC_STRING ? "text" : "records";
    for (int k = 0; k < rank; ++k) {
      const auto at = std::find(dim_ids.begin(), dim_ids.end(), ids[k]) - dim_ids.begin();
      v.dims.push_back(at);
      if (at == static_cast<int64_t>(dim_ids.size())) v.numeric = false;  // of a group that is not read
    }
    if (!v.numeric) v.dims.clear();
    if (v.numeric) read_fill(v, type);
    variables_.push_back(v);
  }
  if (hdf5_) read_groups(id_, "");
}

void NetcdfFile::read_fill(CfVariable& v, nc_type type) const {
  nc_type of = 0;
  size_t n = 0;
  Element ignored{};
  if (nc_inq_att(id_, v.id, "_FillValue", &of, &n) == NC_NOERR) {  // may have any type
    v.has_fill =
        n == 1 && element_of(of, ignored) && nc_get_att_double(id_, v.id, "_FillValue", &v.fill) == NC_NOERR;
    return;
  }
  int no_fill = 0;
  alignas(8) char fill[8] = {};
  if (nc_inq_var_fill(id_, v.id, &no_fill, fill) != NC_NOERR) return;
  // One-byte types have no default fill value, because all of their values may be data.
  v.has_fill = !no_fill && type != NC_BYTE && type != NC_UBYTE;
  v.fill = as_double(fill, v.element);
}

void NetcdfFile::read_groups(int of, const std::string& path) {
  constexpr size_t kMost = 256;  // limit for damaged files
  int count = 0;
  if (nc_inq_grps(of, &count, nullptr) != NC_NOERR || count <= 0) return;
  std::vector<int> ids(static_cast<size_t>(count));
  check(nc_inq_grps(of, &count, ids.data()), "list the groups");
  char name[NC_MAX_NAME + 1];
  for (const int id : ids) {
    if (groups_.size() >= kMost) return;
    check(nc_inq_grpname(id, name), "read a group");
    CfGroup group{.name = path + name};
    int n = 0;
    check(nc_inq_nvars(id, &n), "list the variables of a group");
    for (int v = 0; v < n && group.variables.size() < kMost; ++v)
      if (nc_inq_varname(id, v, name) == NC_NOERR) group.variables.emplace_back(name);
    const std::string below = group.name + "/";
    groups_.push_back(std::move(group));
    read_groups(id, below);
  }
}

std::string NetcdfFile::text(const CfVariable& v, const std::string& attribute) const {
  const LibraryLock lock(path_);
  nc_type type = 0;
  size_t n = 0;
  if (nc_inq_att(id_, v.id, attribute.c_str(), &type, &n) != NC_NOERR || n == 0) return "";
  if (n > kLongestAttribute)
    throw ArrayError("attribute '" + attribute + "' is longer than any text", kNetcdfMend);
  if (type == NC_CHAR) {
    std::string s(n, '\0');
    check(nc_get_att_text(id_, v.id, attribute.c_str(), s.data()), "read an attribute");
    return s.c_str();  // some writers include the final zero
  }
  if (type != NC_STRING) return "";
  std::vector<char*> strings(n);
  check(nc_get_att_string(id_, v.id, attribute.c_str(), strings.data()), "read an attribute");
  std::string s = strings[0] ? strings[0] : "";
  nc_free_string(n, strings.data());
  return s;
}

std::vector<double> NetcdfFile::numbers(const CfVariable& v, const std::string& attribute,
                                        size_t at_most) const {
  const LibraryLock lock(path_);
  nc_type type = 0;
  size_t n = 0;
  if (nc_inq_att(id_, v.id, attribute.c_str(), &type, &n) != NC_NOERR) return {};
  Element e{};
  const bool number = element_of(type, e);
  if (!number || n > at_most || n == 0)
    refuse_numbers(v.name, attribute, number ? std::to_string(n) + " numbers" : "another type than numbers",
                   at_most);
  std::vector<double> out(n);
  check(nc_get_att_double(id_, v.id, attribute.c_str(), out.data()), "read an attribute");
  return out;
}

std::optional<Element> NetcdfFile::type_of(const CfVariable& v, const std::string& attribute) const {
  const LibraryLock lock(path_);
  nc_type type = 0;
  Element e{};
  const bool there = nc_inq_att(id_, v.id, attribute.c_str(), &type, nullptr) == NC_NOERR;
  return there && element_of(type, e) ? std::optional(e) : std::nullopt;
}

void NetcdfFile::require_held(const CfVariable& v) const {
  isobar::data::require_held(v.name, declared_product(sizes_of(v)) * size_of(v.element), file_bytes_, hdf5_);
}

std::vector<double> NetcdfFile::values(const CfVariable& v) const {
  require_held(v);
  int64_t n = 1;
  for (int64_t d : v.dims) n *= dimensions_[d].size;
  std::vector<double> out(n);
  const LibraryLock lock(path_);
  check(nc_get_var_double(id_, v.id, out.data()), "read '" + v.name + "'");
  return out;
}

std::vector<double> NetcdfFile::values_at(const CfVariable& v, int64_t step) const {
  std::vector<size_t> start(v.dims.size(), 0), count;
  size_t n = 1;
  for (const int64_t d : v.dims) count.push_back(static_cast<size_t>(dimensions_[d].size));
  start[0] = static_cast<size_t>(step), count[0] = 1;
  for (const size_t along : count) n *= along;
  std::vector<double> out(n);
  const LibraryLock lock(path_);
  check(nc_get_vara_double(id_, v.id, start.data(), count.data(), out.data()), "read '" + v.name + "'");
  return out;
}

}  // namespace isobar::data
