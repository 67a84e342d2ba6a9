// What is known of each kind of op, in one row: whoever adds an op adds its row (op_table.cpp) and kernels.
//
//   const OpInfo& row = info_of(OpKind::activation);
//   row.name, row.price, reads_of(OpKind::activation)[0].name
//
// name_of, is_collective and kernel_less (op.h) and work (work.h) are readings of the same rows.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/plan/work.h"

namespace isobar {

constexpr int kOpKinds = static_cast<int>(OpKind::recv) + 1;

/// What a predictor prices an op as (perfmodel/step/op_terms.h has the coefficients). Row kernels have a
/// price a byte and one a floating point operation.
enum class PriceClass : uint8_t {
  product,
  attention,
  attention_backward,
  norm,
  activation,
  reduction,
  copy,
  loss,
  optimizer,
  transfer  // over the network: by its algorithm
};

/// Which back ends have a kernel, or a library's call, for it.
enum Backends : uint8_t { kNoBackend = 0, kCpu = 1, kCuda = 2, kEvery = kCpu | kCuda };

struct Role {
  std::string_view name;
  bool optional = false;  // the op may come without this operand
  bool repeats = false;   // the last one: any number of them
};

struct OpInfo {
  OpKind kind;
  std::string_view name;  // as code, dumps, traces and benchmarks spell it
  // Operands in their order, apart by blanks; `?`: may be absent; `...`: any number.
  std::string_view reads, writes;
  PriceClass price;
  Backends backends;
  // Arithmetic for each of m x n elements, counted from the kernel's formula, a transcendental function as
  // one.
  double vector_flops = 0;
  // What is not simply "reads every read once, writes every write once, so much arithmetic an element"
  void (*special)(const Op&, const Plan&, Work&) = nullptr;
};

const OpInfo& info_of(OpKind k);
std::optional<OpKind> op_named(std::string_view name);
std::span<const Role> reads_of(OpKind k);
std::span<const Role> writes_of(OpKind k);

/// Throws std::logic_error, with the op's path and the operand's role, for an op that lacks an operand or has
/// one more than its row. A workspace comes besides.
void check_operands(const Op& op);

}  // namespace isobar
