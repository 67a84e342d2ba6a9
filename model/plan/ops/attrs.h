// The attributes of ops: one small struct for the kinds that share its meaning. A row of op_kind.h names its
// kind's.
//
//   b.emit<OpKind::gemm>(path, {.m = rows, .n = out, .k = in, .trans_b = true}, {x, w, bias}, {y});
//   op.as<GemmAttrs>().k                                      // throws std::bad_variant_access for another
//   kind's
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "model/base/activation.h"
#include "model/base/spec/settings.h"
#include "model/base/token_runs.h"

namespace isobar::plan {

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

struct GemmAttrs {  // C[m,n] = scale A[m,k] B[k,n], + C
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false, accumulate = false;
  bool tf32 = false;  // f32 operands are rounded to TF32's 10 bits of mantissa
  int64_t batch = 0;  // strided matrices; 0: one
  bool fp8 = false;   // operands are rounded to 8 bits when read
  float scale = 1;
};

struct GroupedGemmAttrs {  // as GemmAttrs, of the rows of each group, which follow one another
  // m: expected rows of all groups, of which each has its own B; with trans_a k is
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false, accumulate = false;
  bool tf32 = false, fp8 = false;
  int64_t groups = 0;
  double busiest = 1;  // factor on those rows for prices: of the rank that others wait for
};

struct AttentionAttrs {
  bool tf32 = false;
  int64_t batch = 0, heads = 0, kv_heads = 0, tq = 0, tk = 0, d = 0;
  int64_t ld_q = 0, ld_kv = 0, ld_o = 0;  // elements between rows
  bool causal = false;
  float scale = 0;          // 1/sqrt(d)
  int64_t last_counts = 1;  // multiplicity of the last key
  int64_t token0 = 0;       // causal: place of the first query among the keys
  int64_t window = 0;       // causal: keys that a query sees at most, the last ones; 0: all
};

struct AttentionMergeAttrs {  // ring: of one step's attention into the sum
  AttentionAttrs of;
  bool first = false;  // writes instead of adding
};

struct NormAttrs {
  int64_t rows = 0, cols = 0;
  bool accumulate = false;  // backward: adds to the gradients of the parameters
  float eps = 0;
  int64_t period = 0;  // rows after which the residual repeats (0: never)
  int64_t row0 = 0;    // first of these rows within a period
  bool first = false;  // backward: writes dx instead of adding to it
  // rms_norm of rows that stand side by side, as heads do: their number, and elements between lines of them
  // in x and in h; 0: rows follow one another
  int64_t heads = 1, ld_x = 0, ld_h = 0;
};

struct RowsAttrs {
  int64_t rows = 0, cols = 0;
};

struct AddAttrs {  // residual + y
  int64_t rows = 0, cols = 0;
  int64_t period = 0;  // rows after which the residual repeats (0: never)
  int64_t row0 = 0;    // first of these rows within a period
  /// visit(first row of the residual, first of y, rows) for each run of rows that follow one another in both
  template <class Visit>
  void each_run(const Visit& visit) const {
    for (int64_t r = 0, n = rows; r < rows; r += n) {
      const int64_t from = period > 0 ? (row0 + r) % period : r;
      n = period > 0 ? std::min(period - from, rows - r) : rows;
      visit(from, r, n);
    }
  }
};

struct RotaryAttrs {  // of heads of d columns
  int64_t rows = 0, cols = 0;
  int64_t d = 0, ld = 0;  // ld: elements between rows
  int64_t tokens = 0;     // of each sample, this rank's
};

struct LatentAttrs {  // heads of latent attention: `nope` and `rope` columns of queries and keys, v of values
  int64_t rows = 0, cols = 0;  // cols: of queries, keys and values together
  int64_t heads = 0, nope = 0, rope = 0, v = 0;
  int64_t ld = 0;      // elements between rows of the shared key
  int64_t tokens = 0;  // of each sample, this rank's
};

struct SumAttrs {  // of rows
  int64_t rows = 0, cols = 0;
  bool accumulate = false;
};

struct PeriodSumAttrs {
  int64_t rows = 0, cols = 0;
  bool accumulate = false;
  int64_t period = 0;  // rows after which positions repeat
  int64_t row0 = 0;    // first of these rows within a period
};

struct IndexAttrs {  // by constant indices, which samples share
  int64_t rows = 0, cols = 0;
  int64_t batch = 0;  // samples among the rows
};

struct ActivationAttrs {
  int64_t rows = 0, cols = 0;
  bool accumulate = false;  // backward: adds to the bias's gradient
  Activation function = Activation::gelu;
};

struct SoftmaxAttrs {
  int64_t rows = 0, cols = 0;
  bool causal = false;
};

struct EmbeddingAttrs {
  int64_t rows = 0, cols = 0;
  bool accumulate = false;  // backward: adds to the table's gradient
  bool first = false;       // backward: writes the gradient of the positions instead of adding to it
  int64_t word0 = 0;        // first word of the table
  TokenRuns tokens;         // of each sample, this rank's
};

struct DropoutAttrs {
  int64_t rows = 0, cols = 0;
  int64_t period = 0;  // rows of a micro-batch over all ranks
  int64_t row0 = 0;    // first of these rows among them
  float rate = 0;      // share of elements zeroed
  int64_t each = 1;    // neighbours per random number; cols counts those
  int64_t stream = 0;  // of random numbers, unique to a place in the net
  int64_t seed = 0;
  int64_t sample = 0;  // rows of a sample over all ranks
  TokenRuns tokens;    // of each sample, this rank's
};

struct ImageAttrs {
  int64_t rows = 0;  // of this rank
  int64_t batch = 0;
  int64_t row0 = 0;  // first of these rows within batch * tokens
  int64_t channels = 0, height = 0, width = 0, patch = 0;
  int64_t token0 = 0, tokens = 0;  // tokens of each sample that the rows stand for (0: all)
};

struct RollAttrs {  // a step of a roll-out; the channels are `history` times, oldest first
  ImageAttrs image;
  int64_t predicted = 0;  // of a time's channels
  int64_t history = 0;
};

struct LossWeights {                  // by channel; {}: none
  std::vector<float> channel;         // factors of the errors
  std::vector<float> above, intense;  // factor `intense` on errors where the target exceeds `above`
  bool latitude = false;          // rows of an image weigh by their area (base/latitude.h), as in the RMSE
  std::vector<double> latitudes;  // of the rows, degrees from the north; {}: from pole to pole
  std::string by_name;            // settings that give the above once the data's channels are known
};

struct LossAttrs {
  ImageAttrs image;
  LossKind kind = LossKind::relative_l2;
  float delta = 1;   // huber: |error| at which it changes from square to linear
  float weight = 0;  // of this micro-batch in the step's mean
  std::shared_ptr<const LossWeights> weights = {};  // the same for all of a plan; null: none
  const LossWeights& weighed() const {
    static const LossWeights kNone;
    return weights ? *weights : kNone;
  }
};

struct CrossEntropyAttrs {
  int64_t rows = 0, cols = 0;
  float weight = 0;     // of a row in the step's mean
  int64_t column0 = 0;  // class of the first column
  int64_t padding = 0;  // last columns that are no classes
  int64_t tokens = 1;   // rows of a sample
};

struct RouteAttrs {            // of tokens to experts
  int64_t rows = 0, cols = 0;  // tokens, experts
  int64_t top = 0;             // experts of a token
  bool normalised = false;     // its weights sum to 1 …
  float factor = 1;            // … times this
  bool sigmoid = false;        // scores are sigmoids, not a softmax over all experts
  int64_t groups = 1, top_groups = 1;
  int64_t tokens = 0;        // rows of a sample …
  int64_t sample = 0;        // … and its tokens on all ranks
  float balance = 0, z = 0;  // factors of the router's losses of a sample, of a token
  float weight = 0;          // of a sample in the step's means
  int64_t capacity = 0;      // copies of a sample that an expert takes, the first ones; 0: all
  int64_t ranks_before = 0;  // that hold earlier tokens of the samples
};

struct ExpertRowsAttrs {       // between tokens and their copies, sorted by expert
  int64_t rows = 0, cols = 0;  // of tokens
  int64_t top = 0;             // copies of a token
};

struct HeldExpertsAttrs {          // of a rank
  int64_t ranks = 0, experts = 0;  // that share them; of all ranks
  int64_t first = 0, held = 0;     // of them this rank's
};

struct ElementsAttrs {
  int64_t count = 0;
  bool accumulate = false;  // cast, squared_sum: adds
};

struct CopyAttrs {  // blocks of `run` elements
  int64_t run = 0;
  std::array<int64_t, 3> extent = {1, 1, 1}, from = {}, to = {};  // number of blocks, strides in x and in y
};

struct AverageAttrs {
  int64_t count = 0;
  float rate = 0;  // weight of the new value
};

struct LossScaleAttrs {
  float least = 1;
  int64_t window = 0;  // steps without overflow after which the scale doubles
};

struct AdamAttrs {
  int64_t count = 0;
  float beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  bool decoupled = false;  // AdamW: the decay is no part of the gradient
  float clip = 0;          // largest norm of all gradients; 0: none
};

struct SgdAttrs {
  int64_t count = 0;
  float momentum = 0, weight_decay = 0;
  float clip = 0;  // as Adam's
};

struct TransferAttrs {
  int32_t group = -1;                  // index into Plan::groups
  std::vector<int64_t> send, receive;  // elements to or from each rank of the group; {}: equal parts
  bool largest = false;                // all_reduce of f32: the maximum, not the sum
  // all_to_all of experts' rows, whose numbers are data: elements of a row; to the tokens' ranks, not from
  // them
  int64_t width = 0;
  bool back = false;
};

struct PricedAttrs {  // what it costs
  std::string op;     // its name in its program: "native_layer_norm"
  PriceClass price = PriceClass::copy;
  double flops = 0, vector_flops = 0, bytes_read = 0, bytes_written = 0;
};

using Attrs =
    std::variant<GemmAttrs, AttentionAttrs, AttentionMergeAttrs, NormAttrs, RowsAttrs, AddAttrs, RotaryAttrs,
                 LatentAttrs, SumAttrs, PeriodSumAttrs, IndexAttrs, ActivationAttrs, SoftmaxAttrs,
                 EmbeddingAttrs, DropoutAttrs, ImageAttrs, RollAttrs, LossAttrs, CrossEntropyAttrs,
                 ElementsAttrs, CopyAttrs, AverageAttrs, LossScaleAttrs, AdamAttrs, SgdAttrs, TransferAttrs,
                 GroupedGemmAttrs, RouteAttrs, ExpertRowsAttrs, HeldExpertsAttrs, PricedAttrs>;

namespace detail {
template <class A, class... All>
constexpr size_t alternative(const std::variant<All...>*) {
  size_t i = 0;
  const bool found = ((std::is_same_v<A, All> || (++i, false)) || ...);
  return found ? i : throw "not among the attributes";
}
}  // namespace detail
/// The struct's place in Attrs.
template <class A>
inline constexpr size_t kPlaceOf = detail::alternative<A>(static_cast<const Attrs*>(nullptr));

/// The layout of an image op's rows: its own, or that of a roll or a loss; null: it is of no image.
inline const ImageAttrs* image_of(const Attrs& a) {
  if (const auto* image = std::get_if<ImageAttrs>(&a)) return image;
  if (const auto* roll = std::get_if<RollAttrs>(&a)) return &roll->image;
  if (const auto* loss = std::get_if<LossAttrs>(&a)) return &loss->image;
  return nullptr;
}
/// The attention of an op, also of one that merges its steps; null: it is none.
inline const AttentionAttrs* attention_in(const Attrs& a) {
  if (const auto* attention = std::get_if<AttentionAttrs>(&a)) return attention;
  if (const auto* merge = std::get_if<AttentionMergeAttrs>(&a)) return &merge->of;
  return nullptr;
}

/// Rows of columns that a row kernel passes over; elements alone are one row. 0: the kind has none.
struct RowExtent {
  int64_t rows = 0, cols = 0;
};
inline RowExtent extent_of(const Attrs& attrs) {
  return std::visit(
      [](const auto& a) -> RowExtent {
        if constexpr (requires { a.cols; })
          return {a.rows, a.cols};
        else if constexpr (requires { a.count; })
          return {1, a.count};
        else if constexpr (requires { a.run; })
          return {1, a.run};
        else
          return {};
      },
      attrs);
}
/// True if f32 operands of products are rounded to TF32's 10 bits of mantissa.
inline bool rounds_to_tf32(const Attrs& attrs) {
  const auto* gemm = std::get_if<GemmAttrs>(&attrs);
  const auto* grouped = std::get_if<GroupedGemmAttrs>(&attrs);
  const AttentionAttrs* attention = attention_in(attrs);
  return (gemm && gemm->tf32) || (grouped && grouped->tf32) || (attention && attention->tf32);
}
/// True if the op adds to what it writes, or to a gradient that it sums.
inline bool accumulates(const Attrs& attrs) {
  return std::visit(
      [](const auto& a) {
        if constexpr (requires { a.accumulate; })
          return a.accumulate;
        else
          return false;
      },
      attrs);
}

/// f(size, the other's size) for each size that depends on the number of samples. Both have one kind's
/// attributes.
template <class F>
void each_size(Attrs& attrs, const Attrs& other, const F& f) {
  std::visit(
      [&](auto& a) {
        const auto& b = std::get<std::decay_t<decltype(a)>>(other);
        if constexpr (requires { a.cols; }) f(a.rows, b.rows), f(a.cols, b.cols);
        if constexpr (requires { a.count; }) f(a.count, b.count);
        if constexpr (requires { a.run; }) f(a.run, b.run);
        if constexpr (requires { a.image; }) f(a.image.batch, b.image.batch);
        if constexpr (requires { a.k; }) f(a.m, b.m), f(a.n, b.n), f(a.k, b.k);
        if constexpr (requires { a.of; }) f(a.of.batch, b.of.batch), f(a.of.tq, b.of.tq), f(a.of.tk, b.of.tk);
        if constexpr (requires { a.tq; }) f(a.tq, b.tq), f(a.tk, b.tk);
        if constexpr (requires { a.batch; }) f(a.batch, b.batch);
      },
      attrs);
}
/// Has the op add to what it writes, if its kind can.
inline void accumulate(Attrs& attrs) {
  std::visit(
      [](auto& a) {
        if constexpr (requires { a.accumulate; }) a.accumulate = true;
      },
      attrs);
}

}  // namespace isobar::plan
