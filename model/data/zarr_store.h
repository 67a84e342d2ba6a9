// Bytes by key, as Zarr keeps them: the files of a directory, or the members of a zip, stored or deflated.
//
//   const auto store = open_zarr_store("era5.zarr");            // throws ConfigError
//   std::vector<std::byte> bytes;
//   if (store->read("t2m/0.0.0", {}, bytes)) …                  // false: there is no such key
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/data/slab.h"

namespace isobar {

class ZarrStore {
 public:
  struct Part {
    int64_t offset = 0;  // below 0: from the end
    int64_t bytes = -1;  // -1: all
  };
  virtual ~ZarrStore() = default;
  /// False where there is no such key. Thread-safe. Throws ArrayError: unreadable, or shorter than the part.
  virtual bool read(const std::string& key, Part part, std::vector<std::byte>& out) const = 0;
  /// The same of a part, or of all, that has `bytes`, to where it is wanted; `arrived` as of read_exactly.
  virtual bool read_to(const std::string& key, Part part, std::byte* out, int64_t bytes,
                       const BytesArrived& arrived = {}) const;
  /// Whether a part is read without all that comes before it: not of what is deflated in a zip.
  virtual bool has_parts(const std::string& key) const = 0;
  /// What lies right below the root, or one of its groups, sorted.
  virtual std::vector<std::string> children(const std::string& group = "") const = 0;
};

/// Whether a path is a Zarr group: a directory with a group's metadata, or a zip with them at its root.
bool is_zarr(const std::filesystem::path& path);

std::unique_ptr<ZarrStore> open_zarr_store(const std::string& path);

}  // namespace isobar
