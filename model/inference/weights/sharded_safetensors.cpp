#include "model/inference/weights/sharded_safetensors.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "model/base/error.h"
#include "model/base/system/files.h"
#include "model/base/text/json.h"
#include "model/nets/published/published.h"

namespace isobar::inference {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kIndexEnd = ".safetensors.index.json";

// Files are beside their index.
std::string file_in(const fs::path& index, const std::string& tensor, const json& file) {
  const std::string name = file.is_string() ? file.get<std::string>() : "";
  if (name.empty() || fs::path(name).filename() != name)
    throw ConfigError(index.string(), tensor,
                      "is in " + json_text(file) + ", which is no file beside the index",
                      "give the index as transformers writes it");
  return name;
}

}  // namespace

bool is_safetensors_index(const fs::path& file) {
  return file.filename().string().ends_with(kIndexEnd);
}

ShardedWeights::ShardedWeights(const fs::path& index) {
  const json all = read_json(index.string());
  if (!all.is_object() || !all.contains("weight_map") || !all["weight_map"].is_object())
    throw ConfigError(index.string(), "weight_map", "is missing", "give the index as transformers writes it");
  for (const auto& [tensor, file] : all["weight_map"].items()) {
    const std::string name = file_in(index, tensor, file);
    std::unique_ptr<SafetensorsWeights>& in = files_[name];
    if (!in) in = std::make_unique<SafetensorsWeights>(index.parent_path() / name);
    const auto at = in->shapes().find(tensor);
    if (at == in->shapes().end())
      throw ConfigError(index.string(), tensor, "is not in " + name + ", where the index has it",
                        "take index and files of one download");
    of_[tensor] = in.get();
    shapes_[tensor] = at->second;
  }
}

ShardedWriter::ShardedWriter(fs::path to, const std::vector<plan::Tensor>& tensors, DType type, int64_t most)
    : to_(std::move(to)), type_(type), shards_(1) {
  for (const plan::Tensor& t : tensors) {
    const int64_t bytes = nets::elements_of(t.shape) * size_of(type);
    if (!shards_.back().tensors.empty() && shards_.back().bytes + bytes > most) shards_.emplace_back();
    shards_.back().tensors.push_back(t);
    shards_.back().bytes += bytes;
  }
  open_next();
}

fs::path ShardedWriter::name_of(size_t shard) const {
  if (shards_.size() == 1) return to_;
  char number[32];
  std::snprintf(number, sizeof number, "-%05zu-of-%05zu", shard + 1, shards_.size());
  return to_.parent_path() / (to_.stem().string() + number + to_.extension().string());
}

void ShardedWriter::open_next() {
  if (open_) open_->sync();
  const std::vector<plan::Tensor>& tensors = shards_.at(written_.size()).tensors;
  const Metadata metadata{{"format", "pt"}};
  written_.push_back(std::make_unique<HalfFile>(name_of(written_.size()).string() + ".tmp"));
  create_safetensors(written_.back()->path, tensors, metadata, type_);
  open_ = std::make_unique<SafetensorsWriter>(written_.back()->path, tensors, metadata, type_);
  in_shard_ = 0;
}

void ShardedWriter::write(const plan::Tensor& t, const float* values) {
  if (in_shard_ == shards_[written_.size() - 1].tensors.size()) open_next();
  if (shards_[written_.size() - 1].tensors[in_shard_++].name != t.name)
    throw std::logic_error("tensors are written in another order than announced: " + t.name);
  open_->write(t.name, 0, nets::elements_of(t.shape), values);
}

// A whole file of an earlier export goes, since transformers would read it in place of the index.
void ShardedWriter::finish() {
  open_->sync();
  open_.reset();
  json map = json::object();
  int64_t bytes = 0;
  for (size_t i = 0; i < written_.size(); ++i) {
    fs::rename(written_[i]->path, name_of(i));
    for (const plan::Tensor& t : shards_[i].tensors) map[t.name] = name_of(i).filename().string();
    bytes += shards_[i].bytes;
  }
  if (shards_.size() == 1) return;
  write_atomically(to_.parent_path() / (to_.stem().string() + kIndexEnd),
                   json_text({{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}, 2) + "\n");
  fs::remove(to_);
}

}  // namespace isobar::inference
