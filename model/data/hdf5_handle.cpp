#include "model/data/hdf5_handle.h"

#include <algorithm>
#include <filesystem>

namespace isobar {
namespace {

/// Room for the whole index of a file of many chunks; with a smaller cache each walk would read it from the
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

/// Refuses links into other files: a dataset's address is an offset in one file, and HDF5 would wait for a
/// pipe that a link names.
hid_t without_external_links() {
  const hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
  const auto refuse = [](const char*, const char*, const char*, const char*, unsigned*, hid_t,
                         void*) -> herr_t { return -1; };
  H5Pset_elink_cb(access, refuse, nullptr);
  return access;
}

/// "an external link to FILE" for an external link, else "".
std::string external_link(hid_t place, const char* name, const H5L_info_t& link) {
  if (link.type != H5L_TYPE_EXTERNAL) return "";
  std::string value(std::min<size_t>(link.u.val_size, 1 << 16), '\0');
  const char *file = nullptr, *object = nullptr;
  if (value.empty() || H5Lget_val(place, name, value.data(), value.size(), H5P_DEFAULT) < 0 ||
      H5Lunpack_elink_val(value.data(), value.size(), nullptr, &file, &object) < 0)
    return "an external link";
  return std::string("an external link to ") + file;
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

void require_own_links(const std::string& path) {
  const LibraryLock lock(path);
  const Handle access(large_metadata_cache(), H5Pclose);
  const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id), H5Fclose);
  if (file.id < 0) throw ArrayError("HDF5 cannot open it: " + hdf5_message(), "copy or download it again");
  std::string found;
  const auto look = [](hid_t group, const char* name, const H5L_info_t* link, void* data) -> herr_t {
    auto& text = *static_cast<std::string*>(data);
    if (link->type == H5L_TYPE_EXTERNAL)
      text = "'" + std::string(name) + "' is " + external_link(group, name, *link);
    return text.empty() ? 0 : 1;
  };
  if (H5Lvisit(file.id, H5_INDEX_NAME, H5_ITER_NATIVE, look, &found) < 0)
    throw ArrayError("HDF5 cannot list what it holds: " + hdf5_message(), "copy or download it again");
  if (!found.empty()) throw ArrayError(found, "name the file that holds the data");
}

std::vector<std::string> names_beside(const std::string& path, const std::string& name) {
  struct Seen {
    std::string but;
    std::vector<std::string> names;
  } seen{name, {}};
  const LibraryLock lock(path);
  const Handle access(large_metadata_cache(), H5Pclose);
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
  const Handle access(large_metadata_cache(), H5Pclose);
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
    : access(large_metadata_cache(), H5Pclose),
      file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id), H5Fclose),
      set(open_set(file.id, name), H5Dclose) {}

}  // namespace isobar
