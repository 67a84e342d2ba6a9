#include "model/plan/layout.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "model/base/error.h"

namespace isobar::plan {
namespace {

int64_t size_of_axis(const LayoutSpec& l, const std::string& axis) {
  if (axis == "dp") return l.dp;
  if (axis == "tp") return l.tp;
  if (axis == "cp") return l.cp;
  if (axis == "pp") return l.pp;
  return 0;
}

std::vector<std::string> split(const std::string& s) {
  std::vector<std::string> out;
  std::istringstream in(s);
  for (std::string token; std::getline(in, token, '-');) out.push_back(token);
  return out;
}

}  // namespace

std::vector<std::string> order_tokens(const LayoutSpec& l, const std::string& file) {
  std::vector<std::string> tokens = split(l.order);
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (size_of_axis(l, tokens[i]) == 0)
      throw ConfigError(file, "layout.order", "'" + tokens[i] + "' is no axis",
                        "use tp, cp, dp and pp joined by '-'");
    if (std::find(tokens.begin(), tokens.begin() + static_cast<int64_t>(i), tokens[i]) !=
        tokens.begin() + static_cast<int64_t>(i))
      throw ConfigError(file, "layout.order", "'" + tokens[i] + "' stands twice", "name each axis once");
  }
  for (const char* axis : {"tp", "cp", "dp", "pp"}) {
    if (std::find(tokens.begin(), tokens.end(), axis) != tokens.end()) continue;
    if (size_of_axis(l, axis) > 1)
      throw ConfigError(
          file, "layout.order",
          std::string("leaves out ") + axis + ", which has size " + std::to_string(size_of_axis(l, axis)),
          "add it, e.g. tp-cp-dp-pp");
    tokens.emplace_back(axis);
  }
  return tokens;
}

Coords coords_of(const LayoutSpec& l, int rank) {
  Coords c;
  int64_t rest = rank;
  for (const std::string& axis : order_tokens(l)) {
    const int64_t size = std::max<int64_t>(1, size_of_axis(l, axis));  // never 0: order_tokens checks its
                                                                       // axes
    const int digit = static_cast<int>(rest % size);
    rest /= size;
    if (axis == "dp") c.dp = digit;
    if (axis == "tp") c.tp = digit;
    if (axis == "cp") c.cp = digit;
    if (axis == "pp") c.pp = digit;
  }
  return c;
}

std::vector<std::vector<int>> layout_groups(const LayoutSpec& l, const std::string& axes) {
  const std::vector<std::string> inside = split(axes);
  // Ranks in ascending order enumerate the outside digits with the first token fastest, and the inside digits
  // likewise.
  std::vector<std::vector<int>> groups;
  std::vector<std::vector<int>> keys;
  const auto tokens = order_tokens(l);
  for (int rank = 0; rank < l.world(); ++rank) {
    std::vector<int> key;
    int64_t rest = rank;
    for (const std::string& axis : tokens) {
      const int64_t size = std::max<int64_t>(1, size_of_axis(l, axis));
      if (std::find(inside.begin(), inside.end(), axis) == inside.end())
        key.push_back(static_cast<int>(rest % size));
      rest /= size;
    }
    const auto at = std::find(keys.begin(), keys.end(), key);
    if (at == keys.end()) {
      keys.push_back(key);
      groups.push_back({rank});
    } else {
      groups[at - keys.begin()].push_back(rank);
    }
  }
  return groups;
}

std::vector<int64_t> split_evenly(int64_t total, int64_t n) {
  int64_t part = (total + n - 1) / n;
  if (part * (n - 1) >= total) part = total / n;
  std::vector<int64_t> parts(n, part);
  parts.back() = total - part * (n - 1);
  return parts;
}

// Computed from the rank's digits: a large world needs only the one group.
std::vector<int> group_of(const LayoutSpec& l, const std::string& axes, int rank) {
  const std::vector<std::string> inside = split(axes);
  std::vector<int> group{rank};
  int64_t stride = 1;
  for (const std::string& axis : order_tokens(l)) {
    const int64_t size = std::max<int64_t>(1, size_of_axis(l, axis));
    if (std::find(inside.begin(), inside.end(), axis) != inside.end()) {
      const int64_t own = rank / stride % size;
      std::vector<int> wider;  // slower digits outside, so that ranks ascend
      for (int64_t digit = 0; digit < size; ++digit)
        for (int r : group) wider.push_back(static_cast<int>(r + (digit - own) * stride));
      group = std::move(wider);
    }
    stride *= size;
  }
  return group;
}

ExpertRanks expert_ranks(const LayoutSpec& l, int rank) {
  const std::vector<int> all = group_of(l, "cp-dp", rank);
  const int64_t place = std::find(all.begin(), all.end(), rank) - all.begin();
  ExpertRanks out{.owners = {}, .replicas = {}, .owner = place % l.ep, .replica = place / l.ep};
  for (int64_t i = 0; i < l.ep; ++i) out.owners.push_back(all[static_cast<size_t>(place - out.owner + i)]);
  for (auto i = static_cast<size_t>(out.owner); i < all.size(); i += static_cast<size_t>(l.ep))
    out.replicas.push_back(all[i]);
  return out;
}

}  // namespace isobar::plan
