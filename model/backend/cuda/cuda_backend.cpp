#include "model/backend/cuda/cuda_backend.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>

#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/base/latitude.h"
#include "model/base/loss_sums.h"

namespace isobar::cuda {
namespace {

constexpr int64_t kSmall = int64_t{1} << 20;  // bytes: host copies up to this size are pinned, and kept

// True without ZeRO: every parameter has its 16-bit copy at the same offset.
bool mirrored(const Plan& plan) {
  if (!plan.params16_all || plan.params16_all.count != plan.params_all.count) return false;
  int64_t end = 0;
  for (const Param& p : plan.params) {
    if (p.half) return false;
    end = std::max(end, p.offset + p.count);
  }
  return plan.params_all.count >= end;
}

Loss loss_from(const TrainSpec& t) {
  Loss l{};
  l.kind = t.loss == "mae"     ? Loss::Kind::mae
           : t.loss == "mse"   ? Loss::Kind::mse
           : t.loss == "huber" ? Loss::Kind::huber
                               : Loss::Kind::relative_l2;
  l.delta = static_cast<float>(t.huber_delta);
  std::fill_n(l.weight, kMaxChannels, 1.0f);
  for (size_t c = 0; c < std::min<size_t>(t.loss_weights.size(), kMaxChannels); ++c)
    l.weight[c] = static_cast<float>(t.loss_weights[c]);
  std::fill_n(l.above, kMaxChannels, std::numeric_limits<float>::infinity());
  std::fill_n(l.intense, kMaxChannels, 1.0f);
  for (size_t c = 0; c < std::min<size_t>(t.intense_above.size(), kMaxChannels); ++c) {
    l.above[c] = static_cast<float>(t.intense_above[c]);
    l.intense[c] = static_cast<float>(t.intense_weights[c]);
  }
  return l;
}

Patch patch_of(const Attrs& a, DType act) {
  const int64_t tokens = tokens_of(a);
  const int64_t rows = a.m > 0 ? a.m : a.batch * tokens - a.row0;
  return {a.batch, a.channels, a.height, a.width, a.patch, act, a.token0, tokens, a.row0, rows};
}

}  // namespace

CudaBackend::CudaBackend(const Plan& plan, std::byte* arena, const TrainSpec& train, std::byte* host,
                         const Streams& streams, const BackendOptions& options)
    : Backend(plan, arena, host),
      train_(train),
      streams_(streams),
      options_(options),
      loss_(loss_from(train)),
      biases_copied_(mirrored(plan)),
      gemms_(options.gemm, options.product_sms),
      inputs_(plan),
      fusion_at_(plan.ops.size(), -1),
      taken_in_(plan.ops.size()) {
  for (const Op& op : plan.ops) {
    if (op.kind != OpKind::loss_sums || rows_.contains(op.a.height)) continue;
    const std::vector<double> weights = row_weights(op.a.height, train.latitudes);
    const std::vector<float> rows(weights.begin(), weights.end());
    auto& held = rows_[op.a.height] =
        std::make_unique<DeviceArena>(static_cast<int64_t>(sizeof(float) * rows.size()));
    ISOBAR_CUDA(cudaMemcpy(held->data(), rows.data(), sizeof(float) * rows.size(), cudaMemcpyHostToDevice));
  }
  // The copies may be pending, and the lanes' streams do not wait for the null stream.
  ISOBAR_CUDA(cudaStreamSynchronize(nullptr));
}

CudaBackend::~CudaBackend() = default;

// ---- operands ----

std::byte* CudaBackend::workspace(const Op& op, int32_t slot) const {
  if (!op.workspace || !op.writes.back())
    throw std::logic_error(op.path + ": the plan was made without the GPU's workspaces");
  return at(op.writes.back(), slot);
}

Attention CudaBackend::attention_of(const Op& op) const {
  Attention a = cuda::attention_of(op.a, plan_.buffers[op.reads[0].buffer].dtype, options_.deterministic);
  const size_t bias = op.kind == OpKind::attention ? 3 : 6;
  a.biased = op.kind != OpKind::attention_merge && op.reads.size() > bias && op.reads[bias];
  return a;
}

AttentionPath CudaBackend::path_of(const Attention& a, bool backward) const {
  return attention_path(a, backward, options_.capability, options_.cudnn && CudnnAttention::built());
}

// ---- before the first step ----

void CudaBackend::prepare_attention() {
  std::set<std::string> seen;
  for (const Op& op : plan_.ops) {
    const bool backward = op.kind == OpKind::attention_backward;
    if (op.kind != OpKind::attention && !backward) continue;
    const Attention a = attention_of(op);
    const int64_t bytes = op.writes.back().count * size_of(DType::f32);
    AttentionUse use{a, backward, path_of(a, backward), "", bytes};
    if (use.path == AttentionPath::cudnn) {
      if (!cudnn_) cudnn_.emplace();
      cudnn_->prepare(a, backward, bytes);
      use.engine = cudnn_->plan(a, backward).engine;
      use.workspace = cudnn_->plan(a, backward).workspace;
    }
    if (seen.insert(text_of(a, backward)).second) attentions_.push_back(use);
  }
}

// ---- ops ----

Loss CudaBackend::loss_of(const Attrs& image, bool masked, const float* mask) const {
  Loss l = loss_;
  l.rows = reinterpret_cast<const float*>(rows_.at(image.height)->data());
  l.by_rows = train_.latitude_weights;
  l.masked = masked;
  l.mask = mask;
  return l;
}

size_t CudaBackend::index_of(const Op& op) const {
  const std::less<const Op*> before;
  const Op *first = plan_.ops.data(), *end = first + plan_.ops.size();
  return before(&op, first) || !before(&op, end) ? plan_.ops.size() : static_cast<size_t>(&op - first);
}

void CudaBackend::launch(const Op& op, int32_t micro, int32_t slot) {
  const cudaStream_t stream = streams_[op.lane];
  if (op.kind != OpKind::fetch) return launch_on(op, micro, slot, stream);
  inputs_.reserve(1);
  fill(op, micro, 0);
  inputs_.copy(op, 0, places(op, slot), stream);
  inputs_.in_use(0, stream);
}

void CudaBackend::launch_on(const Op& op, int32_t micro, int32_t slot, cudaStream_t stream) {
  const Attrs& a = op.a;
  const auto in = [&](size_t i) -> void* {
    return i < op.reads.size() && op.reads[i] ? at(op.reads[i], slot) : nullptr;
  };
  const auto out = [&](size_t i) -> void* { return op.writes[i] ? at(op.writes[i], slot) : nullptr; };
  const auto fin = [&](size_t i) { return static_cast<float*>(in(i)); };
  const auto ints = [&](size_t i) { return static_cast<const int32_t*>(in(i)); };
  const auto fout = [&](size_t i) { return static_cast<float*>(out(i)); };
  const auto type = [&](const View& v) { return plan_.buffers[v.buffer].dtype; };
  const auto scratch = [&] { return reinterpret_cast<float*>(workspace(op, slot)); };
  const auto doubles = [&] { return reinterpret_cast<double*>(workspace(op, slot)); };
  const auto classes = [&] {
    const bool labelled = op.reads.size() > 1;
    return Classes{a.m, a.n, type(op.reads[0]), labelled ? type(op.reads[1]) : DType::f32, a.column0};
  };
  switch (op.kind) {
    case OpKind::patch_gather:
      return patch_gather(patch_of(a, type(op.writes[0])), fin(0), out(0), stream);
    case OpKind::roll:
      return roll(patch_of(a, type(op.writes[0])), {a.n, a.history, type(op.reads[0])}, in(0), in(1), fin(2),
                  out(0), stream);
    case OpKind::unroll:
      return unroll(patch_of(a, type(op.reads[0])), {a.n, a.history, type(op.writes[0])}, in(0), out(0),
                    out(1), stream);
    case OpKind::gemm:
      return gemm(op, slot, stream);
    case OpKind::attention:
      return attention(op, slot, stream);
    case OpKind::attention_backward:
      return attention_backward(op, slot, stream);
    case OpKind::attention_merge:
      return attention_merge(attention_of(op), a.first, in(0), fin(1), fout(0), fout(1), stream);
    case OpKind::residual_norm:
      return residual_norm({a.m, a.n, a.eps, a.period, a.row0, type(op.writes[1])}, fin(0), in(1), fin(2),
                           fin(3), fout(0), out(1), fout(2), fout(3), stream);
    case OpKind::residual_norm_backward:
      return residual_norm_backward({a.m, a.n, a.eps, 0, 0, type(op.reads[4])}, fin(0), fin(1), fin(2),
                                    fin(3), in(4), fout(0), a.first, out(1), fout(2), fout(3), fout(4),
                                    a.accumulate, scratch(), stream);
    case OpKind::residual_add:
      return residual_add(a.m * a.n, type(op.reads[1]), fin(0), in(1), fout(0), stream);
    case OpKind::norm_residual:
      return norm_residual({a.m, a.n, a.eps, 0, 0, type(op.reads[0])}, in(0), fin(1), fin(2), fin(3), out(0),
                           fout(1), fout(2), fout(3), stream);
    case OpKind::norm_residual_backward:
      return norm_residual_backward({a.m, a.n, a.eps, 0, 0, type(op.reads[0])}, in(0), fin(1), fin(2), fin(3),
                                    in(4), out(0), fout(1), fout(2), fout(3), a.accumulate, scratch(),
                                    stream);
    case OpKind::gather: {
      const DType act = type(op.reads[1]);
      const auto rows = [&](size_t i) { return in(i) ? op.reads[i].count / (a.batch * a.n) : 0; };
      return gather(
          {a.batch, a.m / a.batch, a.n, rows(1), rows(3), act, op.reads[0] ? type(op.reads[0]) : act}, in(0),
          in(1), ints(2), in(3), ints(4), out(0), stream);
    }
    case OpKind::segment_sum:
      return segment_sum(
          {a.batch, a.m / a.batch, a.n, op.writes[0].count / (a.batch * a.n), type(op.reads[0])}, in(0),
          ints(1), ints(2), out(0), stream);
    case OpKind::activation:
      if (taken_in(op, Fused::gelu)) return;
      return activation(a.activation, a.m * a.n, type(op.reads[0]), in(0), out(0), stream);
    case OpKind::activation_backward:
      if (!taken_in(op, Fused::gelu_gradient))
        return activation_backward(a.activation, a.m, a.n, type(op.reads[0]), in(0), in(1), out(0), fout(1),
                                   a.accumulate, scratch(), stream);
      if (taken_in(op, Fused::bias_gradient) || !op.writes[1]) return;
      return column_sum(a.m, a.n, type(op.writes[0]), out(0), fout(1), a.accumulate, scratch(), stream);
    case OpKind::column_sum:
      if (taken_in(op, Fused::bias_gradient)) return;
      return column_sum(a.m, a.n, type(op.reads[0]), in(0), fout(0), a.accumulate, scratch(), stream);
    case OpKind::period_sum:
      return period_sum(a.m, a.n, a.period, a.row0, fin(0), fout(0), a.accumulate, stream);
    case OpKind::loss_sums:
      return loss_sums(patch_of(a, type(op.reads[0])), in(0), fin(1), fout(0),
                       loss_of(a, in(2) != nullptr, fin(2)), doubles(), stream);
    case OpKind::loss:
      return loss(patch_of(a, type(op.reads[0])), fin(0), a.scale, fin(1), fout(0),
                  loss_of(a, op.reads[0].count > a.batch * loss_sums_size(a.channels, false), nullptr),
                  stream);
    case OpKind::loss_backward:
      return loss_backward(patch_of(a, type(op.reads[0])), in(0), fin(1), fin(2), a.scale, fin(3), out(0),
                           loss_of(a, in(4) != nullptr, fin(4)), stream);
    case OpKind::cross_entropy_max:
      return cross_entropy_max(classes(), in(0), fout(0), stream);
    case OpKind::cross_entropy_sums:
      return cross_entropy_sums(classes(), in(0), in(1), fin(2), fout(0), stream);
    case OpKind::cross_entropy:
      return cross_entropy(classes(), in(0), in(1), fin(2), fin(3), a.scale, fin(4), out(0), fout(1),
                           op.writes[1].count > 1, scratch(), stream);
    case OpKind::dropout:
    case OpKind::dropout_backward: {
      const bool forward = op.kind == OpKind::dropout;
      const size_t scalars = forward ? 1 : 2;
      if (forward ? op.writes[1] : op.reads[1]) break;  // no kernel here writes or reads a stored mask
      if (!op.reads[scalars]) break;
      const DropoutDraw draw{static_cast<uint64_t>(train_.seed), static_cast<uint64_t>(a.stream), a.rate, 0};
      return dropout(draw, fin(scalars), (micro * a.period + a.row0) * a.n, a.m * a.n, a.each,
                     type(op.reads[0]), out(0), stream);
    }
    case OpKind::zero:
      ISOBAR_CUDA(cudaMemsetAsync(
          out(0), 0, static_cast<size_t>(op.writes[0].count * size_of(type(op.writes[0]))), stream));
      return;
    case OpKind::cast:
      return cast(a.n, type(op.reads[0]), type(op.writes[0]), in(0), out(0), a.accumulate, stream);
    case OpKind::copy:
      return copy({{a.extent[0], a.extent[1], a.extent[2]},
                   {a.from[0], a.from[1], a.from[2]},
                   {a.to[0], a.to[1], a.to[2]},
                   a.n,
                   size_of(type(op.reads[0]))},
                  in(0), out(0), stream);
    case OpKind::squared_sum:
      return squared_sum(a.n, in(0), type(op.reads[0]), fout(0), a.accumulate, doubles(), stream);
    case OpKind::loss_scale:
      return loss_scale(static_cast<float>(train_.min_loss_scale), train_.loss_scale_window, fout(0), fout(1),
                        stream);
    case OpKind::adam:
    case OpKind::sgd:
      return optimizer(op, slot, stream);
    case OpKind::average:
      return average(a.n, a.rate, fin(0), fin(1), fout(0), stream);
    case OpKind::swap:
      return swap(a.n, fout(0), fout(1), stream);
    default:  // fetch, collectives, and kernel_less()
      break;
  }
  throw std::logic_error(op.path + ": the GPU backend does not run this kind");
}

void CudaBackend::attention(const Op& op, int32_t slot, cudaStream_t stream) {
  Attention a = attention_of(op);
  const auto in = [&](size_t i) { return at(op.reads[i], slot); };
  if (a.biased) a.bias = reinterpret_cast<const float*>(in(3));
  std::byte* const o = at(op.writes[0], slot);
  auto* const lse = reinterpret_cast<float*>(at(op.writes[1], slot));
  switch (path_of(a, false)) {
    case AttentionPath::cudnn:
      return cudnn_->forward(a, in(0), in(1), in(2), o, lse, workspace(op, slot), stream);
    case AttentionPath::tensor_cores:
      return attention_mma(a, in(0), in(1), in(2), o, lse, stream);
    case AttentionPath::scalar:
      return attention_simt(a, in(0), in(1), in(2), o, lse, stream);
  }
}

void CudaBackend::attention_backward(const Op& op, int32_t slot, cudaStream_t stream) {
  Attention a = attention_of(op);
  const auto in = [&](size_t i) { return at(op.reads[i], slot); };
  if (a.biased) a.bias = reinterpret_cast<const float*>(in(6));
  const auto out = [&](size_t i) { return at(op.writes[i], slot); };
  const auto* lse = reinterpret_cast<const float*>(in(4));
  if (path_of(a, true) == AttentionPath::cudnn)
    return cudnn_->backward(a, in(0), in(1), in(2), in(3), lse, in(5), out(0), out(1), out(2),
                            workspace(op, slot), stream);
  const auto own =
      path_of(a, true) == AttentionPath::tensor_cores ? attention_mma_backward : attention_simt_backward;
  auto* const delta = reinterpret_cast<float*>(workspace(op, slot));
  own(a, in(0), in(1), in(2), in(3), lse, in(5), out(0), out(1), out(2), delta, stream);
  if (a.biased && op.writes[3])
    attention_dbias(a, in(0), in(1), in(2), lse, in(5), delta, reinterpret_cast<float*>(out(3)), stream);
}

void CudaBackend::optimizer(const Op& op, int32_t slot, cudaStream_t stream) {
  const auto floats = [&](const View& v) { return v ? reinterpret_cast<float*>(at(v, slot)) : nullptr; };
  const auto type = [&](const View& v) { return v ? plan_.buffers[v.buffer].dtype : DType::bf16; };
  const auto clip = static_cast<float>(train_.grad_clip);
  const void* grad = at(op.reads[0], slot);
  const float *scalars = floats(op.reads[1]), *norm2 = floats(op.reads[2]);
  Groups groups;
  if (op.reads.size() > 3)
    groups = {reinterpret_cast<const ParameterGroup*>(at(op.reads[3], slot)),
              static_cast<int>(op.reads[3].count * size_of(DType::i32) / sizeof(ParameterGroup))};
  if (op.kind == OpKind::sgd) {
    const Sgd s{static_cast<float>(train_.momentum), static_cast<float>(train_.weight_decay), clip};
    return sgd(s, op.a.n, grad, type(op.reads[0]), scalars, norm2, floats(op.writes[0]), floats(op.writes[1]),
               floats(op.writes[2]), type(op.writes[2]), groups, stream);
  }
  const Adam a{static_cast<float>(train_.beta1),    static_cast<float>(train_.beta2),
               static_cast<float>(train_.adam_eps), static_cast<float>(train_.weight_decay),
               train_.optimizer == "adamw",         clip};
  adam(a, op.a.n, grad, type(op.reads[0]), scalars, norm2, floats(op.writes[0]), floats(op.writes[1]),
       floats(op.writes[2]), floats(op.writes[3]), type(op.writes[3]), groups, stream);
}

// ---- host copies ----

std::byte* CudaBackend::host(const View& v) {
  const Buffer& b = plan_.buffers[v.buffer];
  if (b.kind == BufferKind::host) return at(v);  // it is in host memory
  if (b.kind == BufferKind::scratch || b.kind == BufferKind::saved)
    throw std::logic_error(b.name + ": only persistent buffers have host copies");
  std::byte* copy;
  if (b.bytes() <= kSmall) {
    std::unique_ptr<PinnedMemory>& memory = small_[v.buffer];
    if (!memory) memory = std::make_unique<PinnedMemory>(b.bytes());
    copy = memory->data();
  } else {
    std::vector<std::byte>& memory = large_[v.buffer];
    memory.resize(static_cast<size_t>(b.bytes()));
    copy = memory.data();
  }
  return copy + v.offset * size_of(b.dtype);
}

void CudaBackend::download(const std::vector<View>& views) {
  const cudaStream_t stream = streams_[Lane::compute];
  for (const View& v : views) {
    if (!v || plan_.buffers[v.buffer].kind == BufferKind::host) continue;
    ISOBAR_CUDA(cudaMemcpyAsync(host(v), at(v),
                                static_cast<size_t>(v.count * size_of(plan_.buffers[v.buffer].dtype)),
                                cudaMemcpyDeviceToHost, stream));
  }
  ISOBAR_CUDA(cudaStreamSynchronize(stream));
}

// Programs begin after the compute stream's work, so everything that runs later sees the upload.
void CudaBackend::upload(const std::vector<View>& views) {
  const cudaStream_t stream = streams_[Lane::compute];
  for (const View& v : views) {
    if (!v || plan_.buffers[v.buffer].kind == BufferKind::host) continue;
    ISOBAR_CUDA(cudaMemcpyAsync(at(v), host(v),
                                static_cast<size_t>(v.count * size_of(plan_.buffers[v.buffer].dtype)),
                                cudaMemcpyHostToDevice, stream));
  }
}

void CudaBackend::drop_host_copies() {
  ISOBAR_CUDA(cudaStreamSynchronize(streams_[Lane::compute]));
  large_.clear();
}

// ---- fetch ----

void CudaBackend::fill(const Op& op, int32_t micro, int index, bool hidden) {
  fetch(op, micro, inputs_.to_fill(op, index), hidden);
}

}  // namespace isobar::cuda
