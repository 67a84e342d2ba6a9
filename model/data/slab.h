// Arithmetic on n-dimensional boxes in C order: strides, strided copies, and reading a box of a contiguous
// array with few pread(2) calls.
#pragma once
#include <cstddef>
#include <cstdint>

#include "model/data/raw_array.h"

namespace isobar {

int64_t product(const Index& v);
Index strides_of(const Index& dims);  // in elements, C order

/// Copies a box of `count` elements of `size` bytes between two strided arrays (strides in elements).
void copy_box(const Index& count, int64_t size, const std::byte* from, const Index& from_strides,
              std::byte* to, const Index& to_strides);

/// Reads exactly `bytes` at `offset`; throws ArrayError on a short read (a truncated file) or an I/O error.
void read_exactly(int fd, void* out, int64_t bytes, int64_t offset);

/// Reads the box (start, count) of an array of `dims` that lies contiguous at `offset` into `out`, whose
/// strides are `out_strides`. Neighbouring runs are read as one when that wastes little.
void read_box(int fd, int64_t offset, const Index& dims, const Index& start, const Index& count, int64_t size,
              std::byte* out, const Index& out_strides);

}  // namespace isobar
