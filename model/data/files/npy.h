// NumPy .npy files of either order and endianness: floats of 16 to 64 bits, integers and booleans.
//
//   write_npy("global_means.npy", {1, C, 1, 1}, values);
//   NpyArray a = read_npy("global_means.npy", "data.means");
//
// NumPy's datetime64 in .npz files and Zarr arrays: an integer count of a unit since 1970.
//
//   const auto hours = numpy_time("h");
//   hours->units          ->   "hours since 1970-01-01 00:00:00"
//   hours->value(431000)  ->   431000 of those units
#pragma once
#include <cstdint>
#include <optional>
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

struct NumpyTime {
  std::string units;  // CF units of value(), in the proleptic Gregorian calendar
  double scale = 1;
  int64_t months = 0;                  // above 0: the unit is that many months, and values are days
  double value(int64_t stored) const;  // NaN of NaT
};

/// Parses a unit: "ns", "D", "25s", "M" …; none for an unknown one.
std::optional<NumpyTime> numpy_time(const std::string& unit);

}  // namespace isobar::data
