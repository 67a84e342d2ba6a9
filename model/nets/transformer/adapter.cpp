#include "model/nets/transformer/adapter.h"

#include <algorithm>
#include <ranges>

#include "model/base/error.h"
#include "model/base/names/named_factor.h"
#include "model/base/text/joined.h"

namespace isobar::nets {
namespace {

std::string without_last(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 6;
  return joined(names | std::views::take(kMost)) + (names.size() > kMost ? ", …" : "");
}

}  // namespace

std::string stem_of(const std::vector<plan::Param>& weights) {
  const std::string stem = without_last(weights[0].name);
  return weights.size() == 1 ? stem : without_last(stem);
}

void check_names(const RunSpec& spec, const plan::Plan& plan) {
  const TrainSpec& t = spec.train;
  std::vector<std::string> names, adapters;
  bool trains = false;
  for (const plan::Tensor& x : plan.tensors) {
    trains |= !x.frozen;
    const bool adapter = x.name.ends_with(kLoraA) || x.name.ends_with(kLoraB);
    (adapter ? adapters : names).push_back(x.name);
  }
  for (const std::string& pattern : t.freeze)
    if (std::none_of(names.begin(), names.end(), [&](const auto& n) { return matches(pattern, n); }))
      throw ConfigError(spec.file, "train.freeze", "'" + pattern + "' is no parameter's name or pattern",
                        "parameters are named " + list_of(names));
  const auto of_all = [&](const std::string& pattern, const char* key) {
    const auto is = [&](const std::string& n) { return matches(pattern, n); };
    if (std::none_of(names.begin(), names.end(), is) && std::none_of(adapters.begin(), adapters.end(), is))
      throw ConfigError(spec.file, key, "'" + pattern + "' is no parameter's name or pattern",
                        "parameters are named " + list_of(names));
  };
  for (const std::string& pattern : t.no_decay)
    if (pattern != kVectors) of_all(pattern, "train.no_decay");
  for (const std::string& f : t.lr_factors) of_all(named_factor(f)->name, "train.lr_factors");
  // Each target must match some linear, named by its weight.
  for (const std::string& pattern : t.lora_targets)
    if (std::none_of(names.begin(), names.end(), [&](const auto& n) {
          return matches(pattern, n) && n.ends_with(".weight") &&
                 std::find(adapters.begin(), adapters.end(), without_last(n) + kLoraB) != adapters.end();
        }))
      throw ConfigError(spec.file, "train.lora_targets",
                        "'" + pattern + "' matches no linear's weight that can have an adapter",
                        "parameters are named " + list_of(names));
  if (!trains)
    throw ConfigError(spec.file, "train.freeze", "leaves nothing to train", "freeze less, or add adapters");
}

}  // namespace isobar::nets
