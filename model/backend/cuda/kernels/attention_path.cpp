#include "model/backend/cuda/kernels/attention_path.h"

#include <algorithm>
#include <stdexcept>

namespace isobar::cuda {
namespace {

constexpr int64_t kForward = 1024;  // cuDNN needs at most 256

int64_t up_to(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// Head sizes whose backward cuDNN supports on Hopper only
bool wide_only_on_hopper(const Attention& a, int capability) {
  return capability != 9 && a.d > 128;
}

// Workspace of cuDNN 9.19's plans for A100, H100 and B200 (measured by tests/cuda/cudnn_plans.cpp): a number
// a row, dq in f32, off Hopper a second dq with rows padded to 8, and with grouped queries each head's own dk
// and dv. In a fixed order A100 and Hopper instead keep the 16-bit slopes of every pair of tokens, padded to
// their tiles.
int64_t cudnn_backward_bytes(const Attention& a, int capability) {
  constexpr int64_t kEnds = 512;
  const int64_t pairs = a.batch * a.heads;
  // two 16-bit numbers; in a fixed order on Blackwell 32-bit
  const int64_t shared = a.kv_heads < a.heads ? (a.deterministic ? 8 : 4) * pairs * a.tk * a.d : 0;
  const int64_t sums = 4 * pairs * a.tq + shared + kEnds;
  if (a.deterministic) return sums + (capability >= 10 ? 0 : 2 * pairs * up_to(a.tq, 64) * up_to(a.tk, 128));
  const int64_t dq = 4 * pairs * a.tq * a.d;
  return sums + dq + (capability == 9 ? 0 : 4 * pairs * up_to(a.tq, 8) * a.d);
}

}  // namespace

const char* name_of(AttentionPath path) {
  constexpr const char* kNames[] = {"cuDNN", "own kernels, tensor cores", "own kernels, scalar f32"};
  return kNames[static_cast<int>(path)];
}

bool cudnn_takes(const Attention& a, bool backward, int capability) {
  if ((a.act != DType::bf16 && a.act != DType::f16) || a.last_more != 0) return false;
  if (a.causal && a.shift() != a.tk - a.tq) return false;
  for (const int64_t n : {a.d, a.ld_q, a.ld_kv, a.ld_o})
    if (n % 8 != 0) return false;
  if (a.tq == 0 || a.tk == 0 || (backward && a.tq == 1 && a.tk == 1)) return false;
  return a.d <= kMaxHeadDim && !(backward && wide_only_on_hopper(a, capability));
}

AttentionPath attention_path(const Attention& a, bool backward, int capability, bool cudnn) {
  if (a.d > kMaxHeadDim)
    throw std::invalid_argument(text_of(a, backward) + ": the GPU's kernels take heads of " +
                                std::to_string(kMaxHeadDim) + " columns at most: raise net.num_heads");
  if (cudnn && cudnn_takes(a, backward, capability)) return AttentionPath::cudnn;
  return a.act == DType::f32 && !a.tf32 ? AttentionPath::scalar : AttentionPath::tensor_cores;
}

int64_t attention_workspace(const Attention& a, bool backward, int capability) {
  if (!backward) return kForward;
  const int64_t own = 4 * a.batch * a.heads * a.tq;
  return wide_only_on_hopper(a, capability) ? own : std::max(own, cudnn_backward_bytes(a, capability));
}

std::string text_of(const Attention& a, bool backward) {
  return std::string(backward ? "attention backward" : "attention") + " b" + std::to_string(a.batch) + " h" +
         std::to_string(a.heads) + "/" + std::to_string(a.kv_heads) + " q" + std::to_string(a.tq) + " k" +
         std::to_string(a.tk) + " d" + std::to_string(a.d) + (a.causal ? " causal " : " ") +
         (a.tf32 ? "tf32" : name_of(a.act)) + (a.deterministic ? " deterministic" : "") +
         (a.last_more != 0 ? ", the last key weighed" : "");
}

}  // namespace isobar::cuda
