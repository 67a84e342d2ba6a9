// What a user fixes of a layout that is searched.
#include <algorithm>
#include <iterator>

#include "model/base/error.h"
#include "model/base/yaml.h"
#include "perfmodel/search.h"

namespace isobar {
namespace {

template <class List>
int index_in(const List& list, const std::string& word) {
  return static_cast<int>(std::find(std::begin(list), std::end(list), word) - std::begin(list));
}

}  // namespace

GivenLayout given_layout(const RunSpec& spec, const std::vector<std::string>& assignments) {
  nlohmann::json set = nlohmann::json::object();
  for (const std::string& a : assignments) apply_override(set, a);
  GivenLayout g;
  const LayoutSpec& l = spec.layout;
  const PolicySpec& p = spec.policy;
  const auto take = [&](const char* section, const char* name, const auto& keep) {
    if (!set.contains(section) || !set[section].contains(name)) return;
    keep();
    g.text +=
        (g.text.empty() ? "" : ", ") + std::string(section) + "." + name + "=" + set[section][name].dump();
  };
  take("layout", "dp", [&] { g.dp = l.dp; });
  take("layout", "tp", [&] { g.tp = l.tp; });
  take("layout", "cp", [&] { g.cp = l.cp; });
  take("layout", "pp", [&] { g.pp = l.pp; });
  take("layout", "vpp", [&] { g.vpp = l.vpp; });
  take("layout", "order", [&] { g.order = layout_of(spec).order; });
  take("policy", "micro_batch", [&] {
    if (p.micro_batch == 0)
      throw ConfigError("--set", "policy.micro_batch", "is 0: the largest that fits, which differs by layout",
                        "give a size, or leave it out and it is searched");
    g.micro_batch = p.micro_batch;
  });
  take("policy", "schedule", [&] { g.schedule = layout_of(spec).schedule; });
  take("policy", "zero", [&] { g.zero = static_cast<int>(p.zero); });
  take("policy", "recompute", [&] { g.recompute = index_in(kRecompute, p.recompute); });
  take("policy", "cp_kind", [&] { g.cp_kind = index_in(kCpKinds, p.cp_kind); });
  take("policy", "sequence_parallel", [&] { g.sequence_parallel = p.sequence_parallel; });
  return g;
}

}  // namespace isobar
