// The codecs of a Zarr chunk, undone: Zarr's own, and those of numcodecs, whatever version names them.
//
//   const ZarrCodecs codecs = zarr_codecs(meta.at("codecs"));     // Zarr 3; throws ArrayError
//   codecs.decode(stored, out, chunk_bytes);                      // exactly the chunk, in the file's byte
//   order
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/data/element_codec.h"

namespace isobar {

struct ZarrCodec {
  enum class Kind : uint8_t { zlib, gzip, zstd, blosc, lz4, shuffle, checksum, elements, nothing };
  enum class Sum : uint8_t { crc32c, crc32, adler32, fletcher32 };
  Kind kind;
  std::string name;          // "blosc lz4 5": for people
  int64_t element_size = 0;  // shuffle
  Sum sum = Sum::crc32c;     // checksum …
  bool at_start = false;     // … before the bytes
  ElementCodec elements{};   // elements
};

struct ZarrCodecs {
  std::vector<ZarrCodec> chain;    // of bytes, in write order
  bool big_endian = false;         // Zarr 3 says so in its codecs
  std::vector<int64_t> transpose;  // Zarr 3: axes in the order in which they are stored; {} = as they are

  /// Throws ArrayError: corrupt, or not `out_bytes` long. Thread-safe.
  void decode(const std::vector<std::byte>& stored, std::byte* out, int64_t out_bytes) const;
};

/// Of `compressor` and `filters` (Zarr 2), or of `codecs` (Zarr 3) without sharding. Throws ArrayError for
/// one that is not known.
ZarrCodecs zarr2_codecs(const nlohmann::json& compressor, const nlohmann::json& filters);
ZarrCodecs zarr3_codecs(const nlohmann::json& codecs);

}  // namespace isobar
