// safetensors files: 8 bytes of header length (little-endian), a JSON header {name: {dtype, shape,
// data_offsets}}, then raw little-endian data. What PyTorch's safetensors.torch.load_file reads. F32 and F64
// are read, F32 is written.
//
//   write_safetensors(path, {{"head.weight", {1280, 384}, data}}, {{"step", "100"}});
//   auto file = read_safetensors(path);   file.tensors.at("head.weight").values
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace isobar {

struct TensorView {
  std::string name;
  std::vector<int64_t> shape;
  const float* data;
};

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> values;  // every dtype widened
};

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Not atomic by itself: checkpoint.cpp renames the directory that it is written into. fsyncs the file.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata);
/// Throws ConfigError for a file that is missing, truncated or malformed.
TensorFile read_safetensors(const std::filesystem::path& path);

}  // namespace isobar
