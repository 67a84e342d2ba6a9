#include "model/backend/cuda/kernels/attention/attention_path.h"

#include <algorithm>
#include <stdexcept>

#include "model/backend/cuda/kernels/attention/attention_choice.h"
#include "model/backend/cuda/kernels/attention/attention_few.h"
#include "model/backend/cuda/kernels/hopper/attention.h"

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

// Workspace of cuDNN's plans for a shape that it was never asked about (attention_choice.h): a number a row,
// dq in f32, off Hopper a second dq with rows padded to 8, and with grouped queries each head's own dk and
// dv. In a fixed order A100 and Hopper instead keep the 16-bit slopes of every pair of tokens, padded to
// their tiles. cuDNN 9.12 to 9.28 keep to it, versions up to 9.14 but for 8 bytes a sample more.
int64_t cudnn_backward_bytes(const Attention& a, int capability) {
  constexpr int64_t kEnds = 512;
  const int64_t pairs = a.batch * a.heads;
  // two 16-bit numbers; in a fixed order on Blackwell 32-bit
  const int64_t shared = a.kv_heads < a.heads ? (a.deterministic ? 8 : 4) * pairs * a.tk * a.d : 0;
  const int64_t sums = 4 * pairs * a.tq + shared + 8 * a.batch + kEnds;
  if (a.deterministic) return sums + (capability >= 10 ? 0 : 2 * pairs * up_to(a.tq, 64) * up_to(a.tk, 128));
  const int64_t dq = 4 * pairs * a.tq * a.d;
  return sums + dq + (capability == 9 ? 0 : 4 * pairs * up_to(a.tq, 8) * a.d);
}

// True if our kernels for Hopper run it. Path and workspace follow from it alone.
bool on_hopper(const Attention& a, bool backward, int capability, AttentionChoice choice) {
  if (capability != 9 || choice == AttentionChoice::cudnn) return false;
  if (!(backward ? hopper_takes_backward(a) : hopper_takes_forward(a))) return false;
  return choice == AttentionChoice::own || hopper_is_faster(a, backward);
}

}  // namespace

const char* name_of(AttentionPath path) {
  constexpr const char* kNames[] = {"cuDNN", "own kernels, tensor cores", "own kernels, scalar f32",
                                    "own kernels, few tokens", "own kernels, Hopper"};
  return kNames[static_cast<int>(path)];
}

bool few_tokens(const Attention& a) {
  return !a.biased && a.tq <= kFewTokens && a.tk <= kFewTokens && a.tq * a.tk <= kFewPairs &&
         a.d <= kFewColumns;
}

bool cudnn_takes(const Attention& a, bool backward, int capability) {
  if ((a.act != DType::bf16 && a.act != DType::f16) || a.last_more != 0 || a.biased) return false;
  if (a.causal && a.shift() != a.tk - a.tq) return false;
  if (a.window > 0 && a.tq > a.tk) return false;
  for (const int64_t n : {a.d, a.ld_q, a.ld_kv, a.ld_o})
    if (n % 8 != 0) return false;
  if (a.tq == 0 || a.tk == 0 || (backward && a.tq == 1 && a.tk == 1)) return false;
  return a.d <= kMaxHeadDim && !(backward && wide_only_on_hopper(a, capability));
}

AttentionPath attention_path(const Attention& a, bool backward, int capability, bool cudnn,
                             AttentionChoice choice) {
  if (a.d > kMaxHeadDim)
    throw std::invalid_argument(text_of(a, backward) + ": the GPU's kernels take heads of " +
                                std::to_string(kMaxHeadDim) + " columns at most: raise net.num_heads");
  if (few_tokens(a)) return AttentionPath::few_tokens;
  if (on_hopper(a, backward, capability, choice)) return AttentionPath::hopper;
  if (cudnn && cudnn_takes(a, backward, capability)) return AttentionPath::cudnn;
  return a.act == DType::f32 && !a.tf32 ? AttentionPath::scalar : AttentionPath::tensor_cores;
}

int64_t workspace_by_form(const Attention& a, int capability) {
  const int64_t bytes = cudnn_backward_bytes(a, capability);
  return bytes + bytes / 64 + 64 * a.batch;  // a margin for versions and shapes that differ from it
}

int64_t attention_workspace(const Attention& a, bool backward, int capability, AttentionChoice choice) {
  if (few_tokens(a)) return 0;
  if (!backward) return a.biased ? 0 : kForward;
  const int64_t own = on_hopper(a, backward, capability, choice) ? hopper_backward_workspace(a)
                                                                 : 4 * a.batch * a.heads * a.tq;
  if (a.biased || wide_only_on_hopper(a, capability)) return own;
  if (const auto known = a.window == 0 ? known_workspace(a, capability) : std::nullopt)
    return std::max(own, *known);
  return std::max(own, workspace_by_form(a, capability));
}

std::string text_of(const Attention& a, bool backward) {
  return std::string(backward ? "attention backward" : "attention") + " b" + std::to_string(a.batch) + " h" +
         std::to_string(a.heads) + "/" + std::to_string(a.kv_heads) + " q" + std::to_string(a.tq) + " k" +
         std::to_string(a.tk) + " d" + std::to_string(a.d) + (a.causal ? " causal " : " ") +
         (a.window > 0 ? "of " + std::to_string(a.window) + " " : "") + (a.tf32 ? "tf32" : name_of(a.act)) +
         (a.deterministic ? " deterministic" : "") + (a.last_more != 0 ? ", the last key weighed" : "") +
         (a.biased ? ", biased" : "");
}

}  // namespace isobar::cuda
