// What Zarr says of an array, by version 2 (.zarray, .zattrs) or 3 (zarr.json), as one struct.
//
//   for (const ZarrMetadata& m : zarr_arrays(store)) … m.dims, m.chunk, m.attributes …
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/data/cf_file.h"
#include "model/data/zarr_codecs.h"
#include "model/data/zarr_store.h"

namespace isobar {

struct ZarrMetadata {
  std::string name;
  int version = 2;
  Index dims, chunk;
  std::optional<Element> element;  // none: no numbers that are read
  std::string type;                // as the store has it: for people
  std::string datetime;            // the unit of numpy's datetime64, whose element is i64
  bool swap = false;               // stored in the other byte order
  double fill = 0;                 // of chunks that are not there
  bool fill_is_missing = false;    // Zarr 2: what xarray takes for _FillValue
  Index order;                     // stored axes; {} = C order
  ZarrCodecs codecs;
  std::string unread;  // why it cannot be read, "" where it can: told when somebody wants it
  // Keys of chunks: prefix, then numbers with separators between
  std::string prefix, separator;
  // Zarr 3: chunks are parts of shards, and `chunk` is the inner one
  Index shard;
  ZarrCodecs index_codecs;
  bool index_first = false;
  std::vector<std::string> dimension_names;  // {} when it has none
  nlohmann::json attributes;
};

/// All arrays right below the root. Throws ArrayError for what is no Zarr.
std::vector<ZarrMetadata> zarr_arrays(const ZarrStore& store);

/// The groups below the root, with the names of their arrays; `known`: those right below the root.
std::vector<CfGroup> zarr_groups(const ZarrStore& store, const std::vector<ZarrMetadata>& known);

/// A number as Zarr writes it in JSON: NaN and infinities are words.
std::optional<double> zarr_number(const nlohmann::json& value);

}  // namespace isobar
