#include "model/data/filters.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "model/data/raw_array.h"

namespace isobar {

bool can_decode(const std::vector<Filter>& pipeline) {
  const auto count = [&](Filter::Kind k) {
    return std::count_if(pipeline.begin(), pipeline.end(), [k](const Filter& f) { return f.kind == k; });
  };
  // A damaged file may say that elements are of 0 bytes.
  const bool sized = std::all_of(pipeline.begin(), pipeline.end(), [](const Filter& f) {
    return f.kind != Filter::Kind::shuffle || f.element_size > 0;
  });
  return sized && count(Filter::Kind::other) == 0 && count(Filter::Kind::deflate) <= 1;
}

namespace {

const char* const kInflateMend = "the file is damaged: download or copy it again";

/// shuffled: byte 0 of all elements, then byte 1 of all, …
template <class U>
void unshuffle_as(const unsigned char* shuffled, int64_t n, unsigned char* out) {
  for (int64_t i = 0; i < n; ++i) {
    U u = 0;
    for (unsigned b = 0; b < sizeof(U); ++b)
      u |= static_cast<U>(static_cast<U>(shuffled[b * n + i]) << (8 * b));
    std::memcpy(out + i * sizeof(U), &u, sizeof(U));
  }
}

}  // namespace

void unshuffle(const std::byte* in, int64_t bytes, int64_t element, std::byte* out) {
  const auto* src = reinterpret_cast<const unsigned char*>(in);
  auto* dst = reinterpret_cast<unsigned char*>(out);
  const int64_t n = bytes / element;
  if (element == 2) {
    unshuffle_as<uint16_t>(src, n, dst);
  } else if (element == 4) {
    unshuffle_as<uint32_t>(src, n, dst);
  } else if (element == 8) {
    unshuffle_as<uint64_t>(src, n, dst);
  } else {
    for (int64_t b = 0; b < element; ++b)
      for (int64_t i = 0; i < n; ++i) dst[i * element + b] = src[b * n + i];
  }
  std::memcpy(dst + n * element, src + n * element, bytes - n * element);  // HDF5 leaves a remainder as it is
}

namespace {

void inflate_to(const std::byte* in, int64_t in_bytes, std::byte* out, int64_t out_bytes) {
  auto size = static_cast<uLongf>(out_bytes);
  const int rc =
      uncompress(reinterpret_cast<Bytef*>(out), &size, reinterpret_cast<const Bytef*>(in), in_bytes);
  if (rc != Z_OK || static_cast<int64_t>(size) != out_bytes)
    throw ArrayError("a chunk does not inflate (zlib error " + std::to_string(rc) + ")", kInflateMend);
}

}  // namespace

void decode_chunk(const std::vector<Filter>& pipeline, uint32_t skipped, const std::vector<std::byte>& stored,
                  std::byte* out, int64_t out_bytes) {
  thread_local std::vector<std::byte> ping, pong;  // intermediate results, kept from chunk to chunk
  std::vector<std::byte>* spare[2] = {&ping, &pong};
  const std::byte* at = stored.data();
  auto at_bytes = static_cast<int64_t>(stored.size());
  std::vector<const Filter*> todo;
  for (size_t i = pipeline.size(); i-- > 0;)
    if (!(skipped >> i & 1u)) todo.push_back(&pipeline[i]);

  for (size_t i = 0; i < todo.size(); ++i) {
    std::byte* to = out;
    if (i + 1 < todo.size()) {
      auto& buffer = *spare[i % 2];
      buffer.resize(std::max(at_bytes, out_bytes));
      to = buffer.data();
    }
    if (todo[i]->kind == Filter::Kind::deflate) {
      inflate_to(at, at_bytes, to, out_bytes);
      at_bytes = out_bytes;
    } else {
      if (i + 1 == todo.size() && at_bytes != out_bytes)
        throw ArrayError(
            "a chunk of " + std::to_string(at_bytes) + " bytes should hold " + std::to_string(out_bytes),
            kInflateMend);
      unshuffle(at, at_bytes, todo[i]->element_size, to);
    }
    at = to;
  }
  if (!todo.empty()) return;
  if (at_bytes != out_bytes)
    throw ArrayError(
        "a chunk of " + std::to_string(at_bytes) + " bytes should hold " + std::to_string(out_bytes),
        kInflateMend);
  std::memcpy(out, at, out_bytes);
}

}  // namespace isobar
