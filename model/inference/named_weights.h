// Weights that another program wrote, whatever its format: names and shapes first, numbers when they are
// asked for, so that the net which wants them decides how much is read.
//
//   for (const auto& [name, shape] : file.shapes())
//     if (shape == wanted.at(name)) file.read(name, values);
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/inference/safetensors.h"

namespace isobar {

class NamedWeights {
 public:
  virtual ~NamedWeights() = default;
  virtual const std::map<std::string, std::vector<int64_t>>& shapes() const = 0;
  /// Whether its type is one of weights; counters are integers.
  virtual bool floating(const std::string& name) const = 0;
  /// All numbers of one, row-major. Throws ConfigError where the file does not hold them.
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

/// A file on its way, which goes with this unless it was renamed.
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

}  // namespace isobar
