// CudaBackend's matrix products: choices before the first step, and their launch.
#include <algorithm>
#include <stdexcept>

#include "model/backend/cuda/cuda_backend.h"
#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/workspace.h"

namespace isobar::cuda {
namespace {

// The end of a product's workspace holds its 16-bit bias, or sums that are yet to be accumulated.
constexpr int64_t kRoom = int64_t{256} << 10;  // bytes
constexpr int64_t kForProduct = kGemmWorkspace - kRoom;

constexpr plan::OpKind kProduct = plan::OpKind::gemm, kActivationGradient = plan::OpKind::activation_backward;

const plan::View& sums_of(const plan::Op& x) {
  return x.kind == kActivationGradient ? plan::out<kActivationGradient>(x, "dbias")
                                       : plan::out<plan::OpKind::column_sum>(x, "sum");
}

}  // namespace

// ---- before the first step ----

void CudaBackend::prepare() {
  Slots slots(plan_.routines.size());
  for (const auto* program : {&plan_.init, &plan_.train, &plan_.eval, &plan_.exchange})
    for (const plan::Invocation& i : *program) slots[static_cast<size_t>(i.routine)].insert(i.slot);
  const bool timed = options_.gemm == GemmChoice::timed;
  const cudaStream_t stream = streams_[plan::Lane::compute];
  if (timed) fill_noise(plan_.memory.arena, arena_, stream);  // zeros would run faster than real data
  prepare_products(slots);
  choose_fusions(slots);
  prepare_attention();
  if (timed) ISOBAR_CUDA(cudaMemsetAsync(arena_, 0, static_cast<size_t>(plan_.memory.arena), stream));
  ISOBAR_CUDA(cudaStreamSynchronize(stream));
}

void CudaBackend::prepare_products(const Slots& slots) {
  for (size_t r = 0; r < plan_.routines.size(); ++r) {
    const plan::Routine& routine = plan_.routines[r];
    for (int32_t o = routine.first; o < routine.first + routine.count; ++o) {
      const plan::Op& op = plan_.ops[static_cast<size_t>(o)];
      if (op.kind != plan::OpKind::gemm) continue;
      for (const int32_t slot : slots[r]) {
        const GemmOperands x = operands_of(op, slot, nullptr);
        const GemmKey key = key_of(op, plan_, x);
        if (!gemms_.prepare(key, x, workspace(op, slot), kForProduct, streams_[plan::Lane::compute]))
          throw Failure("cuBLASLt has no algorithm for " + text_of(key) + " (" + op.path + ")");
      }
    }
  }
}

void CudaBackend::choose_fusions(const Slots& slots) {
  if (!options_.fuse) return;
  for (const Fusion& f : fusible(plan_)) {
    const plan::Op &product = plan_.ops[static_cast<size_t>(f.product)],
                   &other = plan_.ops[static_cast<size_t>(f.other)];
    if (fusion_of(product) || taken_in(other, f.kind)) continue;
    if (f.kind == Fused::bias_gradient) {
      if (other.kind == kActivationGradient && !taken_in(other, Fused::gelu_gradient)) continue;
      if (product.as<plan::GemmAttrs>().m * size_of(DType::f32) > kRoom) continue;
    }
    const auto routine = std::find_if(
        plan_.routines.begin(), plan_.routines.end(),
        [&](const plan::Routine& r) { return f.product >= r.first && f.product < r.first + r.count; });
    if (!pays(f, slots[static_cast<size_t>(routine - plan_.routines.begin())])) continue;
    fusion_at_[static_cast<size_t>(f.product)] = static_cast<int32_t>(fusions_.size());
    taken_in_[static_cast<size_t>(f.other)] |= static_cast<uint8_t>(1 << static_cast<int>(f.kind));
    fusions_.push_back(f);
  }
  if (!fusions_.empty()) as_run_ = fused(plan_, fusions_);
}

// True if cuBLASLt has an algorithm for it in every slot and, when timing, if that beats the two separate
// ops.
bool CudaBackend::pays(const Fusion& f, const std::set<int32_t>& slots) {
  const plan::Op &product = plan_.ops[static_cast<size_t>(f.product)],
                 &other = plan_.ops[static_cast<size_t>(f.other)];
  const cudaStream_t stream = streams_[plan::Lane::compute];
  for (const int32_t slot : slots) {
    const GemmOperands x = operands_of(product, slot, &f);
    GemmKey key = key_of(product, plan_, x);
    key.fused = f.kind;
    const auto [verdict, fresh] = verdicts_.try_emplace(key, true);
    if (fresh) {
      bool& good = verdict->second;
      good = gemms_.prepare(key, x, workspace(product, slot), kForProduct, stream);
      if (good && options_.gemm == GemmChoice::timed) {
        const auto time = [&](const auto& launch) { return milliseconds_of(stream, launch); };
        const GemmKey alone = key_of(product, plan_, operands_of(product, slot, nullptr));
        const float apart = gemms_.milliseconds(alone) + time([&] { launch_on(other, 0, slot, stream); });
        float together = gemms_.milliseconds(key);
        if (f.kind == Fused::gelu_gradient && plan::out<kActivationGradient>(other, "dbias"))
          together += time([&] { sum_gradient(other, slot, stream); });
        good = together < apart;
      }
    }
    if (!verdict->second) return false;
  }
  return true;
}

// ---- ops ----

const Fusion* CudaBackend::fusion_of(const plan::Op& product) const {
  const size_t i = index_of(product);
  return i < fusion_at_.size() && fusion_at_[i] >= 0 ? &fusions_[static_cast<size_t>(fusion_at_[i])]
                                                     : nullptr;
}

bool CudaBackend::taken_in(const plan::Op& op, Fused kind) const {
  const size_t i = index_of(op);
  return i < taken_in_.size() && (taken_in_[i] >> static_cast<int>(kind) & 1) != 0;
}

// The column sums of an activation's gradient, which a product has written
void CudaBackend::sum_gradient(const plan::Op& op, int32_t slot, cudaStream_t stream) {
  const plan::View& du = plan::out<kActivationGradient>(op, "du");
  const auto& a = op.as<plan::ActivationAttrs>();
  column_sum(a.rows, a.cols, plan_.buffers[static_cast<size_t>(du.buffer)].dtype, at(du, slot),
             reinterpret_cast<float*>(at(plan::out<kActivationGradient>(op, "dbias"), slot)), a.accumulate,
             reinterpret_cast<float*>(workspace(op, slot)), stream);
}

bool CudaBackend::done_by_product(const plan::Op& op, int32_t slot, cudaStream_t stream) {
  switch (op.kind) {
    case plan::OpKind::activation:
      return taken_in(op, Fused::gelu);
    case plan::OpKind::column_sum:
      return taken_in(op, Fused::bias_gradient);
    case kActivationGradient:
      if (!taken_in(op, Fused::gelu_gradient)) return false;
      if (!taken_in(op, Fused::bias_gradient) && plan::out<kActivationGradient>(op, "dbias"))
        sum_gradient(op, slot, stream);
      return true;
    default:
      return false;
  }
}

// The bias must have C's 16-bit type: the copy beside the parameters, or one in the workspace.
GemmOperands CudaBackend::operands_of(const plan::Op& op, int32_t slot, const Fusion* f) const {
  const plan::View& c = plan::out<kProduct>(op, "C");
  GemmOperands x{at(plan::in<kProduct>(op, "A"), slot), at(plan::in<kProduct>(op, "B"), slot), nullptr,
                 at(c, slot)};
  const auto room = [&] { return workspace(op, slot) + kForProduct; };
  if (const plan::View& bias = plan::in<kProduct>(op, "bias")) {
    if (plan_.buffers[c.buffer].dtype == DType::f32)
      x.bias = at(bias, slot);
    else if (biases_copied_ && bias.buffer == plan_.params_all.buffer)
      x.bias = at({plan_.params16_all.buffer, bias.offset, bias.count}, slot);
    else
      x.bias = room();
  }
  if (!f) return x;
  const plan::Op& other = plan_.ops[static_cast<size_t>(f->other)];
  switch (f->kind) {
    case Fused::none:
      break;
    case Fused::gelu:
      x.aux = x.c;
      x.c = at(plan::out<plan::OpKind::activation>(other, "g"), slot);
      break;
    case Fused::gelu_gradient:
      x.aux = at(plan::in<kActivationGradient>(other, "u"), slot);
      break;
    case Fused::bias_gradient:
      x.sums = reinterpret_cast<float*>(plan::accumulates(other.attrs) ? room() : at(sums_of(other), slot));
      break;
  }
  return x;
}

void CudaBackend::gemm(const plan::Op& op, int32_t slot, cudaStream_t stream) {
  const Fusion* const f = fusion_of(op);
  const GemmOperands x = operands_of(op, slot, f);
  std::byte* const scratch = workspace(op, slot);
  if (x.bias == scratch + kForProduct) {
    const plan::View& bias = plan::in<kProduct>(op, "bias");
    if (bias.count * 2 > kRoom) throw std::logic_error(op.path + ": a bias of more than 131072 elements");
    cast(bias.count, DType::f32, plan_.buffers[plan::out<kProduct>(op, "C").buffer].dtype, at(bias, slot),
         scratch + kForProduct, false, stream);
  }
  GemmKey key = key_of(op, plan_, x);
  if (f) key.fused = f->kind;
  gemms_.run(key, x, scratch, kForProduct, stream);
  if (!f || f->kind != Fused::bias_gradient) return;
  const plan::Op& other = plan_.ops[static_cast<size_t>(f->other)];
  if (plan::accumulates(other.attrs))
    add_partials(1, 1, op.as<plan::GemmAttrs>().m, x.sums,
                 {{reinterpret_cast<float*>(at(sums_of(other), slot))}}, true, stream);
}

}  // namespace isobar::cuda
