// Looks into the rows of op_kind.h.
//
//   const OpInfo& row = info_of(OpKind::activation);
//   row.name, row.price, reads_of(OpKind::activation)[0].name
//
// name_of, is_collective and kernel_less (op.h) and work (work.h) read the same rows.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/plan/ops/work.h"

namespace isobar::plan {

struct Role {
  std::string_view name;
  bool optional = false;  // may be absent
  bool repeats = false;   // the last operand: any number of them
};

const OpInfo& info_of(OpKind k);
std::optional<OpKind> op_named(std::string_view name);
std::span<const Role> reads_of(OpKind k);
std::span<const Role> writes_of(OpKind k);

/// Throws std::logic_error, with path and role, if an op lacks an operand or has more than its row. A
/// workspace is extra.
void check_operands(const Op& op);

}  // namespace isobar::plan
