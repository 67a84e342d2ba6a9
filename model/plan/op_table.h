// All that is known of each kind of op, in one row. A new op is a row (op_table.cpp) and its kernels.
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

#include "model/plan/work.h"

namespace isobar {

constexpr int kOpKinds = static_cast<int>(OpKind::recv) + 1;

/// How a predictor prices an op (coefficients: perfmodel/step/op_terms.h). Row kernels have a price per byte
/// and one per floating point operation.
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

/// Back ends that have a kernel or a library call for it.
enum Backends : uint8_t { kNoBackend = 0, kCpu = 1, kCuda = 2, kEvery = kCpu | kCuda };

struct Role {
  std::string_view name;
  bool optional = false;  // may be absent
  bool repeats = false;   // the last operand: any number of them
};

struct OpInfo {
  OpKind kind;
  std::string_view name;  // spelling in code, dumps, traces and benchmarks
  // Operands in order, separated by blanks; `?`: may be absent; `...`: any number.
  std::string_view reads, writes;
  PriceClass price;
  Backends backends;
  // Arithmetic for each of m x n elements, from the kernel's formula; a transcendental function counts as
  // one.
  double vector_flops = 0;
  // Corrects the default count: every read read once, every write written once, vector_flops per element
  void (*special)(const Op&, const Plan&, Work&) = nullptr;
};

const OpInfo& info_of(OpKind k);
std::optional<OpKind> op_named(std::string_view name);
std::span<const Role> reads_of(OpKind k);
std::span<const Role> writes_of(OpKind k);

/// Throws std::logic_error, with path and role, if an op lacks an operand or has more than its row. A
/// workspace is extra.
void check_operands(const Op& op);

}  // namespace isobar
