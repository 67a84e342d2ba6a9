// NumPy .npy files, as far as statistics need them: f32 or f64, C order, little-endian.
//
//   write_npy("global_means.npy", {1, C, 1, 1}, values);
//   NpyArray a = read_npy("global_means.npy", "data.means");
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace isobar {

struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<double> values;  // C order
};

NpyArray read_npy(const std::string& path, const std::string& key);  // throws ConfigError
/// Stored as f32, atomically.
void write_npy(const std::string& path, const std::vector<int64_t>& shape, const std::vector<float>& values);

}  // namespace isobar
