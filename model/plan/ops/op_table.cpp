#include "model/plan/ops/op_table.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

namespace isobar::plan {
namespace {

std::vector<Role> roles(std::string_view text) {
  std::vector<Role> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    const bool repeats = word.ends_with("...");
    if (repeats) word.remove_suffix(3);
    const bool optional = word.back() == '?';
    if (optional) word.remove_suffix(1);
    out.push_back({word, optional, repeats});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

struct Roles {
  std::vector<Role> reads, writes;
};

const Roles& roles_of(OpKind k) {
  static const std::array<Roles, kOpKinds> all = [] {
    std::array<Roles, kOpKinds> out;
    for (const OpInfo& row : kOpRows)
      out[static_cast<size_t>(row.kind)] = {roles(row.reads), roles(row.writes)};
    return out;
  }();
  return all[static_cast<size_t>(k)];
}

void check(const Op& op, const std::vector<View>& views, size_t count, std::span<const Role> roles,
           const char* verb) {
  const bool repeats = !roles.empty() && roles.back().repeats;
  if (count > roles.size() && !repeats)
    throw std::logic_error(op.path + " " + verb + " " + std::to_string(count) + " operands, and " +
                           std::string(info_of(op.kind).name) + " has " + std::to_string(roles.size()));
  for (size_t i = 0; i < roles.size(); ++i)
    if (!roles[i].optional && (i >= count || !views[i]))
      throw std::logic_error(op.path + " " + verb + " no " + std::string(roles[i].name));
}

}  // namespace

const OpInfo& info_of(OpKind k) {
  return kOpRows[static_cast<int>(k)];
}

std::optional<OpKind> op_named(std::string_view name) {
  for (const OpInfo& row : kOpRows)
    if (row.name == name) return row.kind;
  return std::nullopt;
}

std::span<const Role> reads_of(OpKind k) {
  return roles_of(k).reads;
}

std::span<const Role> writes_of(OpKind k) {
  return roles_of(k).writes;
}

void check_operands(const Op& op) {
  check(op, op.reads, op.reads.size(), reads_of(op.kind), "reads");
  const bool named = !writes_of(op.kind).empty() && writes_of(op.kind).back().name == "workspace";
  const size_t besides = op.workspace && !named ? 1 : 0;
  check(op, op.writes, op.writes.size() - besides, writes_of(op.kind), "writes");
}

// ---- functions of op.h that read a row ----

const char* name_of(OpKind k) {
  return info_of(k).name.data();
}

bool is_collective(OpKind k) {
  return info_of(k).price == PriceClass::transfer;
}

bool kernel_less(OpKind k) {
  return info_of(k).backends == kNoBackend;
}

}  // namespace isobar::plan
