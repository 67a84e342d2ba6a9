// Matrix products for the emulator, computed by the CPU, called like cuBLASLt and refused as it would
// (library_contracts.h); and a cuDNN that takes no attention, so that our own kernels run it.
#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "model/backend/cpu/isa/kernels.h"
#include "model/backend/cuda/libraries/attention_cudnn.h"
#include "model/backend/cuda/libraries/gemm.h"
#include "model/backend/cuda/runtime/device.h"
#include "model/backend/cuda/runtime/requirements.h"
#include "tests/cuda/emulated/emulator.h"
#include "tests/cuda/emulated/library_contracts.h"

namespace isobar::cuda {

struct Gemms::Api {};
struct Gemms::Product {};
Gemms::Gemms(GemmChoice choice, int sms) : choice_(choice), sms_(sms) {}
Gemms::~Gemms() = default;
std::string Gemms::library_version() {
  return "emulated";
}

namespace {
void demand(const GemmKey& key, const GemmOperands& x, const void* workspace, int64_t bytes) {
  if (const std::string why = testing::refusal(key, x, workspace, bytes); !why.empty())
    throw Failure("cuBLASLt would refuse: " + why);
}
// The product may write its workspace: its ends are overwritten, and a line of each page between, since all
// of it takes longer than most products.
void spoil(std::byte* workspace, int64_t bytes) {
  constexpr int64_t kPage = 4096, kLine = 64, kEnds = 16 * kPage;
  static int64_t line = 0;
  line = (line + kLine) % kPage;
  const auto write = [&](int64_t at, int64_t n) {
    if (n > 0) std::memset(workspace + at, 0xff, static_cast<size_t>(n));
  };
  const int64_t ends = std::min(kEnds, bytes);
  write(0, ends);
  for (int64_t at = ends + line; at + kLine <= bytes; at += kPage) write(at, kLine);
  write(bytes - ends, ends);
}
}  // namespace

bool Gemms::prepare(const GemmKey& key, const GemmOperands& x, void* workspace, int64_t bytes, cudaStream_t) {
  demand(key, x, workspace, bytes);
  table_.try_emplace(key);
  return true;
}

float Gemms::milliseconds(const GemmKey& key) const {
  return key.fused == Fused::none ? 1 : 0;  // fuses whatever can be fused
}

void Gemms::run(const GemmKey& key, const GemmOperands& x, void* workspace, int64_t bytes,
                cudaStream_t stream) const {
  if (!table_.contains(key)) throw std::logic_error("not prepared: " + text_of(key));
  demand(key, x, workspace, bytes);
  emulator::enqueue(stream, [=] {
    spoil(static_cast<std::byte*>(workspace), bytes);
    std::vector<float> bias(key.bias ? static_cast<size_t>(key.n) : 0);
    if (key.bias) cpu::cast(key.n, key.out, DType::f32, x.bias, bias.data());
    void* const result = key.fused == Fused::gelu ? x.aux : x.c;
    cpu::gemm({key.m, key.n, key.k, key.trans_a, key.trans_b, key.in, key.in, key.out, key.bias,
               key.accumulate, key.tf32},
              x.a, x.b, bias.data(), result);
    if (key.fused == Fused::gelu)
      cpu::activation_forward(Activation::gelu_tanh, key.m * key.n, key.out, x.aux, x.c);
    if (key.fused == Fused::gelu_gradient)
      cpu::activation_backward(Activation::gelu_tanh, key.m, key.n, key.out, x.aux, x.c, x.c, nullptr, false);
    if (key.fused == Fused::bias_gradient) cpu::column_sum(key.k, key.m, key.in, x.a, x.sums, false);
  });
}

struct CudnnAttention::Impl {};
CudnnAttention::CudnnAttention() = default;
CudnnAttention::~CudnnAttention() = default;
bool CudnnAttention::built() {
  return true;
}
void CudnnAttention::prepare(const Attention& a, bool backward, int64_t workspace_bytes) {
  throw Failure(text_of(a, backward) + " wants more than " + std::to_string(workspace_bytes) + " bytes");
}
const CudnnPlan& CudnnAttention::plan(const Attention&, bool) const {
  throw std::logic_error("the emulator's cuDNN has no plans");
}
void CudnnAttention::forward(const Attention&, const void*, const void*, const void*, void*, float*, void*,
                             cudaStream_t) {}
void CudnnAttention::backward(const Attention&, const void*, const void*, const void*, const void*,
                              const float*, const void*, void*, void*, void*, void*, cudaStream_t) {}
std::string CudnnAttention::version() {
  return "";
}

void require_libraries(const std::string&, int) {}  // the emulator has its own
void prepare_environment(int) {}

}  // namespace isobar::cuda
