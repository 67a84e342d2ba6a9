#include "model/data/files/filters.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "model/data/files/decompress.h"
#include "model/data/files/raw_array.h"

namespace isobar::data {

namespace {

bool compresses(Filter::Kind k) {
  return k != Filter::Kind::shuffle && k != Filter::Kind::fletcher32 && k != Filter::Kind::other;
}

}  // namespace

bool can_decode(const std::vector<Filter>& pipeline) {
  // A damaged file may declare elements of 0 bytes.
  const bool known = std::all_of(pipeline.begin(), pipeline.end(), [](const Filter& f) {
    return f.kind != Filter::Kind::other && (f.kind != Filter::Kind::shuffle || f.element_size > 0);
  });
  return known && std::count_if(pipeline.begin(), pipeline.end(),
                                [](const Filter& f) { return compresses(f.kind); }) <= 1;
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
  std::memcpy(dst + n * element, src + n * element, bytes - n * element);  // not shuffled by HDF5
}

namespace {

int64_t inflate_to(Stored in, std::byte* out, int64_t room) {
  auto size = static_cast<uLongf>(room);
  const int rc =
      uncompress(reinterpret_cast<Bytef*>(out), &size, reinterpret_cast<const Bytef*>(in.data()), in.size());
  if (rc != Z_OK)
    throw ArrayError("a chunk does not inflate (zlib error " + std::to_string(rc) + ")", kInflateMend);
  return static_cast<int64_t>(size);
}

/// HDF5's LZ4 format: total length, block length, then each block with its length, all big-endian. A block of
/// full length is stored uncompressed.
int64_t undo_lz4_frame(Stored in, std::byte* out, int64_t room) {
  const auto number = [&](size_t at, size_t bytes) {
    uint64_t n = 0;
    if (at + bytes > in.size()) corrupt("its lz4 frame is torn");
    for (size_t i = 0; i < bytes; ++i) n = n << 8 | static_cast<uint64_t>(in[at + i]);
    return n;
  };
  const uint64_t all = number(0, 8);
  const auto block = static_cast<int64_t>(number(8, 4));
  if (all > static_cast<uint64_t>(room) || block < 1) corrupt("its lz4 frame is longer than a chunk");
  int64_t done = 0;
  for (size_t at = 12; done < static_cast<int64_t>(all);) {
    const auto bytes = static_cast<size_t>(number(at, 4));
    const int64_t wanted = std::min(block, static_cast<int64_t>(all) - done);
    at += 4;
    if (bytes > in.size() - at) corrupt("its lz4 frame is torn");
    if (static_cast<int64_t>(bytes) == wanted)
      std::memcpy(out + done, in.data() + at, bytes);
    else if (unlz4(in.subspan(at, bytes), out + done, wanted) != wanted)
      corrupt("its lz4 frame is torn");
    at += bytes, done += wanted;
  }
  return done;
}

int64_t undo_fletcher32(Stored in, std::byte* out, int64_t room) {
  uint32_t sum = 0;
  if (in.size() < sizeof sum || static_cast<int64_t>(in.size() - sizeof sum) > room)
    corrupt("its checksum is not where it should be");
  const Stored data = in.first(in.size() - sizeof sum);
  std::memcpy(&sum, in.data() + data.size(), sizeof sum);
  if (!is_fletcher32(data, sum)) corrupt("its checksum (fletcher32) differs");
  std::memcpy(out, data.data(), data.size());
  return static_cast<int64_t>(data.size());
}

int64_t undo(const Filter& f, Stored in, std::byte* out, int64_t room) {
  switch (f.kind) {
    case Filter::Kind::deflate:
      return inflate_to(in, out, room);
    case Filter::Kind::zstd:
      return unzstd(in, out, room);
    case Filter::Kind::blosc:
      return unblosc(in, out, room);
    case Filter::Kind::lz4:
      return undo_lz4_frame(in, out, room);
    case Filter::Kind::lzf:
      return unlzf(in, out, room);
    case Filter::Kind::fletcher32:
      return undo_fletcher32(in, out, room);
    case Filter::Kind::shuffle:
      if (static_cast<int64_t>(in.size()) > room)
        corrupt("it has " + std::to_string(in.size()) + " bytes of " + std::to_string(room));
      unshuffle(in.data(), static_cast<int64_t>(in.size()), f.element_size, out);
      return static_cast<int64_t>(in.size());
    case Filter::Kind::other:
      break;
  }
  return 0;
}

}  // namespace

void decode_chunk(const std::vector<Filter>& pipeline, uint32_t skipped, const std::vector<std::byte>& stored,
                  std::byte* out, int64_t out_bytes) {
  thread_local std::vector<std::byte> ping, pong;  // intermediate results, kept from chunk to chunk
  std::vector<std::byte>* spare[2] = {&ping, &pong};
  std::vector<const Filter*> todo;
  int64_t sums = 0;
  for (size_t i = pipeline.size(); i-- > 0;)
    if (!(skipped >> i & 1u)) {
      todo.push_back(&pipeline[i]);
      sums += pipeline[i].kind == Filter::Kind::fletcher32;
    }
  Stored at(stored);
  for (size_t i = 0; i < todo.size(); ++i) {
    std::byte* to = out;
    int64_t room = out_bytes;
    if (i + 1 < todo.size()) {
      room = std::max(static_cast<int64_t>(at.size()), out_bytes + 4 * sums);
      auto& buffer = *spare[i % 2];
      if (static_cast<int64_t>(buffer.size()) < room) buffer.resize(static_cast<size_t>(room));
      to = buffer.data();
    }
    at = {to, static_cast<size_t>(undo(*todo[i], at, to, room))};
  }
  const auto at_bytes = static_cast<int64_t>(at.size());
  if (at_bytes != out_bytes)
    throw ArrayError(
        "a chunk of " + std::to_string(at_bytes) + " bytes should hold " + std::to_string(out_bytes),
        kInflateMend);
  if (todo.empty()) std::memcpy(out, at.data(), at.size());
}

}  // namespace isobar::data
