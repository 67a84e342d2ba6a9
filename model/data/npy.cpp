#include "model/data/npy.h"

#include <cctype>
#include <cstring>
#include <filesystem>

#include "model/base/error.h"
#include "model/base/files.h"
#include "model/data/element.h"

namespace isobar {

namespace {

const char* const kNpyMend =
    "write it with numpy.save(path, x.astype('float32')), or make it: isobar data stats";

/// The text after `'key':` in the header dictionary, up to and including `end`.
std::string value_of(const std::string& header, const std::string& key, char end) {
  size_t at = header.find("'" + key + "'");
  if (at == std::string::npos || (at = header.find(':', at)) == std::string::npos) return "";
  const size_t stop = header.find(end, at + 1);
  return stop == std::string::npos ? "" : header.substr(at + 1, stop - at);
}

template <class T>
double number_as(const char* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  return static_cast<double>(x);
}

struct NpyType {
  int64_t bytes = 0;  // 0: none that is read
  bool big_endian = false;
  double (*number)(const char* at) = nullptr;
};

NpyType type_of(const std::string& descr) {
  const size_t at = descr.find('\'');
  const std::string name =
      at == std::string::npos ? "" : descr.substr(at + 1, descr.find('\'', at + 1) - at - 1);
  if (name.size() != 3 || std::string("<>|=").find(name[0]) == std::string::npos) return {};
  const struct {
    const char* name;
    int64_t bytes;
    double (*number)(const char*);
  } kTypes[] = {
      {"f4", 4, number_as<float>},    {"f8", 8, number_as<double>},   {"i1", 1, number_as<int8_t>},
      {"i2", 2, number_as<int16_t>},  {"i4", 4, number_as<int32_t>},  {"i8", 8, number_as<int64_t>},
      {"u1", 1, number_as<uint8_t>},  {"u2", 2, number_as<uint16_t>}, {"u4", 4, number_as<uint32_t>},
      {"u8", 8, number_as<uint64_t>}, {"b1", 1, number_as<uint8_t>}};
  for (const auto& t : kTypes)
    if (name.substr(1) == t.name) return {t.bytes, name[0] == '>', t.number};
  return {};
}

}  // namespace

NpyArray read_npy(const std::string& path, const std::string& key) {
  std::error_code unknown;
  if (std::filesystem::status(path, unknown).type() == std::filesystem::file_type::not_found)
    throw ConfigError(path, key, "no such file", "make it: isobar data stats DATA -o DIR");
  return parse_npy(read_file(path, most::npy, key), path, key, kNpyMend);
}

NpyArray parse_npy(const std::string& bytes, const std::string& path, const std::string& key,
                   const std::string& mend) {
  const auto refuse = [&](const std::string& what) { throw ConfigError(path, key, what, mend); };
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY", 6) != 0) refuse("is not a .npy file");
  const bool long_header = bytes[6] >= 2;  // version 1.0 has a 2-byte length, 2.0 and 3.0 a 4-byte one
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, long_header ? 4 : 2);
  const size_t data_at = (long_header ? 12 : 10) + static_cast<size_t>(length);
  if (data_at > bytes.size()) refuse("is truncated");
  const std::string header = bytes.substr(long_header ? 12 : 10, length);

  const std::string descr = value_of(header, "descr", ','), order = value_of(header, "fortran_order", ','),
                    shape = value_of(header, "shape", ')');
  const NpyType type = type_of(descr);
  if (type.bytes == 0)
    refuse("holds " + (descr.empty() ? "an unknown type" : descr) + " and no numbers of 8 to 64 bits");
  NpyArray out;
  int64_t n = 1;
  for (size_t i = 0; i < shape.size();) {
    if (!std::isdigit(static_cast<unsigned char>(shape[i]))) {
      ++i;
      continue;
    }
    int64_t d = 0;
    for (; i < shape.size() && std::isdigit(static_cast<unsigned char>(shape[i])) && d < (int64_t{1} << 40);
         ++i)
      d = d * 10 + (shape[i] - '0');
    out.shape.push_back(d);
    n = d != 0 && n > (int64_t{1} << 48) / d ? int64_t{1} << 48
                                             : n * d;  // a damaged header must not overflow
  }
  int64_t longest = 0;
  for (int64_t d : out.shape) longest = std::max(longest, d);
  if (order.find("False") == std::string::npos && longest != n) refuse("is in Fortran order");
  const int64_t size = type.bytes;
  if (static_cast<int64_t>(bytes.size() - data_at) != n * size)
    refuse("holds " + std::to_string(bytes.size() - data_at) + " bytes of data where its shape needs " +
           std::to_string(n * size));
  std::string swapped;
  const char* data = bytes.data() + data_at;
  if (type.big_endian) {
    swapped = bytes.substr(data_at);
    swap_bytes(swapped.data(), n, size);
    data = swapped.data();
  }
  out.values.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) out.values.push_back(type.number(data + i * size));
  return out;
}

std::string npy_bytes(const std::string& descr, const std::vector<int64_t>& shape, const std::string& data) {
  std::string dims;
  for (int64_t d : shape) dims += std::to_string(d) + (shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + dims + "), }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<uint16_t>(header.size());
  bytes.append(reinterpret_cast<const char*>(&length), 2);
  return bytes + header + data;
}

void write_npy(const std::string& path, const std::vector<int64_t>& shape, const std::vector<float>& values) {
  write_atomically(
      path,
      npy_bytes("<f4", shape, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
}

}  // namespace isobar
