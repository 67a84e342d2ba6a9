#include "model/records/files/event_file.h"

#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "model/base/error.h"

namespace isobar::records {
namespace {

// Protocol buffers' wire format: a key of field number and wire type, then the value. Fields from
// tensorflow/core/util/event.proto: wall_time = 1 double, step = 2 int64, file_version = 3 string, summary =
// 5; Summary.value = 1 repeated; value: tag = 1 string, simple_value = 2 float, image = 4; image: height = 1,
// width = 2, colorspace = 3, encoded_image_string = 4. Value.metadata = 9: plugin_data = 1: plugin_name = 1,
// content = 2; of the plug-in of hyperparameters: HParamsPluginData.session_start_info = 3: hparams = 1, a
// map of google.protobuf.Value (number = 2, string = 3, bool = 4), start_time_secs = 5.
enum WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

void put_varint(std::string& out, uint64_t v) {
  while (v >= 0x80) {
    out += static_cast<char>(v | 0x80);
    v >>= 7;
  }
  out += static_cast<char>(v);
}

template <class T>
std::string little_endian(T v) {
  std::string out(sizeof v, '\0');
  std::memcpy(out.data(), &v, sizeof v);  // only little-endian hosts are supported
  return out;
}

void put(std::string& out, int field, WireType type, const std::string& value) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | type);
  if (type == bytes) put_varint(out, value.size());
  out += value;
}

std::string text_of(uint64_t v) {
  std::string out;
  put_varint(out, v);
  return out;
}

// `value`: the encoded value without its tag
std::string event_of(double wall_time, int64_t step, const std::string& tag, const std::string& value) {
  std::string v, summary, event;
  put(v, 1, bytes, tag);
  put(summary, 1, bytes, v + value);
  const std::string step_text = text_of(static_cast<uint64_t>(step));
  put(event, 1, fixed64, little_endian(wall_time));
  put(event, 2, varint, step_text);
  put(event, 5, bytes, summary);
  return event;
}

std::string scalar_of(double value) {
  std::string v;
  put(v, 2, fixed32, little_endian(static_cast<float>(value)));
  return v;
}

// PNG's first chunk holds width and height as 4 big-endian bytes each.
std::string picture_of(const std::string& png) {
  const auto number = [&](size_t at) {
    uint64_t n = 0;
    for (size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<unsigned char>(png.at(at + i));
    return n;
  };
  constexpr uint64_t kRgb = 3;
  std::string image, v;
  put(image, 1, varint, text_of(number(20)));
  put(image, 2, varint, text_of(number(16)));
  put(image, 3, varint, text_of(kRgb));
  put(image, 4, bytes, png);
  put(v, 4, bytes, image);
  return v;
}

// A key of a map and its google.protobuf.Value
std::string setting_of(const std::string& key, const nlohmann::json& value) {
  std::string v, entry;
  if (value.is_boolean())
    put(v, 4, varint, text_of(value.get<bool>() ? 1 : 0));
  else if (value.is_number())
    put(v, 2, fixed64, little_endian(value.get<double>()));
  else
    put(v, 3, bytes,
        value.is_string() ? value.get<std::string>()
                          : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  put(entry, 1, bytes, key);
  put(entry, 2, bytes, v);
  return entry;
}

}  // namespace

uint32_t crc32c(const std::string& data) {
  static const std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit)
        c = (c >> 1) ^ (c & 1 ? 0x82F63B78u : 0);  // the polynomial, reflected
      t[i] = c;
    }
    return t;
  }();
  uint32_t c = 0xFFFFFFFFu;
  for (const char ch : data) c = kTable[(c ^ static_cast<unsigned char>(ch)) & 0xFF] ^ (c >> 8);
  return ~c;
}

uint32_t masked_crc32c(const std::string& data) {
  const uint32_t c = crc32c(data);
  return ((c >> 15) | (c << 17)) + 0xA282EAD8u;
}

std::string tf_record(const std::string& data) {
  const std::string length = little_endian(static_cast<uint64_t>(data.size()));
  return length + little_endian(masked_crc32c(length)) + data + little_endian(masked_crc32c(data));
}

std::string event_file_head(double wall_time) {
  std::string version;
  put(version, 1, fixed64, little_endian(wall_time));
  put(version, 3, bytes, "brain.Event:2");  // required first event
  return tf_record(version);
}

std::string event_record(double wall_time, int64_t step, const std::string& tag, double value) {
  return tf_record(event_of(wall_time, step, tag, scalar_of(value)));
}

std::string event_hyperparameters(double wall_time, const nlohmann::json& settings) {
  std::string session, content, plugin, metadata, value;
  for (const auto& [key, setting] : settings.items()) put(session, 1, bytes, setting_of(key, setting));
  put(session, 5, fixed64, little_endian(wall_time));
  put(content, 3, bytes, session);
  put(plugin, 1, bytes, "hparams");
  put(plugin, 2, bytes, content);
  put(metadata, 1, bytes, plugin);
  put(value, 9, bytes, metadata);
  return tf_record(event_of(wall_time, 0, "_hparams_/session_start_info", value));
}

std::string event_file_name(double wall_time) {
  return "events.out.tfevents." + std::to_string(static_cast<int64_t>(wall_time)) + ".isobar";
}

EventFile::EventFile(const std::filesystem::path& dir, double wall_time, const nlohmann::json& settings)
    : path_(dir / event_file_name(wall_time)) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  out_.open(path_, std::ios::binary | std::ios::app);  // a run in the same second appends
  out_ << event_file_head(wall_time) << event_hyperparameters(wall_time, settings) << std::flush;
  if (!out_)
    throw ConfigError(path_.string(), "run.tensorboard", "cannot be written",
                      "name another run.out, or leave run.tensorboard out");
}

void EventFile::add(double wall_time, int64_t step, const std::string& tag, double value) {
  if (std::isfinite(value)) write(event_record(wall_time, step, tag, value));
}

void EventFile::add_picture(double wall_time, int64_t step, const std::string& tag, const std::string& png) {
  write(tf_record(event_of(wall_time, step, tag, picture_of(png))));
}

void EventFile::write(const std::string& record) {
  out_ << record << std::flush;
  if (!out_) throw std::runtime_error("cannot write " + path_.string());
}

}  // namespace isobar::records
