// Writes fields as a Zarr group, version 2 or 3, like xarray: a variable [time, latitude, longitude] for each
// channel, and the axes. Renamed to its path when complete.
//
//   ZarrWriter out("era5.zarr", info, {.version = 3, .compressor = "zstd"});   // throws ConfigError
//   out.append(fields);   …   out.finish();                                    // [C,H,W]; NaN: missing
#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/data/fields/field_file.h"

namespace isobar::data {

struct ZarrLayout {
  int version = 2;
  int64_t steps = 1, rows = 0, columns = 0;  // chunk sizes; 0 = all
  std::string compressor = "zstd";           // none | zstd | blosc (lz4, shuffled)
};

class ZarrWriter {
 public:
  ZarrWriter(std::string path, const FieldInfo& info, ZarrLayout layout);
  ~ZarrWriter();  // without finish(): removes the incomplete group
  ZarrWriter(const ZarrWriter&) = delete;
  ZarrWriter& operator=(const ZarrWriter&) = delete;
  /// Writes a variable without a time axis, [H, W]
  void put_still(const std::string& name, const std::string& units, const std::vector<float>& values) const;
  void append(const float* fields);
  void finish();

 private:
  void put(const std::string& key, const std::string& bytes) const;
  void put_array(const std::string& name, const std::vector<std::string>& axes, const Index& dims,
                 const Index& chunk, bool of_floats, const nlohmann::json& attributes) const;
  void put_axis(const std::string& name, const std::vector<double>& values,
                const nlohmann::json& attributes) const;
  void put_chunks();
  std::string compressed(const std::vector<float>& chunk) const;

  std::string path_, part_;
  FieldInfo info_;
  ZarrLayout layout_;
  std::vector<float> held_;  // buffered steps of one chunk: [steps, C, H, W]
  int64_t written_ = 0;
};

}  // namespace isobar::data
