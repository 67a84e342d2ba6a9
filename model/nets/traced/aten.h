// PyTorch's ops (ATen) in a plan: products and attention are the plan's own kinds, all others are priced by a
// class and their bytes. A row for each op that is no product; pointwise ones need none.
//
//   if (!aten_priced(op)) …                                      // named to the user
//   emit_aten(b, {.op = op, .samples = 4, …}, {x, w}, {y});      // the plan's ops of one recorded op
#pragma once
#include <string>
#include <vector>

#include "model/base/spec/traced_net.h"
#include "model/plan/builder.h"

namespace isobar::nets {

enum class AtenClass : uint8_t { product, attention, convolution, row, nothing, unknown };
AtenClass aten_class(const TracedOp& op);

/// Price and arithmetic of an op that is no product.
struct AtenRow {
  plan::PriceClass price = plan::PriceClass::activation;
  double vector_flops = 1;  // for each element of its largest operand
  bool picks = false;       // reads no more of its first operand than it writes
  bool overwrites = false;  // does not read its first operand
};
AtenRow aten_row(const TracedOp& op);
/// True if torch.compile fuses it with its neighbours.
bool aten_fuses(const TracedOp& op);

struct AtenCall {
  const TracedOp& op;
  int64_t samples;
  bool tf32;
  std::string path;
};
/// Views of its operands in their order; results may be absent.
void emit_aten(plan::Builder& b, const AtenCall& call, const std::vector<plan::View>& in,
               const std::vector<plan::View>& out);

/// Bytes of a tensor that an op reads or writes; a broadcast one counts once.
double aten_bytes(const TracedOperand& o, const TracedDefinition& of, int64_t samples);

}  // namespace isobar::nets
