#include "model/data/hdf5_handle.h"

namespace isobar {
namespace {

/// Room for the whole index of a file of many chunks: with less, each walk over it would read it from the
/// file again.
hid_t large_metadata_cache() {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5AC_cache_config_t cache;
  cache.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  if (H5Pget_mdc_config(access, &cache) >= 0) {
    cache.set_initial_size = true;
    cache.initial_size = cache.max_size = size_t{32} << 20;
    H5Pset_mdc_config(access, &cache);
  }
  return access;
}

hid_t open_set(hid_t file, const std::string& name) {
  if (file < 0) throw ArrayError("HDF5 cannot open it: " + hdf5_message(), "copy or download it again");
  const hid_t id =
      H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0 ? H5Dopen2(file, name.c_str(), H5P_DEFAULT) : -1;
  if (id < 0)
    throw ArrayError("has no dataset '" + name + "'",
                     "the NERSC layout needs: fields [time, channel, lat, lon]");
  return id;
}

}  // namespace

std::string hdf5_message() {
  std::string text;
  const auto keep = [](unsigned, const H5E_error2_t* e, void* data) -> herr_t {
    if (e->desc && *e->desc) *static_cast<std::string*>(data) = e->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep, &text);
  return text.empty() ? "unknown HDF5 error" : text;
}

Opened::Opened(const std::string& path, const std::string& name)
    : access(large_metadata_cache(), H5Pclose),
      file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id), H5Fclose),
      set(open_set(file.id, name), H5Dclose) {}

}  // namespace isobar
