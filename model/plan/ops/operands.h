// Operands of an op by the names of its kind's row (op_kind.h). A name that the row lacks does not compile.
//
//   const View& bias = in<OpKind::gemm>(op, "bias");          // View{} where absent
//   const View& m = out<OpKind::adam>(op, "m");
//   in<OpKind::adam, OpKind::sgd>(op, "grad")                 // kinds whose rows agree on name and place
#pragma once
#include <algorithm>
#include <type_traits>

#include "model/plan/ops/op.h"

namespace isobar::plan {

/// Place of a role among those of a row's text; not a constant, and so an error, if the row lacks it.
consteval size_t place_of(std::string_view roles, std::string_view name) {
  for (size_t place = 0; !roles.empty(); ++place) {
    const size_t end = std::min(roles.find(' '), roles.size());
    std::string_view role = roles.substr(0, end);
    while (role.ends_with('?') || role.ends_with('.')) role.remove_suffix(1);
    if (role == name) return place;
    roles.remove_prefix(std::min(end + 1, roles.size()));
  }
  throw "the row has no operand of this name";
}

template <std::string_view OpInfo::*Side, OpKind K, OpKind... Same>
struct OperandOf {
  size_t place;
  consteval OperandOf(const char* name) : place(place_of(kOpRows[static_cast<int>(K)].*Side, name)) {
    if (((place != place_of(kOpRows[static_cast<int>(Same)].*Side, name)) || ...))
      throw "the kinds' rows hold this operand at different places";
  }
};
template <OpKind K, OpKind... Same>
using InOf = OperandOf<&OpInfo::reads, K, Same...>;
template <OpKind K, OpKind... Same>
using OutOf = OperandOf<&OpInfo::writes, K, Same...>;

inline constexpr View kAbsent;

/// The scratch that a back end asked for, the last write; absent: none.
inline const View& workspace_of(const Op& op) {
  return op.workspace ? op.writes.back() : kAbsent;
}
inline const View& read_at(const Op& op, size_t place) {
  return place < op.reads.size() ? op.reads[place] : kAbsent;
}
inline const View& write_at(const Op& op, size_t place) {
  return place < op.writes.size() ? op.writes[place] : kAbsent;
}
template <OpKind K, OpKind... Same>
const View& in(const Op& op, std::type_identity_t<InOf<K, Same...>> role) {
  return read_at(op, role.place);
}
template <OpKind K, OpKind... Same>
const View& out(const Op& op, std::type_identity_t<OutOf<K, Same...>> role) {
  return write_at(op, role.place);
}
/// Throw std::out_of_range if the op lacks the operand.
template <OpKind K, OpKind... Same>
View& in(Op& op, std::type_identity_t<InOf<K, Same...>> role) {
  return op.reads.at(role.place);
}
template <OpKind K, OpKind... Same>
View& out(Op& op, std::type_identity_t<OutOf<K, Same...>> role) {
  return op.writes.at(role.place);
}

// ---- attention ----

/// The bias of the scores, forward or backward; absent: there is none.
inline const View& bias_of_scores(const Op& op) {
  return op.kind == OpKind::attention ? in<OpKind::attention>(op, "bias")
                                      : in<OpKind::attention_backward>(op, "bias");
}

// ---- transfers: each takes its first read and fills its first write ----

inline const View& transfer_source(const Op& op) {
  return read_at(op, 0);
}
inline const View& transfer_target(const Op& op) {
  return write_at(op, 0);
}
/// The operand that a transfer's group shares whole: of a gather and a receive the result.
inline const View& whole_of(const Op& op) {
  using K = OpKind;
  return op.kind == K::all_gather || op.kind == K::recv
             ? out<K::all_gather, K::recv>(op, "x")
             : in<K::all_reduce, K::broadcast, K::reduce_scatter, K::all_to_all, K::exchange, K::send>(op,
                                                                                                       "x");
}

}  // namespace isobar::plan
