// Weights of another program in any format. Names and shapes are read first and values on request, so that
// only the tensors a net needs are read.
//
//   for (const auto& [name, shape] : file.shapes())
//     if (shape == wanted.at(name)) file.read(name, values);
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/inference/weights/safetensors.h"

namespace isobar::inference {

class NamedWeights {
 public:
  virtual ~NamedWeights() = default;
  virtual const std::map<std::string, std::vector<int64_t>>& shapes() const = 0;
  /// True for a floating-point tensor; integer tensors are counters, not weights.
  virtual bool floating(const std::string& name) const = 0;
  /// Reads all values of a tensor, row-major. Throws ConfigError when the file does not hold them.
  virtual void read(const std::string& name, float* values) const = 0;
};

class SafetensorsWeights : public NamedWeights {
 public:
  explicit SafetensorsWeights(const std::filesystem::path& file) : file_(file) {
    for (const auto& [name, t] : file_.tensors()) shapes_[name] = t.shape;
  }
  const std::map<std::string, std::vector<int64_t>>& shapes() const override { return shapes_; }
  bool floating(const std::string& name) const override { return file_.tensors().at(name).floating(); }
  void read(const std::string& name, float* values) const override {
    const StoredTensor& t = file_.tensors().at(name);
    file_.read(t, 0, t.count, values);
  }

 private:
  SafetensorsReader file_;
  std::map<std::string, std::vector<int64_t>> shapes_;
};

/// A file being written; the destructor removes it unless it was renamed.
struct HalfFile {
  std::filesystem::path path;
  explicit HalfFile(std::filesystem::path p) : path(std::move(p)) {}
  ~HalfFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  HalfFile(const HalfFile&) = delete;
  HalfFile& operator=(const HalfFile&) = delete;
};

}  // namespace isobar::inference
