// Decodes HDF5 chunk filters without the HDF5 library, hence outside its lock and without its plugins:
// deflate, zstd, Blosc, LZ4, LZF, shuffle, and checksums.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace isobar::data {

struct Filter {
  enum class Kind : uint8_t { deflate, shuffle, zstd, blosc, lz4, lzf, fletcher32, other };
  Kind kind;
  std::string name;      // "deflate 4", "shuffle", "zstd", …
  int64_t element_size;  // bytes; shuffle only
};

/// True when decode_chunk supports every filter of the pipeline.
bool can_decode(const std::vector<Filter>& pipeline);

/// Undoes `pipeline` (in write order; bit i of `skipped` = filter i was not applied to this chunk).
/// stored: the bytes in the file; out: exactly the decoded chunk. Throws ArrayError when the data are
/// corrupt.
void decode_chunk(const std::vector<Filter>& pipeline, uint32_t skipped, const std::vector<std::byte>& stored,
                  std::byte* out, int64_t out_bytes);

/// Restores elements of `element` bytes from byte 0 of all elements, then byte 1 …; a remainder is copied
/// unchanged.
void unshuffle(const std::byte* in, int64_t bytes, int64_t element, std::byte* out);

}  // namespace isobar::data
