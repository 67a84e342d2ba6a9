#include "model/data/zarr_codecs.h"

#include <blosc.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/data/filters.h"
#include "model/data/raw_array.h"

namespace isobar {

namespace {

using nlohmann::json;
using Kind = ZarrCodec::Kind;

constexpr const char* kCorruptMend = "the store is damaged: copy or download it again";

[[noreturn]] void corrupt(const std::string& what) {
  throw ArrayError("a chunk does not decode: " + what, kCorruptMend);
}

ZarrCodec codec_of(const std::string& id, const json& configuration) {
  const auto level = [&](const char* key) {
    return configuration.contains(key) ? " " + configuration.at(key).dump() : std::string();
  };
  if (id == "zlib") return {Kind::zlib, "zlib" + level("level")};
  if (id == "gzip") return {Kind::gzip, "gzip" + level("level")};
  if (id == "zstd") return {Kind::zstd, "zstd" + level("level")};
  if (id == "crc32c") return {Kind::crc32c, "crc32c"};
  if (id == "blosc") {
    const std::string inner = configuration.value("cname", std::string("lz4"));
    return {Kind::blosc, "blosc " + inner + level("clevel")};
  }
  if (id == "shuffle") {
    const int64_t size = configuration.value("elementsize", int64_t{4});
    if (size < 1 || size > 16)
      throw ArrayError("shuffles elements of " + std::to_string(size) + " bytes", "");
    return {Kind::shuffle, "shuffle", size};
  }
  throw ArrayError("is stored with the codec '" + id + "', which is not read", "");
}

// Castagnoli's polynomial, reflected (RFC 3720, appendix B.4); zlib has another.
uint32_t crc32c(const std::byte* bytes, size_t n) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n; ++i) crc = crc >> 8 ^ table[(crc ^ static_cast<uint32_t>(bytes[i])) & 255u];
  return ~crc;
}

struct Stored {
  const std::byte* data;
  size_t size;
};

// Each writes into `room` bytes at `out` and says how many those were.

int64_t inflate_to(Stored in, std::byte* out, int64_t room, int window_bits) {
  z_stream z{};
  if (inflateInit2(&z, window_bits) != Z_OK) corrupt("zlib has no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&z, inflateEnd);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data));
  z.avail_in = static_cast<uInt>(in.size);
  z.next_out = reinterpret_cast<Bytef*>(out);
  z.avail_out = static_cast<uInt>(room);
  const int rc = inflate(&z, Z_FINISH);
  if (rc == Z_BUF_ERROR && z.avail_out == 0)
    corrupt("it has more than the " + std::to_string(room) + " bytes of a chunk");
  if (rc != Z_STREAM_END) corrupt("zlib error " + std::to_string(rc));
  return static_cast<int64_t>(z.total_out);
}

int64_t unzstd_to(Stored in, std::byte* out, int64_t room) {
  thread_local const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                                ZSTD_freeDCtx);
  const size_t n = ZSTD_decompressDCtx(context.get(), out, static_cast<size_t>(room), in.data, in.size);
  if (ZSTD_isError(n)) corrupt(std::string("zstd: ") + ZSTD_getErrorName(n));
  return static_cast<int64_t>(n);
}

int64_t unblosc_to(Stored in, std::byte* out, int64_t room) {
  size_t n = 0;
  if (in.size < BLOSC_MIN_HEADER_LENGTH || blosc_cbuffer_validate(in.data, in.size, &n) < 0 ||
      static_cast<int64_t>(n) > room)
    corrupt("blosc finds its header false");
  const int rc = blosc_decompress_ctx(in.data, out, n, 1);
  if (rc < 0 || static_cast<size_t>(rc) != n) corrupt("blosc error " + std::to_string(rc));
  return static_cast<int64_t>(n);
}

int64_t copied(Stored in, size_t size, int64_t room) {
  if (static_cast<int64_t>(size) > room)
    corrupt("it has " + std::to_string(in.size) + " bytes, more than a chunk's " + std::to_string(room));
  return static_cast<int64_t>(size);
}

int64_t undo(const ZarrCodec& codec, Stored in, std::byte* out, int64_t room) {
  switch (codec.kind) {
    case Kind::zlib:
      return inflate_to(in, out, room, 15);
    case Kind::gzip:
      return inflate_to(in, out, room, 15 + 16);
    case Kind::zstd:
      return unzstd_to(in, out, room);
    case Kind::blosc:
      return unblosc_to(in, out, room);
    case Kind::shuffle: {
      const int64_t n = copied(in, in.size, room);
      unshuffle(in.data, n, codec.element_size, out);
      return n;
    }
    case Kind::crc32c: {
      if (in.size < 4) corrupt("it is shorter than its checksum");
      const int64_t n = copied(in, in.size - 4, room);
      uint32_t stated = 0;
      std::memcpy(&stated, in.data + n, 4);
      if (crc32c(in.data, static_cast<size_t>(n)) != stated) corrupt("its checksum (crc32c) differs");
      std::memcpy(out, in.data, static_cast<size_t>(n));
      return n;
    }
  }
  return 0;
}

}  // namespace

void ZarrCodecs::decode(const std::vector<std::byte>& stored, std::byte* out, int64_t out_bytes) const {
  thread_local std::vector<std::byte> held[2];
  Stored at{stored.data(), stored.size()};
  for (size_t i = chain.size(); i-- > 0;) {
    // The last goes where the chunk is wanted. Before it there may be checksums yet, of 4 bytes each.
    const int64_t room = out_bytes + 4 * static_cast<int64_t>(i);
    std::byte* to = out;
    if (i > 0) {
      std::vector<std::byte>& between = held[i % 2];
      if (static_cast<int64_t>(between.size()) < room) between.resize(static_cast<size_t>(room));
      to = between.data();
    }
    at = {to, static_cast<size_t>(undo(chain[i], at, to, room))};
  }
  if (static_cast<int64_t>(at.size) != out_bytes)
    corrupt("it has " + std::to_string(at.size) + " bytes, and " + std::to_string(out_bytes) + " are wanted");
  if (chain.empty()) std::memcpy(out, at.data, at.size);
}

ZarrCodecs zarr2_codecs(const json& compressor, const json& filters) {
  ZarrCodecs codecs;
  if (filters.is_array())
    for (const json& f : filters) codecs.chain.push_back(codec_of(f.at("id").get<std::string>(), f));
  if (compressor.is_object())
    codecs.chain.push_back(codec_of(compressor.at("id").get<std::string>(), compressor));
  return codecs;
}

ZarrCodecs zarr3_codecs(const json& list) {
  ZarrCodecs codecs;
  for (const json& c : list) {
    const std::string name = c.is_string() ? c.get<std::string>() : c.at("name").get<std::string>();
    const json configuration = c.is_object() ? c.value("configuration", json::object()) : json::object();
    if (name == "bytes") {
      codecs.big_endian = configuration.value("endian", std::string("little")) == "big";
    } else if (name == "transpose") {
      const json& order = configuration.at("order");
      if (!order.is_array()) throw ArrayError("is transposed by " + order.dump(), "give a list of axes");
      if (!codecs.transpose.empty()) throw ArrayError("is transposed twice", "write it anew");
      codecs.transpose = order.get<std::vector<int64_t>>();
    } else {
      codecs.chain.push_back(codec_of(name, configuration));
    }
  }
  return codecs;
}

}  // namespace isobar
