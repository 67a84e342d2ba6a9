// NumPy .npy files of either order and endianness: floats of 16 to 64 bits, integers and booleans.
//
//   write_npy("global_means.npy", {1, C, 1, 1}, values);
//   NpyArray a = read_npy("global_means.npy", "data.means");
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model/data/files/element.h"

namespace isobar::data {

struct NpyHeader {
  Element element = Element::f32;
  std::string datetime;  // unit of datetime64, stored as i64: "h"; "" for numbers
  bool big_endian = false;
  bool fortran = false;  // the first axis varies fastest
  std::vector<int64_t> shape;
  int64_t count = 1;    // the shape's product
  int64_t data_at = 0;  // byte offset of the values
};

struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<double> values;  // C order
};

NpyArray read_npy(const std::string& path, const std::string& key);  // throws ConfigError
/// Parses the bytes of a .npy file; the other arguments are for the error message.
NpyArray parse_npy(const std::string& bytes, const std::string& path, const std::string& key,
                   const std::string& mend);
/// Parses the header from the first kMostOfNpyHeader bytes of a file, or from all of a shorter one.
constexpr int64_t kMostOfNpyHeader = 4096;
NpyHeader parse_npy_header(const std::string& bytes, const std::string& path, const std::string& key,
                           const std::string& mend);
/// The bytes of a .npy file. `descr`: NumPy's name of the type, "<f4" or "<i4"; `data`: the values in C
/// order.
std::string npy_bytes(const std::string& descr, const std::vector<int64_t>& shape, const std::string& data);
/// Writes the values as f32, atomically.
void write_npy(const std::string& path, const std::vector<int64_t>& shape, const std::vector<float>& values);

}  // namespace isobar::data
