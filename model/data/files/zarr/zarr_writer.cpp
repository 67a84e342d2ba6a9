#include "model/data/files/zarr/zarr_writer.h"

#include <blosc.h>
#include <zstd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/base/error.h"
#include "model/base/text/json.h"

namespace isobar::data {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kLevel = 3;  // of zstd

json codecs_of(const std::string& compressor, int64_t element) {
  json codecs = {{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}};
  if (compressor == "zstd")
    codecs.push_back({{"name", "zstd"}, {"configuration", {{"level", kLevel}, {"checksum", false}}}});
  if (compressor == "blosc")
    codecs.push_back({{"name", "blosc"},
                      {"configuration",
                       {{"cname", "lz4"},
                        {"clevel", 5},
                        {"shuffle", "shuffle"},
                        {"typesize", element},
                        {"blocksize", 0}}}});
  return codecs;
}

json compressor_of(const std::string& compressor) {
  if (compressor == "zstd") return {{"id", "zstd"}, {"level", kLevel}};
  if (compressor == "blosc")
    return {{"id", "blosc"}, {"cname", "lz4"}, {"clevel", 5}, {"shuffle", 1}, {"blocksize", 0}};
  return nullptr;
}

}  // namespace

ZarrWriter::ZarrWriter(std::string path, const FieldInfo& info, ZarrLayout layout)
    : path_(std::move(path)), part_(path_ + ".part"), info_(info), layout_(std::move(layout)) {
  const auto whole = [](int64_t n, int64_t all) { return n < 1 ? all : std::min(n, all); };
  layout_.steps = whole(layout_.steps, info_.steps);
  layout_.rows = whole(layout_.rows, info_.shape.height),
  layout_.columns = whole(layout_.columns, info_.shape.width);
  held_.resize(static_cast<size_t>(layout_.steps * info_.shape.size()), std::nanf(""));
  std::error_code error;
  fs::remove_all(part_, error);
  fs::create_directories(part_, error);
  if (error)
    throw ConfigError(path_, "", "cannot be made: " + error.message(), "name a place that can be written");
  const json group = layout_.version == 3
                         ? json{{"zarr_format", 3}, {"node_type", "group"}, {"attributes", json::object()}}
                         : json{{"zarr_format", 2}};
  put(layout_.version == 3 ? "zarr.json" : ".zgroup", json_text(group, 1));
  std::vector<double> count(static_cast<size_t>(info_.steps));
  for (size_t i = 0; i < count.size(); ++i) count[i] = static_cast<double>(i);
  json about = json::object();
  if (!info_.times.empty()) about["units"] = info_.time_units;
  if (!info_.calendar.empty()) about["calendar"] = info_.calendar;
  put_axis("time", info_.times.empty() ? count : info_.times, about);
  if (!info_.latitude.empty()) put_axis("latitude", info_.latitude, {{"units", "degrees_north"}});
  if (!info_.longitude.empty()) put_axis("longitude", info_.longitude, {{"units", "degrees_east"}});
  for (size_t c = 0; c < info_.channels.size(); ++c)
    put_array(info_.channels[c], {"time", "latitude", "longitude"},
              {info_.steps, info_.shape.height, info_.shape.width},
              {layout_.steps, layout_.rows, layout_.columns}, true,
              {{"units", info_.units.empty() ? "" : info_.units[c]}});
}

ZarrWriter::~ZarrWriter() {
  std::error_code gone;
  fs::remove_all(part_, gone);
}

void ZarrWriter::put(const std::string& key, const std::string& bytes) const {
  const fs::path file = fs::path(part_) / key;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  std::ofstream out(file, std::ios::binary);
  out << bytes;
  out.close();
  if (!out) throw ConfigError(path_, "", "'" + key + "' cannot be written", "is the disk full?");
}

