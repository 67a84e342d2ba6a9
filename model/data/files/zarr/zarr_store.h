// A Zarr key-value store: the files of a directory, or the members of a zip, stored or deflated.
//
//   const auto store = open_zarr_store("era5.zarr");            // throws ConfigError
//   std::vector<std::byte> bytes;
//   if (store->read("t2m/0.0.0", {}, bytes)) …                  // false: no such key
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/data/fields/slab.h"

namespace isobar::data {

class ZarrStore {
 public:
  struct Part {
    int64_t offset = 0;  // below 0: from the end
    int64_t bytes = -1;  // -1: all
  };
  virtual ~ZarrStore() = default;
  /// Reads a part; false when there is no such key. Thread-safe; throws ArrayError: unreadable, or shorter
  /// than the part.
  virtual bool read(const std::string& key, Part part, std::vector<std::byte>& out) const = 0;
  /// Reads a part of `bytes` bytes straight to `out`; `arrived` as in read_exactly.
  virtual bool read_to(const std::string& key, Part part, std::byte* out, int64_t bytes,
                       const BytesArrived& arrived = {}) const;
  /// True when a part can be read without the bytes before it: false for deflated members of a zip.
  virtual bool has_parts(const std::string& key) const = 0;
  /// Sorted names directly below the root or a group.
  virtual std::vector<std::string> children(const std::string& group = "") const = 0;
};

/// True for a Zarr group: a directory with group metadata, or a zip with them at its root.
bool is_zarr(const std::filesystem::path& path);

std::unique_ptr<ZarrStore> open_zarr_store(const std::string& path);

}  // namespace isobar::data
