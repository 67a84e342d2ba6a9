#include "model/data/files/zarr/zarr_codecs.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/data/files/decompress.h"
#include "model/data/files/filters.h"
#include "model/data/files/raw_array.h"

namespace isobar::data {

namespace {

using nlohmann::json;
using Kind = ZarrCodec::Kind;

/// Strips "numcodecs.", which Zarr 3 stores may prepend to a codec's name.
std::string plain_name(const std::string& id) {
  constexpr std::string_view kOwner = "numcodecs.";
  return id.starts_with(kOwner) ? id.substr(kOwner.size()) : id;
}

ZarrCodec checksum_of(const std::string& id, const json& configuration) {
  const std::string place = configuration.value("location", id == "crc32c" ? "end" : "start");
  if (place != "start" && place != "end")
    throw ArrayError("has a checksum " + id + " at '" + place + "'", "");
  ZarrCodec c{.kind = Kind::checksum, .name = id, .at_start = place == "start"};
  c.sum = id == "crc32c"  ? ZarrCodec::Sum::crc32c
          : id == "crc32" ? ZarrCodec::Sum::crc32
                          : ZarrCodec::Sum::adler32;
  return c;
}

ZarrCodec codec_of(const std::string& named, const json& configuration) {
  const std::string id = plain_name(named);
  const auto level = [&](const char* key) {
    return configuration.contains(key) ? " " + configuration.at(key).dump() : std::string();
  };
  if (id == "zlib") return {Kind::zlib, "zlib" + level("level")};
  if (id == "gzip") return {Kind::gzip, "gzip" + level("level")};
  if (id == "zstd") return {Kind::zstd, "zstd" + level("level")};
  if (id == "lz4") return {Kind::lz4, "lz4"};
  if (id == "bitround") return {Kind::nothing, "bitround" + level("keepbits")};
  if (id == "crc32c" || id == "crc32" || id == "adler32") return checksum_of(id, configuration);
  if (id == "fletcher32") return {.kind = Kind::checksum, .name = id, .sum = ZarrCodec::Sum::fletcher32};
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
  if (const auto elements = element_codec(id, configuration))
    return {.kind = Kind::elements, .name = id, .elements = *elements};
  throw ArrayError("is stored with the codec '" + named + "', which is not read", "");
}

// Each decoder writes at most `room` bytes to `out` and returns their number.

int64_t inflate_to(Stored in, std::byte* out, int64_t room, int window_bits) {
  z_stream z{};
  if (inflateInit2(&z, window_bits) != Z_OK) corrupt("zlib has no memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&z, inflateEnd);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
  z.avail_in = static_cast<uInt>(in.size());
  z.next_out = reinterpret_cast<Bytef*>(out);
  z.avail_out = static_cast<uInt>(room);
  const int rc = inflate(&z, Z_FINISH);
  if (rc == Z_BUF_ERROR && z.avail_out == 0)
    corrupt("it has more than the " + std::to_string(room) + " bytes of a chunk");
  if (rc != Z_STREAM_END) corrupt("zlib error " + std::to_string(rc));
  return static_cast<int64_t>(z.total_out);
}

int64_t require_room(size_t size, int64_t room) {
  if (static_cast<int64_t>(size) > room)
    corrupt("it has " + std::to_string(size) + " bytes, more than a chunk's " + std::to_string(room));
  return static_cast<int64_t>(size);
}

/// numcodecs stores the decoded length before the LZ4 block.
int64_t undo_lz4(Stored in, std::byte* out, int64_t room) {
  uint32_t recorded = 0;
  if (in.size() < sizeof recorded) corrupt("its lz4 block is torn");
  std::memcpy(&recorded, in.data(), sizeof recorded);
  const int64_t n = unlz4(in.subspan(sizeof recorded), out, require_room(recorded, room));
  if (n != recorded) corrupt("its lz4 block is shorter than it says");
  return n;
}

int64_t undo_checksum(const ZarrCodec& codec, Stored in, std::byte* out, int64_t room) {
  uint32_t recorded = 0, sum = 0;
  if (in.size() < sizeof recorded) corrupt("it is shorter than its checksum");
  const size_t n = in.size() - sizeof recorded;
  require_room(n, room);
  const Stored data = in.subspan(codec.at_start ? sizeof recorded : 0, n);
  std::memcpy(&recorded, in.data() + (codec.at_start ? 0 : n), sizeof recorded);
  const auto* bytes = reinterpret_cast<const Bytef*>(data.data());
  if (codec.sum == ZarrCodec::Sum::crc32c) sum = crc32c(data);
  if (codec.sum == ZarrCodec::Sum::crc32) sum = static_cast<uint32_t>(crc32_z(0, bytes, n));
  if (codec.sum == ZarrCodec::Sum::adler32) sum = static_cast<uint32_t>(adler32_z(1, bytes, n));
  const bool same = codec.sum == ZarrCodec::Sum::fletcher32 ? is_fletcher32(data, recorded) : sum == recorded;
  if (!same) corrupt("its checksum (" + codec.name + ") differs");
  std::memcpy(out, data.data(), n);
  return static_cast<int64_t>(n);
}

int64_t undo_elements(const ElementCodec& codec, Stored in, std::byte* out, int64_t room) {
  const int64_t n = static_cast<int64_t>(in.size()) / size_of(codec.from);
  if (n * size_of(codec.from) != static_cast<int64_t>(in.size())) corrupt("it ends within a number");
  const int64_t bytes = require_room(static_cast<size_t>(n * size_of(codec.to)), room);
  codec.undo(in.data(), n, out);
  return bytes;
}

int64_t undo(const ZarrCodec& codec, Stored in, std::byte* out, int64_t room) {
  switch (codec.kind) {
    case Kind::zlib:
      return inflate_to(in, out, room, 15);
    case Kind::gzip:
      return inflate_to(in, out, room, 15 + 16);
    case Kind::zstd:
      return unzstd(in, out, room);
    case Kind::blosc:
      return unblosc(in, out, room);
    case Kind::lz4:
      return undo_lz4(in, out, room);
    case Kind::checksum:
      return undo_checksum(codec, in, out, room);
    case Kind::elements:
      return undo_elements(codec.elements, in, out, room);
    case Kind::shuffle:
      unshuffle(in.data(), require_room(in.size(), room), codec.element_size, out);
      return static_cast<int64_t>(in.size());
    case Kind::nothing:
      std::memcpy(out, in.data(), static_cast<size_t>(require_room(in.size(), room)));
      return static_cast<int64_t>(in.size());
  }
  return 0;
}

/// The input size of each codec as far as known; that of a codec after a compressor depends on the data.
std::vector<int64_t> given_to(const std::vector<ZarrCodec>& chain, int64_t bytes) {
  std::vector<int64_t> out;
  for (const ZarrCodec& c : chain) {
    out.push_back(bytes);
    if (c.kind == Kind::checksum) bytes += 4;
    if (c.kind == Kind::elements) bytes = bytes / size_of(c.elements.to) * size_of(c.elements.from);
  }
  return out;
}

}  // namespace

void ZarrCodecs::decode(const std::vector<std::byte>& stored, std::byte* out, int64_t out_bytes) const {
  thread_local std::vector<std::byte> held[2];
  Stored at(stored);
  const std::vector<int64_t> given = given_to(chain, out_bytes);
  for (size_t i = chain.size(); i-- > 0;) {
    // The last codec decodes straight into the output.
    const int64_t room = i == 0 ? out_bytes : std::max(given[i], static_cast<int64_t>(at.size()));
    std::byte* to = out;
    if (i > 0) {
      std::vector<std::byte>& between = held[i % 2];
      if (static_cast<int64_t>(between.size()) < room) between.resize(static_cast<size_t>(room));
      to = between.data();
    }
    at = {to, static_cast<size_t>(undo(chain[i], at, to, room))};
  }
  if (static_cast<int64_t>(at.size()) != out_bytes)
    corrupt("it has " + std::to_string(at.size()) + " bytes, and " + std::to_string(out_bytes) +
            " are wanted");
  if (chain.empty()) std::memcpy(out, at.data(), at.size());
}

namespace {

/// Refuses element codecs of big-endian or transposed data: they compute in native byte order and axis order.
void require_plain(const ZarrCodecs& codecs) {
  for (const ZarrCodec& c : codecs.chain)
    if (c.kind == Kind::elements && (codecs.big_endian || !codecs.transpose.empty()))
      throw ArrayError("is stored with the codec '" + c.name + "' of " +
                           (codecs.big_endian ? "big-endian numbers" : "transposed axes") +
                           ", which is not read",
                       "");
}

}  // namespace

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
      const std::string endian = configuration.value("endian", std::string("little"));
      if (endian != "little" && endian != "big")
        throw ArrayError("is stored with bytes of the order '" + endian + "', which is not read", "");
      codecs.big_endian = endian == "big";
    } else if (name == "transpose") {
      const json& order = configuration.at("order");
      if (!order.is_array()) throw ArrayError("is transposed by " + order.dump(), "give a list of axes");
      if (!codecs.transpose.empty()) throw ArrayError("is transposed twice", "write it anew");
      codecs.transpose = order.get<std::vector<int64_t>>();
    } else {
      codecs.chain.push_back(codec_of(name, configuration));
    }
  }
  require_plain(codecs);
  return codecs;
}

}  // namespace isobar::data
