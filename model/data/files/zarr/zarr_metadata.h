// The metadata of a Zarr array, of version 2 (.zarray, .zattrs) or 3 (zarr.json), in one struct.
//
//   for (const ZarrMetadata& m : zarr_arrays(store)) … m.dims, m.chunk, m.attributes …
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/data/cf/cf_file.h"
#include "model/data/files/zarr/zarr_codecs.h"
#include "model/data/files/zarr/zarr_store.h"

namespace isobar::data {

struct ZarrMetadata {
  std::string name;
  int version = 2;
  Index dims, chunk;
  std::optional<Element> element;  // none: unsupported type
  std::string type;                // as in the store, for messages
  std::string datetime;            // unit of NumPy's datetime64, stored as i64
  bool swap = false;               // stored in the other endianness
  double fill = 0;                 // value of absent chunks
  bool fill_is_missing = false;    // Zarr 2: xarray reads it as _FillValue
  Index order;                     // stored order of axes; {} = C order
  ZarrCodecs codecs;
  std::string unread;  // why it cannot be read, an error only on use; "": it can
  // Chunk keys: prefix, then indices joined by the separator
  std::string prefix, separator;
  // Zarr 3: shape of a shard; `chunk` is then the inner chunk
  Index shard;
  ZarrCodecs index_codecs;
  bool index_first = false;
  std::vector<std::string> dimension_names;  // {} when absent
  nlohmann::json attributes;
};

/// All arrays directly below the root. Throws ArrayError for a store that is not Zarr.
std::vector<ZarrMetadata> zarr_arrays(const ZarrStore& store);

/// The groups below the root, with the names of their arrays; `known`: the arrays directly below the root.
std::vector<CfGroup> zarr_groups(const ZarrStore& store, const std::vector<ZarrMetadata>& known);

/// An array of the store. Throws ArrayError for one that cannot be read.
std::unique_ptr<RawArray> zarr_array(std::shared_ptr<const ZarrStore> store, ZarrMetadata about,
                                     std::shared_ptr<ChunkCache> cache);

/// A number in Zarr's JSON, where NaN and infinities are strings.
std::optional<double> zarr_number(const nlohmann::json& value);

}  // namespace isobar::data
