// One table of op cases for all back ends: operands, and results from plain loops in double. Gradients are
// central differences of those loops, so that no backward formula is written twice.
//
//   for (const OpCase& c : cases_of(OpKind::gemm, random)) run_op(c, backend…);   // run_op.h
//
// A new op needs cases here: a kind that a back end claims without any fails.
#pragma once
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "model/plan/ops/op.h"
#include "tests/cpu/kernel_testing.h"

namespace isobar::testing {

using cpu::testing::kActs;
using cpu::testing::Random;
using Numbers = std::vector<double>;

struct Operand {
  DType type = DType::f32;
  Numbers before = {};  // in its type; NaN for a write: uninitialised
  Numbers want = {};    // for a write
  double allowed = 0;   // |got - want| / |want|, over the whole operand
  int shares = -1;      // for a write: the read whose memory it shares
  int64_t count() const { return static_cast<int64_t>(before.size()); }
  explicit operator bool() const { return !before.empty(); }
};

struct OpCase {
  plan::OpKind kind;
  std::string what;  // "bf16 33x63"
  plan::Attrs attrs;
  std::vector<Operand> reads, writes;  // without the workspace; {}: absent
};

/// {}: none.
std::vector<OpCase> cases_of(plan::OpKind kind, Random& random);

// ---- building blocks ----

double as_held(DType t, double x);  // rounded to the type
Operand normals(Random& random, DType t, int64_t n, double scale = 1, double mean = 0);
Operand given(DType t, Numbers values);  // rounded to the type
/// A write; `allowed` 0: one rounding of the type, and sums in f32.
Operand written(DType t, Numbers want, double allowed = 0);
/// A write that is added to old values.
Operand added(Random& random, DType t, Numbers sum, double allowed = 0);
Operand in_place(int read, const Operand& was, Numbers want, double allowed = 0);
std::string size_text(DType t, int64_t rows, int64_t cols);

using Function = std::function<Numbers(const Numbers&)>;
/// d(sum of weight_i f_i) / dx
Numbers gradient(const Function& f, Numbers x, const Numbers& weights);
/// The same for elementwise functions.
Numbers elementwise_gradient(const std::function<double(double)>& f, const Numbers& x,
                             const Numbers& weights);

// ---- one file each; adds its cases of the kind ----
void add_product_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to);  // gemm, attention
void add_row_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to);   // norms, activations, sums
void add_move_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to);  // copies, casts, graphs
void add_image_cases(plan::OpKind kind, Random& random,
                     std::vector<OpCase>& to);  // patches, roll-outs, losses
void add_class_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to);  // cross-entropy
void add_language_cases(plan::OpKind kind, Random& random,
                        std::vector<OpCase>& to);  // RMSNorm, words, positions
void add_expert_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to);     // mixtures of experts
void add_optimizer_cases(plan::OpKind kind, Random& random, std::vector<OpCase>& to);  // gradient norms,
                                                                                       // updates, averages

}  // namespace isobar::testing
