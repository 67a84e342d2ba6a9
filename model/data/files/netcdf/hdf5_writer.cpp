#include "model/data/files/netcdf/hdf5_writer.h"

#include <hdf5.h>

#include <filesystem>
#include <stdexcept>

#include "model/base/system/files.h"
#include "model/data/files/library_lock.h"

namespace isobar::data {

namespace fs = std::filesystem;

void FieldsWriter::fail(const std::string& doing) {
  throw std::runtime_error(path_ + ": cannot " + doing + " (is the disk full, or the directory read-only?)");
}

FieldsWriter::FieldsWriter(std::string path, int64_t steps, FieldShape shape,
                           const std::vector<std::string>& names, const std::vector<std::string>& units,
                           int deflate)
    : path_(std::move(path)), shape_(shape), steps_(steps) {
  const fs::path target(path_);
  part_ = (target.parent_path() / ("." + target.filename().string() + ".part")).string();
  const LibraryLock lock;
  file_ = H5Fcreate(part_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  if (file_ < 0) fail("create it");
  const auto dim = [](int64_t n) { return static_cast<hsize_t>(n); };
  const hsize_t dims[4] = {dim(steps), dim(shape.channels), dim(shape.height), dim(shape.width)};
  const hid_t space = H5Screate_simple(4, dims, nullptr), plist = H5Pcreate(H5P_DATASET_CREATE);
  if (deflate > 0) {
    const hsize_t chunk[4] = {1, 1, dim(shape.height), dim(shape.width)};
    H5Pset_chunk(plist, 4, chunk);
    H5Pset_shuffle(plist);
    H5Pset_deflate(plist, deflate);
  } else {
    H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER);  // every byte gets written by append
  }
  set_ = H5Dcreate2(file_, "fields", H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
  H5Pclose(plist);
  H5Sclose(space);
  if (set_ < 0) {
    H5Fclose(file_);
    file_ = -1;
    fail("create 'fields'");
  }
  put_texts("channels", names);
  put_texts("units", units);
}

void FieldsWriter::put_texts(const std::string& attribute, const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  pointers.reserve(texts.size());
  for (const std::string& t : texts) pointers.push_back(t.c_str());
  const hsize_t n = texts.size();
  const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &n, nullptr);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  const hid_t id = H5Acreate2(set_, attribute.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(id, type, pointers.data());
  H5Aclose(id);
  H5Sclose(space);
  H5Tclose(type);
}

void FieldsWriter::append(const float* fields) {
  const LibraryLock lock;
  const auto dim = [](int64_t n) { return static_cast<hsize_t>(n); };
  const hsize_t start[4] = {dim(written_), 0, 0, 0};
  const hsize_t count[4] = {1, dim(shape_.channels), dim(shape_.height), dim(shape_.width)};
  const hid_t space = H5Dget_space(set_), memory = H5Screate_simple(4, count, nullptr);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr);
  const herr_t rc = H5Dwrite(set_, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, fields);
  H5Sclose(memory);
  H5Sclose(space);
  if (rc < 0) fail("write step " + std::to_string(written_));
  ++written_;
}

void FieldsWriter::finish() {
  if (written_ != steps_) throw std::logic_error(path_ + ": finished early");
  {
    const LibraryLock lock;
    const bool ok = H5Dclose(set_) >= 0 && H5Fclose(file_) >= 0;
    set_ = file_ = -1;
    if (!ok) fail("close it");
  }
  rename_synced(part_, path_);
  part_.clear();
}

FieldsWriter::~FieldsWriter() {
  {
    const LibraryLock lock;
    if (set_ >= 0) H5Dclose(set_);
    if (file_ >= 0) H5Fclose(file_);
  }
  std::error_code ignored;
  if (!part_.empty()) fs::remove(part_, ignored);
}

}  // namespace isobar::data
