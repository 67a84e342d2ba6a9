// Arithmetic on n-dimensional boxes in C order: strides, strided copies, and reads of a box from a contiguous
// array with few pread(2) calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "model/data/files/raw_array.h"

namespace isobar::data {

int64_t product(const Index& v);
/// The product of extents that a file declares. Throws ArrayError when one is negative or no file could hold
/// them.
int64_t declared_product(const Index& v);
/// Throws ArrayError unless `declared` bytes of data fit in a file of `held` bytes; `compressed` allows 1032
/// for each byte, the largest ratio of deflate.
void require_held(const std::string& name, int64_t declared, int64_t held, bool compressed);
/// Throws ArrayError unless the box is inside the array.
void require_inside(const Index& dims, const Index& start, const Index& count);
Index strides_of(const Index& dims);  // in elements, C order

/// Copies a box of `count` elements of `size` bytes between two strided arrays (strides in elements).
void copy_box(const Index& count, int64_t size, const std::byte* from, const Index& from_strides,
              std::byte* to, const Index& to_strides);

/// Reports bytes that have been read and are in cache.
using BytesArrived = std::function<void(const std::byte* at, int64_t bytes)>;

/// Reads exactly `bytes` at `offset`, and reports them to `arrived` in stretches. Throws ArrayError on a
/// short read (a truncated file) or an I/O error.
void read_exactly(int fd, void* out, int64_t bytes, int64_t offset, const BytesArrived& arrived = {});

/// Reads the box (start, count) of a contiguous array of `dims` at `offset` into `out` with `out_strides`;
/// nearby runs are read as one when that wastes little. When `out` is dense, `arrived` gets every byte once,
/// in order.
void read_box(int fd, int64_t offset, const Index& dims, const Index& start, const Index& count, int64_t size,
              std::byte* out, const Index& out_strides, const BytesArrived& arrived = {});

}  // namespace isobar::data
