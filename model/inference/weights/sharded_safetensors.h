// Weights in several safetensors files beside an index, as transformers writes large models:
//
//   model.safetensors.index.json    {"metadata": {"total_size": bytes}, "weight_map": {tensor: file}}
//   model-00001-of-00003.safetensors …
//
//   ShardedWeights(path)             reads them by their index
//   ShardedWriter out("model.safetensors", tensors, DType::bf16, 5e9);    // one file if they fit
//   out.write(name, values); …  out.finish();
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/inference/weights/named_weights.h"

namespace isobar::inference {

/// True by the name of the file.
bool is_safetensors_index(const std::filesystem::path& file);

class ShardedWeights : public NamedWeights {
 public:
  /// Throws ConfigError naming the index or a file that lacks a tensor.
  explicit ShardedWeights(const std::filesystem::path& index);
  const std::map<std::string, std::vector<int64_t>>& shapes() const override { return shapes_; }
  bool floating(const std::string& name) const override { return of_.at(name)->floating(name); }
  void read(const std::string& name, float* values) const override { of_.at(name)->read(name, values); }

 private:
  std::map<std::string, std::unique_ptr<SafetensorsWeights>> files_;
  std::map<std::string, const SafetensorsWeights*> of_;  // by tensor
  std::map<std::string, std::vector<int64_t>> shapes_;
};

/// Tensors are written in their order; nothing has its final name before finish().
class ShardedWriter {
 public:
  /// `most`: bytes of a file's tensors, unless one alone is larger
  ShardedWriter(std::filesystem::path to, const std::vector<plan::Tensor>& tensors, DType type, int64_t most);
  void write(const plan::Tensor& t, const float* values);
  void finish();

 private:
  struct Shard {
    std::vector<plan::Tensor> tensors = {};
    int64_t bytes = 0;
  };
  void open_next();
  std::filesystem::path name_of(size_t shard) const;

  const std::filesystem::path to_;
  const DType type_;
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<HalfFile>> written_;
  std::unique_ptr<SafetensorsWriter> open_;
  size_t in_shard_ = 0;  // tensors written to the open one
};

}  // namespace isobar::inference
