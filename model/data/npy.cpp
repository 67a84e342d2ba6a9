#include "model/data/npy.h"

#include <cctype>
#include <cstring>
#include <filesystem>

#include "model/base/error.h"
#include "model/base/files.h"

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

}  // namespace

NpyArray read_npy(const std::string& path, const std::string& key) {
  std::error_code unknown;
  if (std::filesystem::status(path, unknown).type() == std::filesystem::file_type::not_found)
    throw ConfigError(path, key, "no such file", "make it: isobar data stats DATA -o DIR");
  const std::string bytes = read_file(path, most::npy, key);
  const auto refuse = [&](const std::string& what) { throw ConfigError(path, key, what, kNpyMend); };
  if (bytes.size() < 12 || bytes.compare(0, 6, "\x93NUMPY", 6) != 0) refuse("is not a .npy file");
  const bool long_header = bytes[6] >= 2;  // version 1.0 has a 2-byte length, 2.0 and 3.0 a 4-byte one
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, long_header ? 4 : 2);
  const size_t data_at = (long_header ? 12 : 10) + static_cast<size_t>(length);
  if (data_at > bytes.size()) refuse("is truncated");
  const std::string header = bytes.substr(long_header ? 12 : 10, length);

  const std::string descr = value_of(header, "descr", ','), order = value_of(header, "fortran_order", ','),
                    shape = value_of(header, "shape", ')');
  const bool f32 = descr.find("'<f4'") != std::string::npos, f64 = descr.find("'<f8'") != std::string::npos;
  if (!f32 && !f64)
    refuse("holds " + (descr.empty() ? "an unknown type" : descr) + " and not 32- or 64-bit floats");
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
  const int64_t size = f32 ? 4 : 8;
  if (static_cast<int64_t>(bytes.size() - data_at) != n * size)
    refuse("holds " + std::to_string(bytes.size() - data_at) + " bytes of data where its shape needs " +
           std::to_string(n * size));
  for (int64_t i = 0; i < n; ++i) {
    const char* at = bytes.data() + data_at + i * size;
    float f = 0;
    double d = 0;
    if (f32) {
      std::memcpy(&f, at, 4);
    } else {
      std::memcpy(&d, at, 8);
    }
    out.values.push_back(f32 ? f : d);
  }
  return out;
}

void write_npy(const std::string& path, const std::vector<int64_t>& shape, const std::vector<float>& values) {
  std::string dims;
  for (int64_t d : shape) dims += std::to_string(d) + (shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + dims + "), }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<uint16_t>(header.size());
  bytes.append(reinterpret_cast<const char*>(&length), 2);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  write_atomically(path, bytes);
}

}  // namespace isobar
