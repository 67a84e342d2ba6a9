// The kinds of ops and all that is known of each: a new op is an enumerator, its row here, and its kernels.
//
//   const OpInfo& row = info_of(OpKind::activation);   // op_table.h
//   row.name, row.price
//
// Operands are found by the names of these rows: in<OpKind::residual_norm>(op, "gamma") (operands.h).
#pragma once
#include <cstdint>
#include <iterator>
#include <string_view>

#include "model/plan/ops/attrs.h"
#include "model/plan/ops/special_work.h"

namespace isobar::plan {

enum class OpKind : uint8_t {
  fetch,  // reads the batch
  patch_gather,
  gemm,
  attention,
  attention_backward,
  attention_merge,  // ring: merges o and lse (f32)
  residual_norm,    // LayerNorm of x + residual, where x is the result before
  residual_norm_backward,
  residual_add,
  norm_residual,  // LayerNorm of a result, which is then added to a stream
  norm_residual_backward,
  gather,       // rows of tables by constant indices, summed
  segment_sum,  // of adjacent rows, or of rows in a constant order
  activation,
  activation_backward,
  column_sum,
  period_sum,  // of positions that repeat
  roll,        // roll-out: a step's prediction, as patches that the next step reads
  unroll,      // the newest channels of patches, in the prediction's layout
  loss_sums,
  loss,
  loss_backward,
  zero,
  cast,  // accumulate: adds
  copy,  // strided, same type
  squared_sum,
  loss_scale,
  adam,
  sgd,
  average,  // moving average of a parameter
  swap,     // exchanges two buffers
  rms_norm,
  rms_norm_backward,
  swiglu,  // u holds gate and up
  swiglu_backward,
  rotary,  // queries and keys, in place
  rotary_backward,
  latent_heads,  // queries, keys and values of latent attention, with rotary positions
  latent_heads_backward,
  dropout,  // in place; only training steps drop
  dropout_backward,
  softmax,
  softmax_backward,
  embedding,
  embedding_backward,
  grouped_gemm,  // products of adjacent groups of rows, whose ends are data
  route,         // each token's experts by its logits, and their rows in the order of experts
  route_backward,
  router_metrics,      // how uneven the experts' shares are
  shift_bias,          // of experts, towards even shares
  expert_offsets,      // of this rank's experts, among the copies that it receives
  dispatch,            // copies of tokens, in the order of experts
  combine,             // each token's sum of its copies
  cross_entropy_max,   // largest logit of each row
  cross_entropy_sums,  // of each row
  cross_entropy,       // the gradient, which may overwrite the logits, and the scores
  priced,              // an op of another program, which is priced and not run
  all_reduce,          // in place, sum or maximum
  broadcast,           // from the group's first rank
  all_gather,          // parts in group order
  reduce_scatter,      // parts in group order, sum
  all_to_all,          // parts in group order; or copies, to the ranks of their experts and back
  exchange,            // to the group's next rank, from its previous one
  send,                // group: sender, receiver
  recv,                // group: sender, receiver
};
constexpr int kOpKinds = static_cast<int>(OpKind::recv) + 1;

/// Back ends that have a kernel or a library call for it.
enum Backends : uint8_t { kNoBackend = 0, kCpu = 1, kCuda = 2, kEvery = kCpu | kCuda };

struct OpInfo {
  OpKind kind;
  std::string_view name;  // spelling in code, dumps, traces and benchmarks
  // Operands in order, separated by blanks; `?`: may be absent; `...`: any number.
  std::string_view reads, writes;
  size_t attrs;  // place of its attributes' struct in Attrs
  PriceClass price;
  Backends backends;
  // Arithmetic for each of its rows x columns, from the kernel's formula; a transcendental function counts as
  // one.
  double vector_flops = 0;
  // Corrects the default count: every read read once, every write written once, vector_flops per element
  void (*special)(const Op&, const Plan&, Work&) = nullptr;
};

inline constexpr OpInfo kOpRows[] = {
    // kind, name | reads | writes | attributes | price class, back ends, vector FLOPs per element, special
    // work
    {OpKind::fetch, "fetch", "", "input? target? more?...", kPlaceOf<ImageAttrs>, PriceClass::copy, kEvery},
    {OpKind::patch_gather, "patch_gather", "image", "patches", kPlaceOf<ImageAttrs>, PriceClass::copy,
     kEvery},
    {OpKind::gemm, "gemm", "A B bias?", "C", kPlaceOf<GemmAttrs>, PriceClass::product, kEvery, 0,
     special::gemm},
    {OpKind::attention, "attention", "q k v bias?", "o lse workspace?", kPlaceOf<AttentionAttrs>,
     PriceClass::attention, kEvery, 0, special::attention},
    {OpKind::attention_backward, "attention_backward", "q k v o lse do bias?", "dq dk dv dbias? workspace?",
     kPlaceOf<AttentionAttrs>, PriceClass::attention_backward, kEvery, 0, special::attention_backward},
    {OpKind::attention_merge, "attention_merge", "o lse", "o lse", kPlaceOf<AttentionMergeAttrs>,
     PriceClass::norm, kEvery, 0, special::attention_merge},
    {OpKind::residual_norm, "residual_norm", "residual y? gamma beta", "x? h mean rstd", kPlaceOf<NormAttrs>,
     PriceClass::norm, kEvery, 9},
    {OpKind::residual_norm_backward, "residual_norm_backward", "x mean rstd gamma dh",
     "dx dy? dgamma? dbeta? dbias?", kPlaceOf<NormAttrs>, PriceClass::norm, kEvery, 14,
     special::added_unless_first},
    {OpKind::residual_add, "residual_add", "residual y", "x", kPlaceOf<AddAttrs>, PriceClass::norm, kEvery,
     1},
    {OpKind::norm_residual, "norm_residual", "x residual? gamma beta", "h? y? mean rstd", kPlaceOf<NormAttrs>,
     PriceClass::norm, kEvery, 9},
    {OpKind::norm_residual_backward, "norm_residual_backward", "x mean rstd gamma dh",
     "dx dgamma? dbeta? dbias?", kPlaceOf<NormAttrs>, PriceClass::norm, kEvery, 14},
    {OpKind::gather, "gather", "base? table index table2? index2?", "y", kPlaceOf<IndexAttrs>,
     PriceClass::copy, kEvery, 0, special::gather},
    {OpKind::segment_sum, "segment_sum", "x offsets order?", "y", kPlaceOf<IndexAttrs>, PriceClass::reduction,
     kEvery, 1},
    {OpKind::activation, "activation", "u", "g", kPlaceOf<ActivationAttrs>, PriceClass::activation, kEvery,
     8},
    {OpKind::activation_backward, "activation_backward", "u dg", "du dbias?", kPlaceOf<ActivationAttrs>,
     PriceClass::activation, kEvery, 13},
    {OpKind::column_sum, "column_sum", "x", "sum", kPlaceOf<SumAttrs>, PriceClass::reduction, kEvery, 1},
    {OpKind::period_sum, "period_sum", "dx", "dpos", kPlaceOf<PeriodSumAttrs>, PriceClass::reduction, kEvery,
     1},
    {OpKind::roll, "roll", "prediction before? forcing?", "patches", kPlaceOf<RollAttrs>, PriceClass::copy,
     kEvery},
    {OpKind::unroll, "unroll", "patches", "prediction carried?", kPlaceOf<RollAttrs>, PriceClass::copy,
     kEvery},
    {OpKind::loss_sums, "loss_sums", "pred target mask?", "sums", kPlaceOf<LossAttrs>, PriceClass::loss,
     kEvery},
    {OpKind::loss, "loss", "sums scalars?", "metrics", kPlaceOf<LossAttrs>, PriceClass::loss, kEvery},
    {OpKind::loss_backward, "loss_backward", "pred target sums scalars? mask?", "dpred", kPlaceOf<LossAttrs>,
     PriceClass::loss, kEvery},
    {OpKind::zero, "zero", "", "x", kPlaceOf<ElementsAttrs>, PriceClass::copy, kEvery},
    {OpKind::cast, "cast", "x", "y", kPlaceOf<ElementsAttrs>, PriceClass::copy, kEvery, 0, special::cast},
    {OpKind::copy, "copy", "x", "y", kPlaceOf<CopyAttrs>, PriceClass::copy, kEvery, 0, special::copy},
    {OpKind::squared_sum, "squared_sum", "x", "sum", kPlaceOf<ElementsAttrs>, PriceClass::optimizer, kEvery,
     2},
    {OpKind::loss_scale, "loss_scale", "norm2 scalars", "norm2 scalars", kPlaceOf<LossScaleAttrs>,
     PriceClass::optimizer, kEvery},
    // `groups`: runs of parameters by their end, with factors on rate and decay (plan/parameter_groups.h)
    {OpKind::adam, "adam", "grad scalars norm2? groups?", "param m v param16?", kPlaceOf<AdamAttrs>,
     PriceClass::optimizer, kEvery, 12, special::adam},
    {OpKind::sgd, "sgd", "grad scalars norm2? groups?", "param momentum param16?", kPlaceOf<SgdAttrs>,
     PriceClass::optimizer, kEvery, 6, special::sgd},
    {OpKind::average, "average", "param scalars", "average", kPlaceOf<AverageAttrs>, PriceClass::optimizer,
     kEvery, 3, special::average},
    {OpKind::swap, "swap", "x y", "x y", kPlaceOf<ElementsAttrs>, PriceClass::optimizer, kEvery},
    {OpKind::rms_norm, "rms_norm", "residual y? gamma", "x? h rstd", kPlaceOf<NormAttrs>, PriceClass::norm,
     kEvery, 6, special::rms_norm},
    {OpKind::rms_norm_backward, "rms_norm_backward", "x rstd gamma dh", "dx dy? dgamma?", kPlaceOf<NormAttrs>,
     PriceClass::norm, kEvery, 11, special::rms_norm_backward},
    // `scale`: factor of each row; `offsets`: ends with the number of rows, which `rows` then expects
    {OpKind::swiglu, "swiglu", "u scale? offsets?", "g", kPlaceOf<RowsAttrs>, PriceClass::activation, kEvery,
     6},
    {OpKind::swiglu_backward, "swiglu_backward", "u dg scale? offsets?", "du dscale?", kPlaceOf<RowsAttrs>,
     PriceClass::activation, kEvery, 12},
    // `table`: cosines and sines of each position
    {OpKind::rotary, "rotary", "qk table", "qk", kPlaceOf<RotaryAttrs>, PriceClass::copy, kEvery, 3,
     special::rotary},
    {OpKind::rotary_backward, "rotary_backward", "dqk table", "dqk", kPlaceOf<RotaryAttrs>, PriceClass::copy,
     kEvery, 3, special::rotary},
    // `key`: a row's rotary key, shared by all heads
    {OpKind::latent_heads, "latent_heads", "q kv key table", "qkv", kPlaceOf<LatentAttrs>, PriceClass::copy,
     kEvery, 1, special::latent_heads},
    {OpKind::latent_heads_backward, "latent_heads_backward", "dqkv table", "dq dkv dkey",
     kPlaceOf<LatentAttrs>, PriceClass::copy, kEvery, 1, special::latent_heads_backward},
    {OpKind::dropout, "dropout", "x scalars?", "x mask?", kPlaceOf<DropoutAttrs>, PriceClass::norm, kEvery,
     2},
    {OpKind::dropout_backward, "dropout_backward", "dx mask? scalars?", "dx", kPlaceOf<DropoutAttrs>,
     PriceClass::norm, kEvery, 2},
    {OpKind::softmax, "softmax", "scores", "weights mask? dropped?", kPlaceOf<SoftmaxAttrs>,
     PriceClass::activation, kNoBackend, 6},
    {OpKind::softmax_backward, "softmax_backward", "weights mask? dweights", "dscores",
     kPlaceOf<SoftmaxAttrs>, PriceClass::activation, kNoBackend, 5},
    {OpKind::embedding, "embedding", "tokens table positions?", "x", kPlaceOf<EmbeddingAttrs>,
     PriceClass::copy, kEvery, 1, special::embedding},
    {OpKind::embedding_backward, "embedding_backward", "tokens dx", "dtable? dpositions?",
     kPlaceOf<EmbeddingAttrs>, PriceClass::copy, kEvery, 1, special::embedding_backward},
    {OpKind::grouped_gemm, "grouped_gemm", "A B offsets", "C", kPlaceOf<GroupedGemmAttrs>,
     PriceClass::product, kEvery, 0, special::grouped_gemm},
    // By sorted copy: `order`: its token; `weights`. By token and choice: `chosen`: its expert; `place`: its
    // copy. `sums`: of a sample the copies of each expert, then its sum of probabilities. `bias`: added to
    // sigmoids for the choice. Copies that no expert takes come last, behind the end of `offsets`; `counts`:
    // sums of all ranks that hold tokens of the samples
    {OpKind::route, "route", "logits bias? counts?", "order place chosen offsets weights lse sums",
     kPlaceOf<RouteAttrs>, PriceClass::activation, kEvery, 6},
    {OpKind::route_backward, "route_backward",
     "logits lse chosen place weights dweights sums scalars? offsets?", "dlogits", kPlaceOf<RouteAttrs>,
     PriceClass::activation, kEvery, 8},
    // `load`: copies of each expert, added up
    {OpKind::router_metrics, "router_metrics", "sums scalars?", "metrics load?", kPlaceOf<RouteAttrs>,
     PriceClass::loss, kEvery},
    {OpKind::shift_bias, "shift_bias", "bias load", "bias", kPlaceOf<RouteAttrs>, PriceClass::loss, kEvery},
    // `all`: route's offsets of all ranks that share the experts
    {OpKind::expert_offsets, "expert_offsets", "all", "offsets", kPlaceOf<HeldExpertsAttrs>, PriceClass::copy,
     kEvery},
    {OpKind::dispatch, "dispatch", "x order", "y", kPlaceOf<ExpertRowsAttrs>, PriceClass::copy, kEvery, 0,
     special::dispatch},
    {OpKind::combine, "combine", "x place offsets?", "y", kPlaceOf<ExpertRowsAttrs>, PriceClass::reduction,
     kEvery, 0, special::combine},
    {OpKind::cross_entropy_max, "cross_entropy_max", "logits", "largest", kPlaceOf<CrossEntropyAttrs>,
     PriceClass::loss, kEvery, 1},
    {OpKind::cross_entropy_sums, "cross_entropy_sums", "logits labels largest", "sums",
     kPlaceOf<CrossEntropyAttrs>, PriceClass::loss, kEvery, 3},
    {OpKind::cross_entropy, "cross_entropy", "logits labels largest sums scalars?", "dlogits metrics",
     kPlaceOf<CrossEntropyAttrs>, PriceClass::loss, kEvery, 4},
    {OpKind::priced, "priced", "x...", "y...", kPlaceOf<PricedAttrs>, PriceClass::copy, kNoBackend, 0,
     special::priced},
    // `after`: read only to delay the transfer
    {OpKind::all_reduce, "all_reduce", "x after?", "x", kPlaceOf<TransferAttrs>, PriceClass::transfer, kEvery,
     0, special::all_reduce},
    {OpKind::broadcast, "broadcast", "x after?", "x", kPlaceOf<TransferAttrs>, PriceClass::transfer, kEvery,
     0, special::broadcast},
    {OpKind::all_gather, "all_gather", "part after?", "x", kPlaceOf<TransferAttrs>, PriceClass::transfer,
     kEvery, 0, special::all_gather},
    {OpKind::reduce_scatter, "reduce_scatter", "x after?", "part", kPlaceOf<TransferAttrs>,
     PriceClass::transfer, kEvery, 0, special::reduce_scatter},
    // `offsets`: as expert_offsets' `all`
    {OpKind::all_to_all, "all_to_all", "x offsets?", "y", kPlaceOf<TransferAttrs>, PriceClass::transfer,
     kEvery, 0, special::all_to_all},
    {OpKind::exchange, "exchange", "x", "y", kPlaceOf<TransferAttrs>, PriceClass::transfer, kEvery, 0,
     special::sent},
    {OpKind::send, "send", "x", "", kPlaceOf<TransferAttrs>, PriceClass::transfer, kEvery, 0, special::sent},
    {OpKind::recv, "recv", "", "x", kPlaceOf<TransferAttrs>, PriceClass::transfer, kEvery, 0,
     special::received},
};

constexpr bool op_rows_in_order() {
  for (int k = 0; k < kOpKinds; ++k)
    if (kOpRows[k].kind != static_cast<OpKind>(k)) return false;
  return true;
}
static_assert(std::size(kOpRows) == kOpKinds, "an op has no row");
static_assert(op_rows_in_order(), "rows stand in the order of OpKind");

template <OpKind K>
using AttrsOf = std::variant_alternative_t<kOpRows[static_cast<int>(K)].attrs, Attrs>;

}  // namespace isobar::plan
