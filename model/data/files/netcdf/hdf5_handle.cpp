#include "model/data/files/netcdf/hdf5_handle.h"

#include <filesystem>

#include "model/data/files/netcdf/hdf5_sources.h"

namespace isobar::data {

hid_t metadata_access() {
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

namespace {

/// Links into other files are not followed, since the bytes of a dataset are accounted to its file. HDF5
/// would also block on a pipe that a link names.
hid_t without_external_links() {
  const hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
  const auto refuse = [](const char*, const char*, const char*, const char*, unsigned*, hid_t,
                         void*) -> herr_t { return -1; };
  H5Pset_elink_cb(access, refuse, nullptr);
  return access;
}

hid_t open_set(hid_t file, const std::string& name) {
  if (file < 0) throw ArrayError("HDF5 cannot open it: " + hdf5_message(), "copy or download it again");
  const Handle access(without_external_links(), H5Pclose);
  const hid_t id =
      H5Lexists(file, name.c_str(), access.id) > 0 ? H5Dopen2(file, name.c_str(), access.id) : -1;
  if (id >= 0) return id;
  H5L_info_t link;
  const std::string elsewhere =
      H5Lget_info(file, name.c_str(), &link, access.id) < 0 ? "" : external_link(file, name.c_str(), link);
  if (!elsewhere.empty())
    throw ArrayError("'" + name + "' is " + elsewhere, "name the file that holds the data");
  throw ArrayError("has no dataset '" + name + "' that can be opened",
                   "the NERSC layout needs: fields [time, channel, lat, lon]");
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

std::vector<std::string> names_beside(const std::string& path, const std::string& name) {
  struct Seen {
    std::string but;
    std::vector<std::string> names;
  } seen{name, {}};
  const LibraryLock lock(path);
  const Handle access(metadata_access(), H5Pclose);
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id), H5Fclose);
  const auto look = [](hid_t, const char* found, const H5L_info_t*, void* data) -> herr_t {
    auto& all = *static_cast<Seen*>(data);
    if (all.but != found) all.names.push_back("'" + std::string(found) + "'");
    return all.names.size() < 20 ? 0 : 1;
  };
  if (file.id >= 0) H5Literate(file.id, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, look, &seen);
  return seen.names;
}

bool has_nersc_layout(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  const LibraryLock lock(path);
  const Handle access(metadata_access(), H5Pclose);
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id), H5Fclose);
  if (file.id < 0) return ending != ".nc" && ending != ".nc4" && ending != ".cdf" && ending != ".netcdf";
  if (H5Lexists(file.id, "fields", H5P_DEFAULT) <= 0) return false;
  const Handle links(without_external_links(), H5Pclose);
  H5L_info_t link;
  if (H5Lget_info(file.id, "fields", &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD) return true;
  const Handle set(H5Dopen2(file.id, "fields", links.id), H5Dclose);
  return set.id < 0 || H5Aexists(set.id, "DIMENSION_LIST") <= 0;
}

Opened::Opened(const std::string& path, const std::string& name)
    : access(metadata_access(), H5Pclose),
      file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id), H5Fclose),
      set(open_set(file.id, name), H5Dclose) {}

}  // namespace isobar::data
