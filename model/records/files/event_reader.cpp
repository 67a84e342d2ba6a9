#include "model/records/files/event_reader.h"

#include <cstring>
#include <fstream>

#include "model/records/files/event_file.h"

namespace isobar::records {
namespace {

constexpr uint64_t kHead = 12;  // bytes: length and its checksum
constexpr uint64_t kTail = 4;   // checksum of the data
constexpr uint64_t kLargestEvent = uint64_t{16}
                                   << 20;  // bytes; larger ones are pictures, which are passed over

/// A message of protocol buffers, field by field
class Message {
 public:
  explicit Message(std::string_view all) : rest_(all) {}
  /// False at the end, and where the bytes are no message.
  bool next() {
    uint64_t key = 0;
    if (rest_.empty() || !varint(key)) return false;
    field = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        return varint(number);
      case 1:
        return take(8);
      case 2:
        return varint(number) && take(number);
      case 5:
        return take(4);
      default:
        return false;
    }
  }
  template <class T>
  T as() const {
    T v{};
    if (bytes.size() == sizeof v) std::memcpy(&v, bytes.data(), sizeof v);
    return v;
  }
  int field = 0;
  uint64_t number = 0;     // of a varint
  std::string_view bytes;  // of the other types

 private:
  bool varint(uint64_t& v) {
    v = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto b = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      v |= static_cast<uint64_t>(b & 127) << shift;
      if (b < 128) return true;
    }
    return false;
  }
  bool take(uint64_t n) {
    if (n > rest_.size()) return false;
    bytes = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return true;
  }
  std::string_view rest_;
};

template <class T>
std::optional<double> first_of(std::string_view packed) {
  T v{};
  if (packed.size() < sizeof v) return std::nullopt;
  std::memcpy(&v, packed.data(), sizeof v);
  return static_cast<double>(v);
}

// tensorflow/core/framework/tensor.proto: dtype = 1, tensor_content = 4, float_val = 5, double_val = 6
std::optional<double> scalar_of_tensor(std::string_view tensor) {
  constexpr uint64_t kFloat = 1, kDouble = 2;
  uint64_t type = 0;
  std::optional<double> out;
  for (Message m(tensor); m.next();) {
    if (m.field == 1) type = m.number;
    if (m.field == 5 || (m.field == 4 && type == kFloat)) out = first_of<float>(m.bytes);
    if (m.field == 6 || (m.field == 4 && type == kDouble)) out = first_of<double>(m.bytes);
  }
  return out;
}

/// Summary.Value: tag = 1, simple_value = 2, tensor = 8
void take_value(std::string_view value, EventScalar s, std::vector<EventScalar>& to) {
  std::optional<double> number;
  for (Message m(value); m.next();) {
    if (m.field == 1) s.tag = std::string(m.bytes);
    if (m.field == 2 && m.bytes.size() == sizeof(float)) number = m.as<float>();
    if (m.field == 8) number = scalar_of_tensor(m.bytes);
  }
  if (!number) return;
  s.value = *number;
  to.push_back(std::move(s));
}

template <class T>
T number_of(const std::string& bytes, size_t at) {
  T v{};
  std::memcpy(&v, bytes.data() + at, sizeof v);  // only little-endian hosts are supported
  return v;
}

}  // namespace

std::vector<EventScalar> scalars_in(std::string_view event) {
  EventScalar head;
  std::vector<std::string_view> values;
  for (Message m(event); m.next();) {
    if (m.field == 1) head.wall_time = m.as<double>();
    if (m.field == 2) head.step = static_cast<int64_t>(m.number);
    if (m.field != 5) continue;
    for (Message summary(m.bytes); summary.next();)
      if (summary.field == 1) values.push_back(summary.bytes);
  }
  std::vector<EventScalar> out;
  for (const std::string_view v : values) take_value(v, head, out);
  return out;
}

std::vector<EventScalar> EventReader::more() {
  std::vector<EventScalar> out;
  std::error_code error;
  const auto size = static_cast<uint64_t>(std::filesystem::file_size(file_, error));
  if (error) return out;  // also of pipes, which wait for a writer when they are opened
  std::ifstream in(file_, std::ios::binary);
  if (!in) return out;
  const auto wrong = [&](const char* what) {
    fault_ = "byte " + std::to_string(read_) + ": " + what;
    return out;
  };
  while (!fault_ && static_cast<uint64_t>(read_) + kHead <= size) {
    std::string head(kHead, '\0');
    in.seekg(read_);
    if (!in.read(head.data(), kHead)) break;
    const auto length = number_of<uint64_t>(head, 0);
    if (number_of<uint32_t>(head, 8) != masked_crc32c(head.substr(0, 8)))
      return wrong("its length's checksum is wrong");
    if (length > size - static_cast<uint64_t>(read_) - kHead ||
        static_cast<uint64_t>(read_) + kHead + length + kTail > size)
      break;  // still being written
    if (length <= kLargestEvent) {
      std::string data(length + kTail, '\0');
      if (!in.read(data.data(), static_cast<std::streamsize>(data.size()))) break;
      const auto crc = number_of<uint32_t>(data, length);
      data.resize(length);
      if (crc != masked_crc32c(data)) return wrong("its checksum is wrong");
      for (EventScalar& s : scalars_in(data)) out.push_back(std::move(s));
    }
    read_ += static_cast<int64_t>(kHead + length + kTail);
  }
  return out;
}

}  // namespace isobar::records
