#include "perfmodel/ask/constraints.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/base/error.h"
#include "model/base/text/yaml.h"
#include "perfmodel/layouts/layout.h"

namespace isobar::perf {
namespace {

struct AxisName {
  const char *name, *section;
  std::vector<std::string> words{};  // {}: a number
  int64_t least = 1, most = 1 << 24;
};

const std::array<AxisName, kLayoutAxes>& axis_names() {
  static const std::array<AxisName, kLayoutAxes> names{AxisName{"dp", "layout"},
                                                       {"tp", "layout"},
                                                       {"cp", "layout"},
                                                       {"pp", "layout"},
                                                       {"vpp", "layout"},
                                                       {"micro_batch", "policy"},
                                                       {"schedule", "policy", names_of<PipelineSchedule>()},
                                                       {"zero", "policy", {}, 0, 3},
                                                       {"recompute", "policy", names_of<Recompute>()},
                                                       {"cp_kind", "policy", names_of<CpKind>()},
                                                       {"order", "layout", rank_orders()},
                                                       {"ep", "layout"},
                                                       {"sequence_parallel", "policy", {"false", "true"}},
                                                       {"workers", "data", {}, 0, 1024}};
  return names;
}

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : ", ") + w;
  return out;
}

class Reader {
 public:
  Reader(const char* option, const std::string& one) : option_(option), one_(one) {}

  Constraint constraint() const {
    const size_t sign = one_.find('=');
    const std::string name = one_.substr(0, sign);
    std::vector<std::string> known;
    for (const AxisName& a : axis_names()) known.emplace_back(a.name);
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end()) fail("'" + name + "' is no axis of a layout", "there are " + listed(known));
    if (sign == std::string::npos) fail("has no value", "write e.g. " + name + "=2 or tp=2..8");
    const size_t axis = static_cast<size_t>(at - known.begin());
    const std::string values = one_.substr(sign + 1);
    Constraint c{.axis = static_cast<LayoutAxis>(axis), .text = std::string(option_) + " " + one_};
    const size_t dots = values.find("..");
    c.from = value(axis_names()[axis], values.substr(0, dots));
    c.to = dots == std::string::npos ? c.from : value(axis_names()[axis], values.substr(dots + 2));
    if (c.from > c.to) fail("goes from more to less", "write the smaller one first");
    return c;
  }

 private:
  int64_t value(const AxisName& a, const std::string& text) const {
    if (!a.words.empty()) {
      const auto at = std::find(a.words.begin(), a.words.end(), text);
      if (at == a.words.end()) fail("'" + text + "' is no " + a.name, "there are " + listed(a.words));
      return at - a.words.begin();
    }
    int64_t v = 0;
    const char* end = text.data() + text.size();
    const auto [rest, failed] = std::from_chars(text.data(), end, v);
    if (failed != std::errc() || rest != end || v < a.least || v > a.most)
      fail("'" + text + "' is no " + a.name, "give a number from " + std::to_string(a.least) + " to " +
                                                 std::to_string(a.most) + ", or a range like 2..8");
    return v;
  }
  [[noreturn]] void fail(const std::string& what, const std::string& mend) const {
    throw ConfigError(option_, one_, what, mend);
  }

  const char* option_;
  const std::string& one_;
};

template <class Take>
void each_of(const std::string& list, const Take& take) {
  std::istringstream in(list + ",");  // an empty end is also an empty constraint
  for (std::string one; std::getline(in, one, ',');) take(one);
}

}  // namespace

void Constraints::add(Constraint c) {
  by_axis_[static_cast<size_t>(c.axis)].push_back(c);
  all_.push_back(std::move(c));
}

void Constraints::fix(const std::string& list) {
  each_of(list, [&](const std::string& one) { add(Reader("--fix", one).constraint()); });
}

void Constraints::exclude(const std::string& list) {
  each_of(list, [&](const std::string& one) {
    Constraint c = Reader("--exclude", one).constraint();
    c.excluded = true;
    add(std::move(c));
  });
}

bool Constraints::allows(LayoutAxis axis, int64_t value) const {
  const auto& rules = by_axis_[static_cast<size_t>(axis)];
  return std::all_of(rules.begin(), rules.end(), [value](const Constraint& c) {
    return (c.from <= value && value <= c.to) != c.excluded;
  });
}

std::optional<int64_t> Constraints::only(LayoutAxis axis) const {
  for (const Constraint& c : by_axis_[static_cast<size_t>(axis)])
    if (!c.excluded && c.from == c.to) return c.from;
  return std::nullopt;
}

std::string Constraints::text() const {
  std::vector<std::string> texts;
  for (const Constraint& c : all_) texts.push_back(c.text);
  return listed(texts);
}

Constraints Constraints::without(size_t index) const {
  Constraints out;
  for (size_t i = 0; i < all_.size(); ++i)
    if (i != index) out.add(all_[i]);
  return out;
}

Constraints given_layout(const RunSpec& spec, const std::vector<std::string>& assignments) {
  nlohmann::json set = nlohmann::json::object();
  for (const std::string& a : assignments) apply_override(set, a);
  const Layout l = layout_of(spec);
  const std::array<int64_t, kLayoutAxes> values{l.dp,
                                                l.tp,
                                                l.cp,
                                                l.pp,
                                                l.vpp,
                                                spec.policy.micro_batch,
                                                static_cast<int64_t>(l.schedule),
                                                l.zero,
                                                static_cast<int64_t>(l.recompute),
                                                static_cast<int64_t>(spec.policy.cp_kind),
                                                l.order,
                                                l.ep,
                                                spec.policy.sequence_parallel ? 1 : 0,
                                                spec.data.workers};
  Constraints keep;
  for (size_t i = 0; i < kLayoutAxes; ++i) {
    const AxisName& a = axis_names()[i];
    if (!set.contains(a.section) || !set[a.section].contains(a.name)) continue;
    const auto axis = static_cast<LayoutAxis>(i);
    if (axis == LayoutAxis::micro_batch && values[i] == 0)
      throw ConfigError("--set", "policy.micro_batch", "is 0: the largest that fits, which differs by layout",
                        "give a size, or leave it out and it is searched");
    keep.add({axis, values[i], values[i], false,
              std::string(a.section) + "." + a.name + "=" + set[a.section][a.name].dump()});
  }
  return keep;
}

}  // namespace isobar::perf
