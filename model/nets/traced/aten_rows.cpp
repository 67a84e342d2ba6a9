// The rows of ATen's ops.
#include <algorithm>
#include <map>
#include <string_view>

#include "model/nets/traced/aten.h"

namespace isobar::nets {
namespace {

using P = plan::PriceClass;

struct NamedRow {
  std::string_view op;
  AtenRow row;
};

constexpr AtenRow kMoves{P::copy, 0}, kWrites{P::copy, 0, false, true}, kPicks{P::copy, 0, true},
    kScatters{P::copy, 1}, kSums{P::reduction, 1}, kPools{P::reduction, 4}, kDraws{P::norm, 2},
    kSoftmax{P::activation, 6}, kSoftmaxBackward{P::activation, 5}, kNorms{P::norm, 9},
    kNormsBackward{P::norm, 14}, kLosses{P::loss, 3}, kSorts{P::reduction, 20}, kFourier{P::activation, 25};

// In-place forms have a `_` behind the name.
constexpr NamedRow kAtenRows[] = {
    // norms
    {"native_layer_norm", kNorms},
    {"native_layer_norm_backward", kNormsBackward},
    {"native_group_norm", kNorms},
    {"native_group_norm_backward", kNormsBackward},
    {"native_batch_norm", kNorms},
    {"native_batch_norm_backward", kNormsBackward},
    {"_native_batch_norm_legit", kNorms},
    {"_native_batch_norm_legit_functional", kNorms},
    {"_native_batch_norm_legit_no_training", kNorms},
    {"_batch_norm_with_update", kNorms},
    {"batch_norm_backward", kNormsBackward},
    {"_fused_rms_norm", {P::norm, 6}},
    {"_fused_rms_norm_backward", {P::norm, 11}},
    // softmax and losses
    {"_softmax", kSoftmax},
    {"_safe_softmax", kSoftmax},
    {"_log_softmax", kSoftmax},
    {"_softmax_backward_data", kSoftmaxBackward},
    {"_log_softmax_backward_data", kSoftmaxBackward},
    {"nll_loss_forward", {P::loss, 1, true}},
    {"nll_loss_backward", {P::loss, 1}},
    {"nll_loss2d_forward", {P::loss, 1}},
    {"nll_loss2d_backward", {P::loss, 1}},
    {"mse_loss", kLosses},
    {"mse_loss_backward", kLosses},
    {"smooth_l1_loss", kLosses},
    {"smooth_l1_loss_backward", kLosses},
    {"huber_loss", kLosses},
    {"huber_loss_backward", kLosses},
    {"binary_cross_entropy", kLosses},
    {"binary_cross_entropy_backward", kLosses},
    {"binary_cross_entropy_with_logits", kLosses},
    // reductions
    {"sum", kSums},
    {"mean", kSums},
    {"amax", kSums},
    {"amin", kSums},
    {"max", kSums},
    {"min", kSums},
    {"argmax", kSums},
    {"argmin", kSums},
    {"any", kSums},
    {"all", kSums},
    {"prod", kSums},
    {"cumsum", kSums},
    {"cumprod", kSums},
    {"logsumexp", {P::reduction, 3}},
    {"var", {P::reduction, 3}},
    {"var_mean", {P::reduction, 3}},
    {"std", {P::reduction, 3}},
    {"std_mean", {P::reduction, 3}},
    {"linalg_vector_norm", {P::reduction, 2}},
    {"_cdist_forward", {P::reduction, 3}},
    {"_cdist_backward", {P::reduction, 5}},
    {"_pdist_forward", {P::reduction, 3}},
    {"_pdist_backward", {P::reduction, 5}},
    {"norm", {P::reduction, 2}},
    {"count_nonzero", kSums},
    {"bincount", kSums},
    {"histc", kSums},
    {"equal", kSums},
    // copies
    {"_to_copy", kMoves},
    {"clone", kMoves},
    {"copy", kWrites},
    {"copy_", kWrites},
    {"cat", kMoves},
    {"stack", kMoves},
    {"slice_backward", kMoves},
    {"select_backward", kMoves},
    {"diagonal_backward", kMoves},
    {"slice_scatter", kMoves},
    {"select_scatter", kMoves},
    {"as_strided_scatter", kMoves},
    {"unfold_backward", kScatters},
    {"im2col", kMoves},
    {"col2im", kScatters},
    {"constant_pad_nd", kMoves},
    {"reflection_pad1d", kMoves},
    {"reflection_pad2d", kMoves},
    {"reflection_pad2d_backward", kScatters},
    {"replication_pad2d", kMoves},
    {"replication_pad2d_backward", kScatters},
    {"reflection_pad3d", kMoves},
    {"reflection_pad3d_backward", kScatters},
    {"replication_pad3d", kMoves},
    {"replication_pad3d_backward", kScatters},
    {"roll", kMoves},
    {"flip", kMoves},
    {"repeat", kMoves},
    {"repeat_interleave", kMoves},
    {"tril", kMoves},
    {"triu", kMoves},
    {"pixel_shuffle", kMoves},
    {"pixel_unshuffle", kMoves},
    {"split_with_sizes_copy", kMoves},
    {"view_as_real_copy", kMoves},
    {"zeros", kWrites},
    {"zeros_like", kWrites},
    {"new_zeros", kWrites},
    {"ones", kWrites},
    {"ones_like", kWrites},
    {"new_ones", kWrites},
    {"full", kWrites},
    {"full_like", kWrites},
    {"new_full", kWrites},
    {"fill", kWrites},
    {"zero", kWrites},
    {"arange", kWrites},
    {"linspace", kWrites},
    {"logspace", kWrites},
    {"eye", kWrites},
    {"scalar_tensor", kWrites},
    {"tril_indices", kWrites},
    {"triu_indices", kWrites},
    {"lift_fresh_copy", kMoves},
    {"_efficientzerotensor", kWrites},
    // by indices
    {"embedding", {P::copy, 0, true}},
    {"_embedding_bag", {P::copy, 1, true}},
    {"_embedding_bag_forward_only", {P::copy, 1, true}},
    {"_embedding_bag_dense_backward", kScatters},
    {"index", kPicks},
    {"_unsafe_index", kPicks},
    {"index_select", kPicks},
    {"gather", kPicks},
    {"embedding_dense_backward", kScatters},
    {"index_put", kScatters},
    {"_unsafe_index_put", kScatters},
    {"index_add", kScatters},
    {"index_copy", kScatters},
    {"scatter", kScatters},
    {"scatter_add", kScatters},
    {"scatter_reduce", kScatters},
    {"masked_scatter", kScatters},
    {"one_hot", kWrites},
    {"masked_fill", kMoves},
    {"floor_divide", {P::activation, 1}},
    // random numbers
    {"native_dropout", kDraws},
    {"native_dropout_backward", {P::norm, 1}},
    {"bernoulli", kDraws},
    {"rand", kDraws},
    {"randn", kDraws},
    {"rand_like", kDraws},
    {"randn_like", kDraws},
    {"randint", kDraws},
    {"randperm", kDraws},
    {"normal", kDraws},
    {"uniform", kDraws},
    // pools and grids
    {"max_pool2d_with_indices", kPools},
    {"max_pool2d_with_indices_backward", kPools},
    {"max_pool3d_with_indices", kPools},
    {"max_pool3d_with_indices_backward", kPools},
    {"avg_pool2d", kPools},
    {"avg_pool2d_backward", kPools},
    {"avg_pool3d", kPools},
    {"avg_pool3d_backward", kPools},
    {"_adaptive_avg_pool2d", kPools},
    {"_adaptive_avg_pool2d_backward", kPools},
    {"_adaptive_avg_pool3d", kPools},
    {"_adaptive_avg_pool3d_backward", kPools},
    {"upsample_nearest1d", kPools},
    {"upsample_nearest2d", kPools},
    {"upsample_nearest2d_backward", kPools},
    {"upsample_bilinear2d", kPools},
    {"upsample_bilinear2d_backward", kPools},
    {"upsample_bicubic2d", kPools},
    {"upsample_bicubic2d_backward", kPools},
    {"grid_sampler_2d", kPools},
    {"grid_sampler_2d_backward", kPools},
    // complex numbers
    {"polar", {P::activation, 4}},
    {"complex", kMoves},
    // order and spectra
    {"sort", kSorts},
    {"topk", kSorts},
    {"argsort", kSorts},
    {"_unique2", kSorts},
    {"_fft_r2c", kFourier},
    {"_fft_c2r", kFourier},
    {"_fft_c2c", kFourier},
};

// Arithmetic of an element, a transcendental function as one (op_kind.h); others: 1
constexpr std::pair<std::string_view, double> kPointwiseFlops[] = {
    {"gelu", 8},          {"gelu_backward", 13},
    {"silu", 5},          {"silu_backward", 9},
    {"sigmoid", 4},       {"sigmoid_backward", 3},
    {"tanh_backward", 3}, {"softplus", 4},
    {"hardswish", 4},     {"mish", 6},
    {"elu", 3},           {"addcmul", 3},
    {"addcdiv", 3},       {"leaky_relu", 2},
    {"lerp", 3},          {"where", 1}};

const AtenRow* row_of(std::string_view op) {
  static const std::map<std::string_view, const AtenRow*> kRows = [] {
    std::map<std::string_view, const AtenRow*> rows;
    for (const NamedRow& r : kAtenRows) rows[r.op] = &r.row;
    return rows;
  }();
  auto found = kRows.find(op);
  if (found == kRows.end() && op.ends_with('_')) found = kRows.find(op.substr(0, op.size() - 1));
  return found == kRows.end() ? nullptr : found->second;
}

bool one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

}  // namespace

AtenClass aten_class(const TracedOp& op) {
  if (one_of(op.op, {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "_grouped_mm"}))
    return AtenClass::product;
  if (one_of(op.op, {"convolution", "convolution_backward"})) return AtenClass::convolution;
  if (op.op.starts_with("_scaled_dot_product_")) return AtenClass::attention;
  if (one_of(op.op, {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach",
                     "alias", "lift_fresh", "_unsafe_view", "set_", "as_strided_"}))
    return AtenClass::nothing;
  return op.pointwise || row_of(op.op) ? AtenClass::row : AtenClass::unknown;
}

AtenRow aten_row(const TracedOp& op) {
  if (const AtenRow* row = row_of(op.op)) return *row;
  std::string_view name = op.op;
  if (name.ends_with('_')) name.remove_suffix(1);
  AtenRow row;
  for (const auto& [of, flops] : kPointwiseFlops)
    if (of == name) row.vector_flops = flops;
  return row;
}

bool aten_fuses(const TracedOp& op) {
  if (aten_class(op) != AtenClass::row) return false;
  if (op.pointwise || one_of(op.op, {"_to_copy", "clone"})) return true;
  const plan::PriceClass price = aten_row(op).price;
  return price == P::norm || price == P::activation || price == P::loss ||
         one_of(op.op, {"sum", "mean", "amax", "var_mean"});
}

}  // namespace isobar::nets