void ZarrWriter::put_array(const std::string& name, const std::vector<std::string>& axes, const Index& dims,
                           const Index& chunk, bool of_floats, const json& attributes) const {
  const std::string compressor = of_floats ? layout_.compressor : "none";
  if (layout_.version == 3) {
    put(name + "/zarr.json",
        json_text(json{{"zarr_format", 3},
                       {"node_type", "array"},
                       {"shape", dims},
                       {"data_type", of_floats ? "float32" : "float64"},
                       {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", chunk}}}}},
                       {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
                       {"fill_value", "NaN"},
                       {"codecs", codecs_of(compressor, of_floats ? 4 : 8)},
                       {"dimension_names", axes},
                       {"attributes", attributes}},
                  1));
    return;
  }
  put(name + "/.zarray", json_text(json{{"zarr_format", 2},
                                        {"shape", dims},
                                        {"chunks", chunk},
                                        {"dtype", of_floats ? "<f4" : "<f8"},
                                        {"compressor", compressor_of(compressor)},
                                        {"fill_value", "NaN"},
                                        {"order", "C"},
                                        {"filters", nullptr}},
                                   1));
  json with_axes = attributes;
  with_axes["_ARRAY_DIMENSIONS"] = axes;
  put(name + "/.zattrs", json_text(with_axes, 1));
}

void ZarrWriter::put_axis(const std::string& name, const std::vector<double>& values,
                          const json& attributes) const {
  const auto n = static_cast<int64_t>(values.size());
  put_array(name, {name}, {n}, {n}, false, attributes);
  put(name + (layout_.version == 3 ? "/c/0" : "/0"),
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)));
}

void ZarrWriter::put_still(const std::string& name, const std::string& units,
                           const std::vector<float>& values) const {
  const Index whole = {info_.shape.height, info_.shape.width};
  put_array(name, {"latitude", "longitude"}, whole, whole, true, {{"units", units}});
  put(name + (layout_.version == 3 ? "/c/0/0" : "/0.0"), compressed(values));
}

void ZarrWriter::append(const float* fields) {
  std::copy_n(fields, info_.shape.size(), held_.data() + written_ % layout_.steps * info_.shape.size());
  ++written_;
  if (written_ % layout_.steps == 0 || written_ == info_.steps) put_chunks();
}

std::string ZarrWriter::compressed(const std::vector<float>& chunk) const {
  const size_t bytes = chunk.size() * sizeof(float);
  if (layout_.compressor == "none") return {reinterpret_cast<const char*>(chunk.data()), bytes};
  const bool zstd = layout_.compressor == "zstd";
  std::string out(zstd ? ZSTD_compressBound(bytes) : bytes + BLOSC_MAX_OVERHEAD, '\0');
  const auto n =
      zstd ? static_cast<int64_t>(ZSTD_compress(out.data(), out.size(), chunk.data(), bytes, kLevel))
           : blosc_compress_ctx(5, BLOSC_SHUFFLE, sizeof(float), bytes, chunk.data(), out.data(), out.size(),
                                BLOSC_LZ4_COMPNAME, 0, 1);
  if (zstd ? ZSTD_isError(static_cast<size_t>(n)) != 0 : n <= 0)
    throw ConfigError(path_, "", "a chunk does not compress", "choose smaller chunks");
  out.resize(static_cast<size_t>(n));
  return out;
}

/// Writes the chunks of the buffered steps, padded with NaN beyond the array's edge.
void ZarrWriter::put_chunks() {
  const int64_t H = info_.shape.height, W = info_.shape.width, C = info_.shape.channels;
  const int64_t first = (written_ - 1) / layout_.steps, steps = written_ - first * layout_.steps;
  std::vector<float> chunk(static_cast<size_t>(layout_.steps * layout_.rows * layout_.columns));
  for (int64_t c = 0; c < C; ++c)
    for (int64_t i = 0; i * layout_.rows < H; ++i)
      for (int64_t j = 0; j * layout_.columns < W; ++j) {
        std::fill(chunk.begin(), chunk.end(), std::numeric_limits<float>::quiet_NaN());
        const int64_t rows = std::min(layout_.rows, H - i * layout_.rows),
                      columns = std::min(layout_.columns, W - j * layout_.columns);
        for (int64_t t = 0; t < steps; ++t)
          for (int64_t y = 0; y < rows; ++y)
            std::copy_n(held_.data() + ((t * C + c) * H + i * layout_.rows + y) * W + j * layout_.columns,
                        columns, chunk.data() + (t * layout_.rows + y) * layout_.columns);
        const char* between = layout_.version == 3 ? "/" : ".";
        put(info_.channels[c] + (layout_.version == 3 ? "/c/" : "/") + std::to_string(first) + between +
                std::to_string(i) + between + std::to_string(j),
            compressed(chunk));
      }
}

void ZarrWriter::finish() {
  std::error_code error;
  fs::rename(part_, path_, error);
  if (error)
    throw ConfigError(path_, "", "cannot be named: " + error.message(),
                      "remove what lies there, or name another");
}

}  // namespace isobar::data
