#include "model/plan/op_table.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "model/plan/special_work.h"

namespace isobar {
namespace {

namespace is = special;
using K = OpKind;
using P = PriceClass;

constexpr OpInfo kRows[] = {
    // kind, name | reads | writes | price class, back ends, vector FLOPs per element, special work
    {K::fetch, "fetch", "", "input? target? more?...", P::copy, kEvery},
    {K::patch_gather, "patch_gather", "image", "patches", P::copy, kEvery},
    {K::gemm, "gemm", "A B bias?", "C", P::product, kEvery, 0, is::gemm},
    {K::attention, "attention", "q k v bias?", "o lse workspace?", P::attention, kEvery, 0, is::attention},
    {K::attention_backward, "attention_backward", "q k v o lse do bias?", "dq dk dv dbias? workspace?",
     P::attention_backward, kEvery, 0, is::attention_backward},
    {K::attention_merge, "attention_merge", "o lse", "o lse", P::norm, kEvery, 0, is::attention_merge},
    {K::residual_norm, "residual_norm", "residual y? gamma beta", "x? h mean rstd", P::norm, kEvery, 9},
    {K::residual_norm_backward, "residual_norm_backward", "x mean rstd gamma dh",
     "dx dy? dgamma? dbeta? dbias?", P::norm, kEvery, 14, is::added_unless_first},
    {K::residual_add, "residual_add", "residual y", "x", P::norm, kEvery, 1},
    {K::norm_residual, "norm_residual", "x residual? gamma beta", "h? y? mean rstd", P::norm, kEvery, 9},
    {K::norm_residual_backward, "norm_residual_backward", "x mean rstd gamma dh", "dx dgamma? dbeta? dbias?",
     P::norm, kEvery, 14},
    {K::gather, "gather", "base? table index table2? index2?", "y", P::copy, kEvery, 0, is::gather},
    {K::segment_sum, "segment_sum", "x offsets order?", "y", P::reduction, kEvery, 1},
    {K::activation, "activation", "u", "g", P::activation, kEvery, 8},
    {K::activation_backward, "activation_backward", "u dg", "du dbias?", P::activation, kEvery, 13},
    {K::column_sum, "column_sum", "x", "sum", P::reduction, kEvery, 1},
    {K::period_sum, "period_sum", "dx", "dpos", P::reduction, kEvery, 1},
    {K::roll, "roll", "prediction before? forcing?", "patches", P::copy, kEvery},
    {K::unroll, "unroll", "patches", "prediction carried?", P::copy, kEvery},
    {K::loss_sums, "loss_sums", "pred target mask?", "sums", P::loss, kEvery},
    {K::loss, "loss", "sums scalars?", "metrics", P::loss, kEvery},
    {K::loss_backward, "loss_backward", "pred target sums scalars? mask?", "dpred", P::loss, kEvery},
    {K::zero, "zero", "", "x", P::copy, kEvery},
    {K::cast, "cast", "x", "y", P::copy, kEvery, 0, is::added_if_accumulating},
    {K::copy, "copy", "x", "y", P::copy, kEvery, 0, is::copy},
    {K::squared_sum, "squared_sum", "x", "sum", P::optimizer, kEvery, 2},
    {K::loss_scale, "loss_scale", "norm2 scalars", "norm2 scalars", P::optimizer, kEvery},
    // `groups`: runs of parameters by their end, with factors on rate and decay (plan/parameter_groups.h)
    {K::adam, "adam", "grad scalars norm2? groups?", "param m v param16?", P::optimizer, kEvery, 12,
     is::adam},
    {K::sgd, "sgd", "grad scalars norm2? groups?", "param momentum param16?", P::optimizer, kEvery, 6,
     is::sgd},
    {K::average, "average", "param scalars", "average", P::optimizer, kEvery, 3, is::average},
    {K::swap, "swap", "x y", "x y", P::optimizer, kEvery},
    {K::rms_norm, "rms_norm", "residual y? gamma", "x? h rstd", P::norm, kNoBackend, 6},
    {K::rms_norm_backward, "rms_norm_backward", "x rstd gamma dh", "dx dy? dgamma?", P::norm, kNoBackend, 11,
     is::added_unless_first},
    {K::swiglu, "swiglu", "u", "g", P::activation, kNoBackend, 6},
    {K::swiglu_backward, "swiglu_backward", "u dg", "du", P::activation, kNoBackend, 12},
    {K::rotary, "rotary", "qk", "qk", P::copy, kNoBackend, 3, is::rotary},
    {K::rotary_backward, "rotary_backward", "dqk", "dqk", P::copy, kNoBackend, 3, is::rotary},
    {K::dropout, "dropout", "x scalars?", "x mask?", P::norm, kEvery, 2},
    {K::dropout_backward, "dropout_backward", "dx mask? scalars?", "dx", P::norm, kEvery, 2},
    {K::softmax, "softmax", "scores", "weights mask? dropped?", P::activation, kNoBackend, 6},
    {K::softmax_backward, "softmax_backward", "weights mask? dweights", "dscores", P::activation, kNoBackend,
     5},
    {K::embedding, "embedding", "tokens table positions?", "x", P::copy, kNoBackend, 1, is::embedding},
    {K::embedding_backward, "embedding_backward", "tokens dx", "dtable? dpositions?", P::copy, kNoBackend, 1,
     is::embedding_backward},
    {K::cross_entropy_max, "cross_entropy_max", "logits", "largest", P::loss, kEvery, 1},
    {K::cross_entropy_sums, "cross_entropy_sums", "logits labels largest", "sums", P::loss, kEvery, 3},
    {K::cross_entropy, "cross_entropy", "logits labels largest sums scalars?", "dlogits metrics", P::loss,
     kEvery, 4},
    // `after`: read only to delay the transfer
    {K::all_reduce, "all_reduce", "x after?", "x", P::transfer, kEvery, 0, is::all_reduce},
    {K::broadcast, "broadcast", "x after?", "x", P::transfer, kEvery, 0, is::broadcast},
    {K::all_gather, "all_gather", "part after?", "x", P::transfer, kEvery, 0, is::all_gather},
    {K::reduce_scatter, "reduce_scatter", "x after?", "part", P::transfer, kEvery, 0, is::reduce_scatter},
    {K::all_to_all, "all_to_all", "x", "y", P::transfer, kEvery, 0, is::all_to_all},
    {K::exchange, "exchange", "x", "y", P::transfer, kEvery, 0, is::sent},
    {K::send, "send", "x", "", P::transfer, kEvery, 0, is::sent},
    {K::recv, "recv", "", "x", P::transfer, kEvery, 0, is::received},
};

constexpr bool in_order() {
  for (int k = 0; k < kOpKinds; ++k)
    if (kRows[k].kind != static_cast<OpKind>(k)) return false;
  return true;
}
static_assert(std::size(kRows) == kOpKinds, "an op has no row");
static_assert(in_order(), "rows stand in the order of OpKind");

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
    for (const OpInfo& row : kRows)
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
  return kRows[static_cast<int>(k)];
}

std::optional<OpKind> op_named(std::string_view name) {
  for (const OpInfo& row : kRows)
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

}  // namespace isobar
