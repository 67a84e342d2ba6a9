#include "bench/import/megatron_arguments.h"

#include <algorithm>
#include <cstdlib>

#include "model/base/error.h"

namespace isobar::foreign {
namespace {

/// Takes "....default" or "....updated" off a value, which only GPT-NeoX writes behind it.
bool take_neox_mark(std::string& value) {
  for (const std::string mark : {"default", "updated"})
    if (value.size() > mark.size() && value.ends_with(mark)) {
      const size_t dots = value.size() - mark.size();
      const size_t end = value.find_last_not_of('.', dots - 1) + 1;
      if (end == dots) return false;
      value.erase(end);
      return true;
    }
  return false;
}

std::string megatrons_name(const std::string& neox) {
  static const std::map<std::string, std::string> kNames = {
      {"train_batch_size", "global_batch_size"},
      {"train_micro_batch_size_per_gpu", "micro_batch_size"},
      {"model_parallel_size", "tensor_model_parallel_size"},
      {"pipe_parallel_size", "pipeline_model_parallel_size"},
      {"intermediate_size", "ffn_hidden_size"},
      {"num_kv_heads", "num_key_value_heads"}};
  const auto at = kNames.find(neox);
  return at == kNames.end() ? neox : at->second;
}

}  // namespace

MegatronArguments::MegatronArguments(const std::vector<std::string>& lines, const std::string& file) {
  bool inside = false;
  for (const std::string& line : lines) {
    if (line.find("end of arguments ---") != std::string::npos) {
      inside = false;
    } else if (line.find(" arguments ---") != std::string::npos) {
      if (!values_.empty())
        throw ConfigError(file, "arguments", "are printed twice: the log holds several runs",
                          "give each run's part as a file of its own");
      inside = true;
    } else if (inside) {
      take(line);
    }
  }
}

std::string MegatronArguments::text(const std::string& name) const {
  const auto at = values_.find(name);
  return at == values_.end() || at->second == "None" ? "" : at->second;
}

double MegatronArguments::number(const std::string& name, double otherwise) const {
  const std::string t = text(name);
  char* end = nullptr;
  const double v = std::strtod(t.c_str(), &end);
  return t.empty() || *end != 0 ? otherwise : v;
}

void MegatronArguments::take(const std::string& line) {
  // "name ...... value": at least one dot between blanks, which long names leave of them
  size_t dots = line.find(" ."), end = dots;
  for (; dots != std::string::npos; dots = line.find(" .", dots + 1)) {
    end = std::min(line.find_first_not_of('.', dots + 1), line.size());
    if (end == line.size() || line[end] == ' ') break;
  }
  if (dots == std::string::npos || dots == 0) return;
  const size_t begin = line.find_last_of(" \t", dots - 1);
  const std::string name = line.substr(begin + 1, dots - begin - 1);
  std::string value = end == line.size() ? "" : line.substr(end + 1);
  const bool marked = take_neox_mark(value);
  neox_ = neox_ || marked;
  values_[marked ? megatrons_name(name) : name] = value;
}

}  // namespace isobar::foreign
