// Arithmetic on n-dimensional boxes in C order: strides, strided copies, and reading a box of a contiguous
// array with few pread(2) calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "model/data/raw_array.h"

namespace isobar {

int64_t product(const Index& v);
/// The product of what a file declares. Throws ArrayError where an extent is negative or no file could hold
/// it.
int64_t declared_product(const Index& v);
/// Throws ArrayError unless the `declared` bytes can lie in a file of `held` bytes: all of them where they
/// are stored as they are, else 1032 for one of its bytes (the most that deflate makes of one).
void require_held(const std::string& name, int64_t declared, int64_t held, bool compressed);
/// Throws ArrayError for a box that leaves the array.
void require_inside(const Index& dims, const Index& start, const Index& count);
Index strides_of(const Index& dims);  // in elements, C order

/// Copies a box of `count` elements of `size` bytes between two strided arrays (strides in elements).
void copy_box(const Index& count, int64_t size, const std::byte* from, const Index& from_strides,
              std::byte* to, const Index& to_strides);

/// Some bytes of what is read are there, and in cache.
using BytesArrived = std::function<void(const std::byte* at, int64_t bytes)>;

/// Reads exactly `bytes` at `offset`, with `arrived` in stretches that it tells of; throws ArrayError on a
/// short read (a truncated file) or an I/O error.
void read_exactly(int fd, void* out, int64_t bytes, int64_t offset, const BytesArrived& arrived = {});

/// Reads the box (start, count) of an array of `dims` that lies contiguous at `offset` into `out`, whose
/// strides are `out_strides`. Neighbouring runs are read as one when that wastes little. `arrived` is told of
/// every byte once, in order, where `out` is dense.
void read_box(int fd, int64_t offset, const Index& dims, const Index& start, const Index& count, int64_t size,
              std::byte* out, const Index& out_strides, const BytesArrived& arrived = {});

}  // namespace isobar
