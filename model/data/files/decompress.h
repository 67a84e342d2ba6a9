// Decompression for Zarr's codecs and HDF5's filters.
//
//   const int64_t n = unzstd(stored, out, room);       // at most `room` bytes; throws ArrayError
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace isobar::data {

using Stored = std::span<const std::byte>;

int64_t unzstd(Stored in, std::byte* out, int64_t room);
int64_t unblosc(Stored in, std::byte* out, int64_t room);
/// A block without a header, whose length stands beside it.
int64_t unlz4(Stored in, std::byte* out, int64_t room);
/// LibLZF's format, the "lzf" of h5py.
int64_t unlzf(Stored in, std::byte* out, int64_t room);

/// True when `sum` is HDF5's checksum of the bytes.
bool is_fletcher32(Stored in, uint32_t sum);
/// CRC-32C: Castagnoli's polynomial, reflected (RFC 3720, appendix B.4), which differs from zlib's.
uint32_t crc32c(Stored in);

[[noreturn]] void corrupt(const std::string& what);  // throws ArrayError

}  // namespace isobar::data
