// Every kernel of kernel_table.h for one vector struct V and one bf16 dot product. An isa_*.cpp includes this
// inside its target region and an unnamed namespace, after its simd_*.h.
// The order matters: each header uses the ones before.
// clang-format off
#include "model/backend/cpu/isa/simd_math.h"
#include "model/backend/cpu/matmul_tile.h"
#include "model/backend/cpu/transpose.h"
#include "model/backend/cpu/attention/attention_pack.h"
#include "model/backend/cpu/rows/linear_rows.h"
#include "model/backend/cpu/attention/attention_forward.h"
#include "model/backend/cpu/attention/attention_backward.h"
#include "model/backend/cpu/rows/rows.h"
#include "model/backend/cpu/rows/norm_rows.h"
#include "model/backend/cpu/rows/rms_norm_rows.h"
#include "model/backend/cpu/rows/swiglu_rows.h"
#include "model/backend/cpu/rows/rotary_rows.h"
#include "model/backend/cpu/rows/cross_entropy_rows.h"
#include "model/backend/cpu/rows/graph_rows.h"
// clang-format on

template <class V, Activation kF>
constexpr void set_activation(KernelTable& table) {
  auto* const forward = table.activation_forward[of(kF)];
  auto* const backward = table.activation_backward[of(kF)];
  forward[0] = activation_forward_part<V, DType::f32, kF>,
  backward[0] = activation_backward_rows<V, DType::f32, kF>;
  forward[1] = activation_forward_part<V, DType::bf16, kF>,
  backward[1] = activation_backward_rows<V, DType::bf16, kF>;
  forward[2] = activation_forward_part<V, DType::f16, kF>,
  backward[2] = activation_backward_rows<V, DType::f16, kF>;
}

template <class V, class DotBf16>
constexpr KernelTable make_table() {
  constexpr DType f32 = DType::f32, bf16 = DType::bf16, f16 = DType::f16;
  using F32 = DotF32<V>;
  using F16 = DotF16Widened<V>;
  using AsTf32 = DotTf32Emulated<V>;
  KernelTable table{
      .attention_forward = {attention_forward_part<V, F32>, attention_forward_part<V, DotBf16>,
                            attention_forward_part<V, F16>, attention_forward_part<V, AsTf32>},
      .attention_backward = {attention_backward_part<V, F32>, attention_backward_part<V, DotBf16>,
                             attention_backward_part<V, F16>, attention_backward_part<V, AsTf32>},
      .attention_dq_shared = {attention_dq_shared<V, F32>, attention_dq_shared<V, DotBf16>,
                              attention_dq_shared<V, F16>, attention_dq_shared<V, AsTf32>},
      .tile_product = nullptr,
      .pack_linear = pack_linear,
      .linear_rows = linear_rows<V>,
      .activation_forward = {},
      .activation_backward = {},
      .column_sum = {column_sum_rows<V, f32>, column_sum_rows<V, bf16>, column_sum_rows<V, f16>},
      .cast = {{cast_part<V, f32, f32>, cast_part<V, f32, bf16>, cast_part<V, f32, f16>},
               {cast_part<V, bf16, f32>, cast_part<V, bf16, bf16>, cast_part<V, bf16, f16>},
               {cast_part<V, f16, f32>, cast_part<V, f16, bf16>, cast_part<V, f16, f16>}},
      .round_tf32 = round_tf32_part<V>,
      .add = add_part<V>,
      .transpose = transpose<V>,
      .normalise = normalise_part<V>,
      .squared_sum = squared_sum_part<V>,
      .squares = squares_part<V>,
      .adam = {adam_part<V, bf16>, adam_part<V, f16>},
      .sgd = {sgd_part<V, bf16>, sgd_part<V, f16>},
      .norm_forward = {{norm_forward_rows<V, f32, f32>, norm_forward_rows<V, f32, f32>},
                       {norm_forward_rows<V, bf16, f32>, norm_forward_rows<V, bf16, bf16>},
                       {norm_forward_rows<V, f16, f32>, norm_forward_rows<V, f16, f16>}},
      .norm_backward = {{norm_backward_rows<V, f32, f32>, norm_backward_rows<V, f32, f32>},
                        {norm_backward_rows<V, bf16, f32>, norm_backward_rows<V, bf16, bf16>},
                        {norm_backward_rows<V, f16, f32>, norm_backward_rows<V, f16, f16>}},
      .norm_residual = {norm_residual_rows<V, f32>, norm_residual_rows<V, bf16>, norm_residual_rows<V, f16>},
      .rms_norm = {{rms_norm_rows<V, f32, f32>, rms_norm_rows<V, f32, f32>},
                   {rms_norm_rows<V, bf16, f32>, rms_norm_rows<V, bf16, bf16>},
                   {rms_norm_rows<V, f16, f32>, rms_norm_rows<V, f16, f16>}},
      .rms_norm_backward = {{rms_norm_backward_rows<V, f32, f32>, rms_norm_backward_rows<V, f32, f32>},
                            {rms_norm_backward_rows<V, bf16, f32>, rms_norm_backward_rows<V, bf16, bf16>},
                            {rms_norm_backward_rows<V, f16, f32>, rms_norm_backward_rows<V, f16, f16>}},
      .swiglu = {swiglu_rows<V, f32>, swiglu_rows<V, bf16>, swiglu_rows<V, f16>},
      .swiglu_backward = {swiglu_backward_rows<V, f32>, swiglu_backward_rows<V, bf16>,
                          swiglu_backward_rows<V, f16>},
      .rotary = {{rotary_rows<V, f32, false>, rotary_rows<V, f32, true>},
                 {rotary_rows<V, bf16, false>, rotary_rows<V, bf16, true>},
                 {rotary_rows<V, f16, false>, rotary_rows<V, f16, true>}},
      .largest = {largest_of_row<V, f32>, largest_of_row<V, bf16>, largest_of_row<V, f16>},
      .exponentials = {exponentials_of_row<V, f32>, exponentials_of_row<V, bf16>,
                       exponentials_of_row<V, f16>},
      .softmax = {softmax_of_row<V, f32>, softmax_of_row<V, bf16>, softmax_of_row<V, f16>},
      .gather = {{gather_rows<V, f32, f32>, gather_rows<V, f32, f32>},
                 {gather_rows<V, bf16, bf16>, gather_rows<V, bf16, f32>},
                 {gather_rows<V, f16, f16>, gather_rows<V, f16, f32>}},
      .segment_sum = {segment_sum_rows<V, f32>, segment_sum_rows<V, bf16>, segment_sum_rows<V, f16>}};
  const auto activations = [&]<int... i>(std::integer_sequence<int, i...>) {
    (set_activation<V, static_cast<Activation>(i)>(table), ...);
  };
  activations(std::make_integer_sequence<int, kActivations>());
  return table;
}
