// NumPy .npy files: floats of 32 or 64 bits, integers and booleans, of either endianness, in C order.
//
//   write_npy("global_means.npy", {1, C, 1, 1}, values);
//   NpyArray a = read_npy("global_means.npy", "data.means");
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/data/element.h"

namespace isobar {

struct NpyHeader {
  Element element = Element::f32;
  std::string datetime;  // the unit of numpy's datetime64, whose element is i64: "h"; "" for numbers
  bool big_endian = false;
  std::vector<int64_t> shape;
  int64_t count = 1;    // the shape's product
  int64_t data_at = 0;  // where the values begin
};

struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<double> values;  // C order
};

NpyArray read_npy(const std::string& path, const std::string& key);  // throws ConfigError
/// Of the bytes of such a file, wherever they were: `path`, `key` and `mend` are for the error.
NpyArray parse_npy(const std::string& bytes, const std::string& path, const std::string& key,
                   const std::string& mend);
/// Of its first bytes: kMostOfNpyHeader of them, or all.
constexpr int64_t kMostOfNpyHeader = 4096;
NpyHeader parse_npy_header(const std::string& bytes, const std::string& path, const std::string& key,
                           const std::string& mend);
/// The bytes of such a file: `descr` is the type as NumPy names it, "<f4" or "<i4"; `data` as they lie.
std::string npy_bytes(const std::string& descr, const std::vector<int64_t>& shape, const std::string& data);
/// Stored as f32, atomically.
void write_npy(const std::string& path, const std::vector<int64_t>& shape, const std::vector<float>& values);

}  // namespace isobar
