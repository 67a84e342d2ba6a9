#include "model/data/files/netcdf/hdf5_sources.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <vector>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/data/files/netcdf/hdf5_handle.h"

namespace isobar::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostSources = 100'000;  // of a file's virtual datasets
const char* const kOneFile = "copy the data into one file (h5repack -l CONTI OLD NEW), and name that";

class SourceWalk {
 public:
  void dataset(hid_t set, const std::string& path, const std::string& name) {
    const Handle plist(H5Dget_create_plist(set), H5Pclose);
    if (plist.id < 0) throw ArrayError(hdf5_message(), kDamagedFile);
    const H5D_layout_t layout = H5Pget_layout(plist.id);
    if (layout == H5D_CONTIGUOUS && H5Pget_external_count(plist.id) > 0) refuse_storage(plist.id, name);
    if (layout == H5D_VIRTUAL) take_sources(plist.id, path, name);
  }

  void files() {
    while (!to_see_.empty()) {
      const std::string path = std::move(to_see_.back());
      to_see_.pop_back();
      file(path);
    }
  }

  void add(const std::string& path) {
    std::error_code unknown;
    const fs::path real = fs::canonical(path, unknown);
    if (seen_.insert(unknown ? path : real.string()).second) to_see_.push_back(path);
    if (seen_.size() > kMostSources)
      throw ArrayError("maps more than 100,000 files", "map fewer, or join some of them");
  }

 private:
  struct Visit {
    SourceWalk& walk;
    const std::string& path;
    std::string what = {}, mend = {};
  };

  void file(const std::string& path) {
    const Handle access(metadata_access(), H5Pclose);
    const Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id), H5Fclose);
    if (file.id < 0) throw ArrayError("HDF5 cannot open it: " + hdf5_message(), "copy or download it again");
    Visit visit{*this, path};
    if (H5Lvisit(file.id, H5_INDEX_NAME, H5_ITER_NATIVE, look_at_link, &visit) < 0)
      throw ArrayError("HDF5 cannot list what it holds: " + hdf5_message(), "copy or download it again");
    if (visit.what.empty() &&
        H5Ovisit2(file.id, H5_INDEX_NAME, H5_ITER_NATIVE, look_at_object, &visit, H5O_INFO_BASIC) < 0)
      throw ArrayError("HDF5 cannot list what it holds: " + hdf5_message(), "copy or download it again");
    if (!visit.what.empty()) throw ArrayError(visit.what, visit.mend);
  }

  static herr_t look_at_link(hid_t group, const char* name, const H5L_info_t* link, void* data) {
    Visit& visit = *static_cast<Visit*>(data);
    if (link->type != H5L_TYPE_EXTERNAL) return 0;
    visit.what = "'" + std::string(name) + "' is " + external_link(group, name, *link);
    visit.mend = "name the file that holds the data";
    return 1;
  }

  // An exception must not pass through the library that calls this.
  static herr_t look_at_object(hid_t root, const char* name, const H5O_info_t* object, void* data) {
    Visit& visit = *static_cast<Visit*>(data);
    if (object->type != H5O_TYPE_DATASET) return 0;
    try {
      const Handle set(H5Dopen2(root, name, H5P_DEFAULT), H5Dclose);
      if (set.id < 0) return 0;  // its reader fails the same way
      visit.walk.dataset(set.id, visit.path, name);
      return 0;
    } catch (const ArrayError& e) {
      visit.what = e.what(), visit.mend = e.mend;
    } catch (const std::exception& e) {
      visit.what = e.what();
    }
    return 1;
  }

  [[noreturn]] static void refuse_storage(hid_t plist, const std::string& name) {
    char source[4096] = "";
    H5Pget_external(plist, 0, sizeof source - 1, source, nullptr, nullptr);
    throw ArrayError("'" + name + "' keeps its data in another file (external storage: " + source + ")",
                     kOneFile);
  }

  void take_sources(hid_t plist, const std::string& path, const std::string& name) {
    size_t sources = 0;
    if (H5Pget_virtual_count(plist, &sources) < 0) throw ArrayError(hdf5_message(), kDamagedFile);
    if (sources > kMostSources)
      throw ArrayError("'" + name + "' maps more than 100,000 datasets", kDamagedFile);
    for (size_t i = 0; i < sources; ++i) {
      char source[4096] = "", set[1024] = "";
      const ssize_t length = H5Pget_virtual_filename(plist, i, source, sizeof source);
      if (length < 0 || length >= static_cast<ssize_t>(sizeof source) ||
          H5Pget_virtual_dsetname(plist, i, set, sizeof set) < 0)
        throw ArrayError(hdf5_message(), kDamagedFile);
      const std::string from = path_of(source, path, name);
      std::error_code unknown;
      if (fs::equivalent(from, path, unknown) && (name == set || "/" + name == set))
        throw ArrayError("'" + name + "' is a virtual dataset that maps itself",
                         "map the dataset that holds the data");
      add(from);
    }
  }

  // HDF5 waits for pipes, reads devices, and takes fill values for the data of a file that is not there; what
  // is not beside the file it looks for in the working directory.
  static std::string path_of(const std::string& source, const std::string& path, const std::string& name) {
    if (source == ".") return path;
    const fs::path given(source);
    const auto refuse = [&](const std::string& why, const std::string& mend) {
      throw ArrayError("'" + name + "' is a virtual dataset that maps " + source + ", " + why, mend);
    };
    if (given.is_absolute() || std::find(given.begin(), given.end(), "..") != given.end())
      refuse("which is not named inside of its folder",
             "map files beside it by their names alone, or " + std::string(kOneFile));
    if (source.find('%') != std::string::npos)
      refuse("a pattern of names", "map files by their names, or " + std::string(kOneFile));
    if (const char* prefix = std::getenv("HDF5_VDS_PREFIX"); prefix && *prefix)
      refuse(std::string("which HDF5 would look for in ") + prefix, "unset HDF5_VDS_PREFIX");
    const fs::path beside = fs::path(path).parent_path() / given;
    try {
      const InputFile readable(beside);
    } catch (const ConfigError& e) {  // says what to do
      throw ArrayError("'" + name + "' takes its data from another file: " + e.what(), "");
    }
    return beside.string();
  }

  std::set<std::string> seen_;
  std::vector<std::string> to_see_;
};

}  // namespace

std::string external_link(hid_t place, const char* name, const H5L_info_t& link) {
  if (link.type != H5L_TYPE_EXTERNAL) return "";
  std::string value(std::min<size_t>(link.u.val_size, 1 << 16), '\0');
  const char *file = nullptr, *object = nullptr;
  if (value.empty() || H5Lget_val(place, name, value.data(), value.size(), H5P_DEFAULT) < 0 ||
      H5Lunpack_elink_val(value.data(), value.size(), nullptr, &file, &object) < 0)
    return "an external link";
  return std::string("an external link to ") + file;
}

void require_own_bytes(const std::string& path) {
  SourceWalk walk;
  walk.add(path);
  walk.files();
}

void require_own_bytes(hid_t set, const std::string& path, const std::string& name) {
  SourceWalk walk;
  walk.dataset(set, path, name);
  walk.files();
}

}  // namespace isobar::data
