#include "model/data/fields/slab.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace isobar::data {

int64_t product(const Index& v) {
  int64_t p = 1;
  for (int64_t x : v) p *= x;
  return p;
}

int64_t declared_product(const Index& v) {
  constexpr int64_t kMost = int64_t{1} << 56;
  int64_t p = 1;
  for (const int64_t x : v) {
    if (x < 0 || (x > 0 && p > kMost / x))
      throw ArrayError("declares more values than any file holds",
                       "the file is damaged: copy or download it again");
    p *= x;
  }
  return p;
}

void require_held(const std::string& name, int64_t declared, int64_t held, bool compressed) {
  constexpr int64_t kDeflate = 1032;
  if (declared / (compressed ? kDeflate : 1) <= held) return;
  throw ArrayError("declares " + std::to_string(declared) + " bytes in '" + name + "', which a file of " +
                       std::to_string(held) + " bytes cannot hold",
                   "it is truncated or was never filled: copy or make it again");
}

void require_inside(const Index& dims, const Index& start, const Index& count) {
  bool inside = start.size() == dims.size() && count.size() == dims.size();
  for (size_t k = 0; inside && k < dims.size(); ++k)
    inside = start[k] >= 0 && count[k] >= 0 && start[k] <= dims[k] - count[k];
  if (!inside) throw ArrayError("holds less than its dimensions say", "copy or make the file again");
}

Index strides_of(const Index& dims) {
  Index s(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) s[i - 1] = s[i] * dims[i];
  return s;
}

namespace {

/// Number of trailing axes whose elements are adjacent in an array with these strides.
size_t adjacent_axes(const Index& count, const Index& strides, size_t first) {
  size_t k = count.size();
  int64_t run = 1;
  while (k > first && (strides[k - 1] == run || count[k - 1] == 1)) run *= count[--k];
  return count.size() - k;
}

void copy_axes(const Index& count, int64_t size, const std::byte* from, const Index& fs, std::byte* to,
               const Index& ts, size_t axis, size_t inner) {
  if (axis == inner) {
    int64_t n = size;
    for (size_t k = inner; k < count.size(); ++k) n *= count[k];
    std::memcpy(to, from, n);
    return;
  }
  for (int64_t i = 0; i < count[axis]; ++i)
    copy_axes(count, size, from + i * fs[axis] * size, fs, to + i * ts[axis] * size, ts, axis + 1, inner);
}

struct Box {
  int fd;
  const Index &strides, &start, &count;
  int64_t size;
  const Index& out_strides;
  std::vector<std::byte>& scratch;
  const BytesArrived& arrived;
};

/// Reads the part of the box from `axis` inwards; `offset` is the file position of its first element.
void read_axes(const Box& b, size_t axis, int64_t offset, std::byte* out) {
  int64_t wanted = b.size, span = 1;
  for (size_t k = axis; k < b.count.size(); ++k) {
    wanted *= b.count[k];
    span += (b.count[k] - 1) * b.strides[k];
  }
  span *= b.size;
  const bool dense_out = adjacent_axes(b.count, b.out_strides, axis) == b.count.size() - axis;
  if (span == wanted && dense_out) return read_exactly(b.fd, out, wanted, offset, b.arrived);

  constexpr int64_t small = 256 << 10;  // below this one call is cheaper than several, whatever it wastes
  const bool last = axis == b.count.size();
  if (last || span <= std::max(2 * wanted, small)) {
    b.scratch.resize(std::max<size_t>(b.scratch.size(), span));
    read_exactly(b.fd, b.scratch.data(), span, offset);
    const auto from = static_cast<Index::difference_type>(axis);
    const auto tail = [&](const Index& v) { return Index(v.begin() + from, v.end()); };
    copy_box(tail(b.count), b.size, b.scratch.data(), tail(b.strides), out, tail(b.out_strides));
    if (b.arrived) b.arrived(out, wanted);
    return;
  }
  for (int64_t i = 0; i < b.count[axis]; ++i)
    read_axes(b, axis + 1, offset + i * b.strides[axis] * b.size, out + i * b.out_strides[axis] * b.size);
}

}  // namespace

void copy_box(const Index& count, int64_t size, const std::byte* from, const Index& from_strides,
              std::byte* to, const Index& to_strides) {
  if (product(count) == 0) return;
  const size_t run = std::min(adjacent_axes(count, from_strides, 0), adjacent_axes(count, to_strides, 0));
  copy_axes(count, size, from, from_strides, to, to_strides, 0, count.size() - run);
}

void read_exactly(int fd, void* out, int64_t bytes, int64_t offset, const BytesArrived& arrived) {
  constexpr int64_t kStretch = 256 << 10;  // fits a second-level cache; large enough to amortise a call
  auto* at = static_cast<std::byte*>(out);
  const std::byte* reported = at;
  while (bytes > 0) {
    const ssize_t n = ::pread(fd, at, arrived ? std::min(bytes, reported + kStretch - at) : bytes, offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw ArrayError(std::string("read failed: ") + std::strerror(errno), "check the disk");
    if (n == 0)
      throw ArrayError("the file ends at byte " + std::to_string(offset) + ", before its data do (truncated)",
                       "copy or download it again");
    at += n, bytes -= n, offset += n;
    if (arrived && (bytes == 0 || at - reported == kStretch)) {
      arrived(reported, at - reported);
      reported = at;
    }
  }
}

void read_box(int fd, int64_t offset, const Index& dims, const Index& start, const Index& count, int64_t size,
              std::byte* out, const Index& out_strides, const BytesArrived& arrived) {
  if (product(count) == 0) return;
  thread_local std::vector<std::byte> scratch;
  const Index strides = strides_of(dims);
  for (size_t k = 0; k < dims.size(); ++k) offset += start[k] * strides[k] * size;
  read_axes({fd, strides, start, count, size, out_strides, scratch, arrived}, 0, offset, out);
}

}  // namespace isobar::data
