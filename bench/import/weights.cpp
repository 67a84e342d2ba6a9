// Imports a published net's weights from a PyTorch file, safetensors or the index of several.
#include <fstream>

#include "bench/import/import.h"
#include "bench/import/torch_file.h"
#include "model/base/error.h"
#include "model/base/spec/spec.h"
#include "model/base/system/files.h"
#include "model/inference/weights/published_weights.h"
#include "model/inference/weights/sharded_safetensors.h"

namespace isobar::foreign {
namespace {

namespace fs = std::filesystem;

std::string beginning(const fs::path& file, size_t bytes) {
  std::string begin(bytes, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(begin.data(), static_cast<std::streamsize>(bytes));
  begin.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return begin;
}

bool is_zip(const std::string& begin) {
  return begin.starts_with("PK\x03\x04");
}
bool is_pickle(const std::string& begin) {
  return begin.size() > 1 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5;
}
bool is_safetensors(const std::string& begin) {  // eight bytes of length, then JSON
  return begin.size() > 8 && begin[8] == '{' && begin[7] == '\0' && begin[6] == '\0';
}

}  // namespace

bool is_weights(const fs::path& file) {
  const std::string begin = beginning(file, 16);
  return is_zip(begin) || is_pickle(begin) || is_safetensors(begin) || inference::is_safetensors_index(file);
}

std::string import_weights(const fs::path& file, const std::string& config, const fs::path& to) {
  const RunSpec spec = load_run_spec(config);
  const std::string begin = beginning(file, 16);
  if (is_pickle(begin))
    throw ConfigError(file.string(), "", "is a pickle as PyTorch wrote them before 1.6",
                      "load and save it again with a PyTorch of today");
  const auto merged = [](int64_t weights) {
    return weights == 0 ? "" : "merged " + std::to_string(weights) + " weights with their adapters\n";
  };
  if (inference::is_safetensors_index(file))
    return merged(
        inference::import_published_weights(spec, inference::ShardedWeights(file), file.string(), to));
  if (!is_zip(begin))
    return merged(
        inference::import_published_weights(spec, inference::SafetensorsWeights(file), file.string(), to));
  std::vector<std::string> left_out;
  const auto in = open_torch_file(file, &left_out);
  const int64_t weights = inference::import_published_weights(spec, *in, file.string(), to);
  std::string said;
  for (const std::string& name : left_out) said += "left out: " + showable(name) + "\n";
  return said + merged(weights);
}

}  // namespace isobar::foreign
