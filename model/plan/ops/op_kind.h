// The kinds of ops and all that is known of each: a new op is an enumerator, its row here, and its kernels.
//
//   const OpInfo& row = info_of(OpKind::activation);   // op_table.h
//   row.name, row.price
//
// Operands are found by the names of these rows: in<OpKind::residual_norm>(op, "gamma") (operands.h).
#pragma once
#include <array>
#include <cstdint>
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
  // Arithmetic for each of its rows x columns, from the kernel's formula; a transcendental function counts as
  // one.
  double vector_flops = 0;
  // Corrects the default count: every read read once, every write written once, vector_flops per element
  void (*special)(const Op&, const Plan&, Work&) = nullptr;
  Backends backends = kEvery;
};

inline constexpr auto kOpRows = [] {
  using enum PriceClass;
  using K = OpKind;
  return std::to_array<OpInfo>({
      // kind, name | reads | writes | attributes | price class, vector FLOPs per element, special work
      {K::fetch, "fetch", "", "input? target? more?...", kPlaceOf<ImageAttrs>, copy},
      {K::patch_gather, "patch_gather", "image", "patches", kPlaceOf<ImageAttrs>, copy},
      {K::gemm, "gemm", "A B bias?", "C", kPlaceOf<GemmAttrs>, product, 0, special::gemm},
      {K::attention, "attention", "q k v bias?", "o lse workspace?", kPlaceOf<AttentionAttrs>, attention, 0,
       special::attention},
      {K::attention_backward, "attention_backward", "q k v o lse do bias?", "dq dk dv dbias? workspace?",
       kPlaceOf<AttentionAttrs>, attention_backward, 0, special::attention_backward},
      {K::attention_merge, "attention_merge", "o lse", "o lse", kPlaceOf<AttentionMergeAttrs>, norm, 0,
       special::attention_merge},
      {K::residual_norm, "residual_norm", "residual y? gamma beta", "x? h mean rstd", kPlaceOf<NormAttrs>,
       norm, 9},
      {K::residual_norm_backward, "residual_norm_backward", "x mean rstd gamma dh",
       "dx dy? dgamma? dbeta? dbias?", kPlaceOf<NormAttrs>, norm, 14, special::added_unless_first},
      {K::residual_add, "residual_add", "residual y", "x", kPlaceOf<AddAttrs>, norm, 1},
      {K::norm_residual, "norm_residual", "x residual? gamma beta", "h? y? mean rstd", kPlaceOf<NormAttrs>,
       norm, 9},
      {K::norm_residual_backward, "norm_residual_backward", "x mean rstd gamma dh",
       "dx dgamma? dbeta? dbias?", kPlaceOf<NormAttrs>, norm, 14},
      {K::gather, "gather", "base? table index table2? index2?", "y", kPlaceOf<IndexAttrs>, copy, 0,
       special::gather},
      {K::segment_sum, "segment_sum", "x offsets order?", "y", kPlaceOf<IndexAttrs>, reduction, 1},
      {K::activation, "activation", "u", "g", kPlaceOf<ActivationAttrs>, activation, 8},
      {K::activation_backward, "activation_backward", "u dg", "du dbias?", kPlaceOf<ActivationAttrs>,
       activation, 13},
      {K::column_sum, "column_sum", "x", "sum", kPlaceOf<SumAttrs>, reduction, 1},
      {K::period_sum, "period_sum", "dx", "dpos", kPlaceOf<PeriodSumAttrs>, reduction, 1},
      {K::roll, "roll", "prediction before? forcing?", "patches", kPlaceOf<RollAttrs>, copy},
      {K::unroll, "unroll", "patches", "prediction carried?", kPlaceOf<RollAttrs>, copy},
      {K::loss_sums, "loss_sums", "pred target mask?", "sums", kPlaceOf<LossAttrs>, loss},
      {K::loss, "loss", "sums scalars?", "metrics", kPlaceOf<LossAttrs>, loss},
      {K::loss_backward, "loss_backward", "pred target sums scalars? mask?", "dpred", kPlaceOf<LossAttrs>,
       loss},
      {K::zero, "zero", "", "x", kPlaceOf<ElementsAttrs>, copy},
      {K::cast, "cast", "x", "y", kPlaceOf<ElementsAttrs>, copy, 0, special::cast},
      {K::copy, "copy", "x", "y", kPlaceOf<CopyAttrs>, copy, 0, special::copy},
      {K::squared_sum, "squared_sum", "x", "sum", kPlaceOf<ElementsAttrs>, optimizer, 2},
      {K::loss_scale, "loss_scale", "norm2 scalars", "norm2 scalars", kPlaceOf<LossScaleAttrs>, optimizer},
      // `groups`: runs of parameters by their end, with factors on rate and decay (plan/parameter_groups.h)
      {K::adam, "adam", "grad scalars norm2? groups?", "param m v param16?", kPlaceOf<AdamAttrs>, optimizer,
       12, special::adam},
      {K::sgd, "sgd", "grad scalars norm2? groups?", "param momentum param16?", kPlaceOf<SgdAttrs>, optimizer,
       6, special::sgd},
      {K::average, "average", "param scalars", "average", kPlaceOf<AverageAttrs>, optimizer, 3,
       special::average},
      {K::swap, "swap", "x y", "x y", kPlaceOf<ElementsAttrs>, optimizer},
      {K::rms_norm, "rms_norm", "residual y? gamma", "x? h rstd", kPlaceOf<NormAttrs>, norm, 6,
       special::rms_norm},
      {K::rms_norm_backward, "rms_norm_backward", "x rstd gamma dh", "dx dy? dgamma?", kPlaceOf<NormAttrs>,
       norm, 11, special::rms_norm_backward},
      // `scale`: factor of each row; `offsets`: ends with the number of rows, which `rows` then expects
      {K::swiglu, "swiglu", "u scale? offsets?", "g", kPlaceOf<RowsAttrs>, activation, 6},
      {K::swiglu_backward, "swiglu_backward", "u dg scale? offsets?", "du dscale?", kPlaceOf<RowsAttrs>,
       activation, 12},
      // `table`: cosines and sines of each position
      {K::rotary, "rotary", "qk table", "qk", kPlaceOf<RotaryAttrs>, copy, 3, special::rotary},
      {K::rotary_backward, "rotary_backward", "dqk table", "dqk", kPlaceOf<RotaryAttrs>, copy, 3,
       special::rotary},
      // `key`: a row's rotary key, shared by all heads
      {K::latent_heads, "latent_heads", "q kv key table", "qkv", kPlaceOf<LatentAttrs>, copy, 1,
       special::latent_heads},
      {K::latent_heads_backward, "latent_heads_backward", "dqkv table", "dq dkv dkey", kPlaceOf<LatentAttrs>,
       copy, 1, special::latent_heads_backward},
      {K::dropout, "dropout", "x scalars?", "x mask?", kPlaceOf<DropoutAttrs>, norm, 2},
      {K::dropout_backward, "dropout_backward", "dx mask? scalars?", "dx", kPlaceOf<DropoutAttrs>, norm, 2},
      {K::softmax, "softmax", "scores", "weights mask? dropped?", kPlaceOf<SoftmaxAttrs>, activation, 6,
       nullptr, kNoBackend},
      {K::softmax_backward, "softmax_backward", "weights mask? dweights", "dscores", kPlaceOf<SoftmaxAttrs>,
       activation, 5, nullptr, kNoBackend},
      {K::embedding, "embedding", "tokens table positions?", "x", kPlaceOf<EmbeddingAttrs>, copy, 1,
       special::embedding},
      {K::embedding_backward, "embedding_backward", "tokens dx", "dtable? dpositions?",
       kPlaceOf<EmbeddingAttrs>, copy, 1, special::embedding_backward},
      {K::grouped_gemm, "grouped_gemm", "A B offsets", "C", kPlaceOf<GroupedGemmAttrs>, product, 0,
       special::grouped_gemm},
      // By sorted copy: `order`: its token; `weights`. By token and choice: `chosen`: its expert; `place`:
      // its
      // copy. `sums`: of a sample the copies of each expert, then its sum of probabilities. `bias`: added to
      // sigmoids for the choice. Copies that no expert takes come last, behind the end of `offsets`;
      // `counts`:
      // sums of all ranks that hold tokens of the samples
      {K::route, "route", "logits bias? counts?", "order place chosen offsets weights lse sums",
       kPlaceOf<RouteAttrs>, activation, 6},
      {K::route_backward, "route_backward", "logits lse chosen place weights dweights sums scalars? offsets?",
       "dlogits", kPlaceOf<RouteAttrs>, activation, 8},
      // `load`: copies of each expert, added up
      {K::router_metrics, "router_metrics", "sums scalars?", "metrics load?", kPlaceOf<RouteAttrs>, loss},
      {K::shift_bias, "shift_bias", "bias load", "bias", kPlaceOf<RouteAttrs>, loss},
      // `all`: route's offsets of all ranks that share the experts
      {K::expert_offsets, "expert_offsets", "all", "offsets", kPlaceOf<HeldExpertsAttrs>, copy},
      {K::dispatch, "dispatch", "x order", "y", kPlaceOf<ExpertRowsAttrs>, copy, 0, special::dispatch},
      {K::combine, "combine", "x place offsets?", "y", kPlaceOf<ExpertRowsAttrs>, reduction, 0,
       special::combine},
      {K::cross_entropy_max, "cross_entropy_max", "logits", "largest", kPlaceOf<CrossEntropyAttrs>, loss, 1},
      {K::cross_entropy_sums, "cross_entropy_sums", "logits labels largest", "sums",
       kPlaceOf<CrossEntropyAttrs>, loss, 3},
      {K::cross_entropy, "cross_entropy", "logits labels largest sums scalars?", "dlogits metrics",
       kPlaceOf<CrossEntropyAttrs>, loss, 4},
      {K::priced, "priced", "x...", "y...", kPlaceOf<PricedAttrs>, copy, 0, special::priced, kNoBackend},
      // `after`: read only to delay the transfer
      {K::all_reduce, "all_reduce", "x after?", "x", kPlaceOf<TransferAttrs>, transfer, 0,
       special::all_reduce},
      {K::broadcast, "broadcast", "x after?", "x", kPlaceOf<TransferAttrs>, transfer, 0, special::broadcast},
      {K::all_gather, "all_gather", "part after?", "x", kPlaceOf<TransferAttrs>, transfer, 0,
       special::all_gather},
      {K::reduce_scatter, "reduce_scatter", "x after?", "part", kPlaceOf<TransferAttrs>, transfer, 0,
       special::reduce_scatter},
      // `offsets`: as expert_offsets' `all`
      {K::all_to_all, "all_to_all", "x offsets?", "y", kPlaceOf<TransferAttrs>, transfer, 0,
       special::all_to_all},
      {K::exchange, "exchange", "x", "y", kPlaceOf<TransferAttrs>, transfer, 0, special::sent},
      {K::send, "send", "x", "", kPlaceOf<TransferAttrs>, transfer, 0, special::sent},
      {K::recv, "recv", "", "x", kPlaceOf<TransferAttrs>, transfer, 0, special::received},
  });
}();

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
