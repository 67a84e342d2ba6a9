#include "model/data/written/netcdf_output.h"

#include <netcdf.h>

#include <filesystem>
#include <new>
#include <numeric>
#include <utility>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/joined.h"
#include "model/data/files/library_lock.h"
#include "model/data/files/netcdf/netcdf_path.h"

namespace isobar::data {

NetcdfOutput::NetcdfOutput(std::string path, bool classic) : path_(std::move(path)), part_(path_ + ".part") {
  const LibraryLock lock;
  check(nc_create(netcdf_path(part_).c_str(),
                  NC_CLOBBER | (classic ? NC_64BIT_OFFSET : NC_NETCDF4 | NC_CLASSIC_MODEL), &file_),
        "create it");
}

NetcdfOutput::~NetcdfOutput() {
  if (file_ < 0) return;
  const LibraryLock lock;
  nc_abort(file_);
  std::error_code gone;
  std::filesystem::remove(part_, gone);
}

void NetcdfOutput::check(int rc, const std::string& doing) const {
  if (rc == NC_NOERR) return;
  if (rc == NC_ENOMEM) throw std::bad_alloc();
  throw ConfigError(path_, "", "cannot " + doing + ": " + nc_strerror(rc),
                    "give a folder that exists, can be written and has room");
}

int NetcdfOutput::dimension(const std::string& name, int64_t size) {
  int id = -1;
  check(nc_def_dim(file_, name.c_str(), static_cast<size_t>(size), &id), "define " + name);
  return id;
}

int NetcdfOutput::variable(const std::string& name, int type, const std::vector<int>& dimensions) {
  int id = -1;
  check(nc_def_var(file_, name.c_str(), type, static_cast<int>(dimensions.size()), dimensions.data(), &id),
        "define " + name);
  return id;
}

void NetcdfOutput::text(int variable, const std::string& attribute, const std::string& value) {
  check(nc_put_att_text(file_, variable, attribute.c_str(), value.size(), value.c_str()),
        "write " + attribute);
}

void NetcdfOutput::fill_value(int variable, float missing) {
  check(nc_put_att_float(file_, variable, "_FillValue", NC_FLOAT, 1, &missing), "say what is missing");
}

void NetcdfOutput::flags(int variable, const std::vector<std::string>& meanings) {
  std::vector<int> numbers(meanings.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  check(nc_put_att_int(file_, variable, "flag_values", NC_INT, numbers.size(), numbers.data()),
        "write flag_values");
  text(variable, "flag_meanings", joined(meanings, " "));
}

int NetcdfOutput::coordinate(const std::string& name, int dimension, const std::string& units,
                             std::vector<double> values, const std::string& standard_name) {
  if (values.empty()) return -1;
  const int id = variable(name, NC_DOUBLE, {dimension});
  if (!standard_name.empty()) text(id, "standard_name", standard_name);
  text(id, "units", units);
  coordinates_[id] = std::move(values);
  return id;
}

void NetcdfOutput::end_header() {
  check(nc_enddef(file_), "end its header");
  for (const auto& [variable, values] : coordinates_)
    check(nc_put_var_double(file_, variable, values.data()), "write coordinates");
}

void NetcdfOutput::finish() {
  {
    const LibraryLock lock;
    const int rc = nc_close(std::exchange(file_, -1));
    if (rc != NC_NOERR) std::filesystem::remove(part_);
    check(rc, "close it");
  }
  rename_synced(part_, path_);
}

}  // namespace isobar::data
