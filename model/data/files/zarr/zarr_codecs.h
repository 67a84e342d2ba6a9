// Decodes Zarr chunks: Zarr's own codecs and those of numcodecs, in metadata of either version.
//
//   const ZarrCodecs codecs = zarr_codecs(meta.at("codecs"));     // Zarr 3; throws ArrayError
//   codecs.decode(stored, out, chunk_bytes);                      // chunk in file byte order
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/data/files/element_codec.h"

namespace isobar::data {

struct ZarrCodec {
  enum class Kind : uint8_t { zlib, gzip, zstd, blosc, lz4, shuffle, checksum, elements, nothing };
  enum class Sum : uint8_t { crc32c, crc32, adler32, fletcher32 };
  Kind kind;
  std::string name;          // "blosc lz4 5", for messages
  int64_t element_size = 0;  // of shuffle
  Sum sum = Sum::crc32c;     // of checksum …
  bool at_start = false;     // … stored before the bytes
  ElementCodec elements{};   // of elements
};

struct ZarrCodecs {
  std::vector<ZarrCodec> chain;    // codecs in write order
  bool big_endian = false;         // from Zarr 3's codec "bytes"
  std::vector<int64_t> transpose;  // Zarr 3: stored order of axes; {} = unchanged

  /// Thread-safe. Throws ArrayError: corrupt, or not `out_bytes` long.
  void decode(const std::vector<std::byte>& stored, std::byte* out, int64_t out_bytes) const;
};

/// Parses `compressor` and `filters` (Zarr 2), or `codecs` (Zarr 3) without sharding. Throws ArrayError for
/// an unknown codec.
ZarrCodecs zarr2_codecs(const nlohmann::json& compressor, const nlohmann::json& filters);
ZarrCodecs zarr3_codecs(const nlohmann::json& codecs);

}  // namespace isobar::data
