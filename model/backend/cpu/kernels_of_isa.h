// Every kernel of kernel_table.h for one vector struct V and one bf16 dot product. An isa_*.cpp includes this
// inside its target region and an unnamed namespace, after its simd_*.h.
// The order matters: each uses the ones before.
// clang-format off
#include "model/backend/cpu/simd_math.h"
#include "model/backend/cpu/matmul_tile.h"
#include "model/backend/cpu/attention_pack.h"
#include "model/backend/cpu/attention_forward.h"
#include "model/backend/cpu/attention_backward.h"
#include "model/backend/cpu/rows.h"
#include "model/backend/cpu/norm_rows.h"
// clang-format on

template <class V, class DotBf16>
constexpr KernelTable make_table() {
  return {.attention_forward = {attention_forward_part<V, DotF32<V>>, attention_forward_part<V, DotBf16>},
          .attention_backward = {attention_backward_part<V, DotF32<V>>, attention_backward_part<V, DotBf16>},
          .attention_dq_shared = {attention_dq_shared<V, DotF32<V>>, attention_dq_shared<V, DotBf16>},
          .gelu_forward = {gelu_forward_part<V, false>, gelu_forward_part<V, true>},
          .gelu_backward = {gelu_backward_rows<V, false>, gelu_backward_rows<V, true>},
          .column_sum = {column_sum_rows<V, false>, column_sum_rows<V, true>},
          .cast = {{cast_part<V, false, false>, cast_part<V, false, true>},
                   {cast_part<V, true, false>, cast_part<V, true, true>}},
          .add = add_part<V>,
          .residual_add = {residual_add_part<V, false>, residual_add_part<V, true>},
          .squared_sum = squared_sum_part<V>,
          .adam = adam_part<V>,
          .norm_forward = {norm_forward_rows<V, false>, norm_forward_rows<V, true>},
          .norm_backward = {norm_backward_rows<V, false>, norm_backward_rows<V, true>}};
}
