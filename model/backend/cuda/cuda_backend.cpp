#include "model/backend/cuda/cuda_backend.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>

#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/backend/dropped_rows.h"
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
  return CudaLaunch::workspace_at(*this, op, slot);
}

Attention CudaBackend::attention_of(const Op& op) const {
  constexpr OpKind kForward = OpKind::attention, kBackward = OpKind::attention_backward;
  return cuda::attention_of(op.a, plan_.buffers[in<kForward, kBackward>(op, "q").buffer].dtype,
                            options_.deterministic);
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
    const int64_t bytes = workspace_of(op).count * size_of(DType::f32);
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
  launch_on(op, micro, slot, streams_[op.lane]);
}

void CudaBackend::launch_on(const Op& op, int32_t micro, int32_t slot, cudaStream_t stream) {
  if (done_by_product(op, slot, stream)) return;
  const auto run = ops_[op.kind];
  if (!run) throw std::logic_error(op.path + ": the GPU backend does not run this kind");
  run({*this, op, micro, slot, stream});
}

void CudaBackend::fetch_now(const Op& op, int32_t micro, int32_t slot, cudaStream_t stream) {
  inputs_.reserve(1);
  fill(op, micro, 0);
  inputs_.copy(op, 0, places(op, slot), stream);
  inputs_.in_use(0, stream);
}

namespace {

CudaBackend& backend_of(const CudaLaunch& c) {
  return static_cast<CudaBackend&>(c.backend);
}

void run_fetch(const CudaCall<OpKind::fetch>& c) {
  backend_of(c).fetch_now(c.op, c.micro, c.slot, c.stream);
}

void run_gemm(const CudaCall<OpKind::gemm>& c) {
  backend_of(c).gemm(c.op, c.slot, c.stream);
}

void run_attention(const CudaCall<OpKind::attention>& c) {
  CudaBackend& b = backend_of(c);
  const Attention a = b.attention_of(c.op);
  switch (b.path_of(a, false)) {
    case AttentionPath::cudnn:
      return b.cudnn().forward(a, c.in("q"), c.in("k"), c.in("v"), c.out("o"), c.out("lse"), c.workspace(),
                               c.stream);
    case AttentionPath::tensor_cores:
      return attention_mma(a, c.in("q"), c.in("k"), c.in("v"), c.out("o"), c.out("lse"), c.stream);
    case AttentionPath::scalar:
      return attention_simt(a, c.in("q"), c.in("k"), c.in("v"), c.out("o"), c.out("lse"), c.stream);
  }
}

void run_attention_backward(const CudaCall<OpKind::attention_backward>& c) {
  CudaBackend& b = backend_of(c);
  const Attention a = b.attention_of(c.op);
  const AttentionPath path = b.path_of(a, true);
  if (path == AttentionPath::cudnn)
    return b.cudnn().backward(a, c.in("q"), c.in("k"), c.in("v"), c.in("o"), c.in("lse"), c.in("do"),
                              c.out("dq"), c.out("dk"), c.out("dv"), c.workspace(), c.stream);
  const auto own = path == AttentionPath::tensor_cores ? attention_mma_backward : attention_simt_backward;
  own(a, c.in("q"), c.in("k"), c.in("v"), c.in("o"), c.in("lse"), c.in("do"), c.out("dq"), c.out("dk"),
      c.out("dv"), c.workspace(), c.stream);
}

void run_attention_merge(const CudaCall<OpKind::attention_merge>& c) {
  attention_merge(attention_of(c.a, c.type_in("o"), false), c.a.first, c.in("o"), c.in("lse"), c.out("o"),
                  c.out("lse"), c.stream);
}

void run_loss_sums(const CudaCall<OpKind::loss_sums>& c) {
  loss_sums(patch_of(c.a, c.type_in("pred")), c.in("pred"), c.in("target"), c.out("sums"),
            backend_of(c).loss_of(c.a, static_cast<bool>(c.in("mask")), c.in("mask")), c.workspace(),
            c.stream);
}

void run_loss(const CudaCall<OpKind::loss>& c) {
  const bool masked = c.view_in("sums").count > c.a.batch * loss_sums_size(c.a.channels, false);
  loss(patch_of(c.a, c.type_in("sums")), c.in("sums"), c.a.scale, c.in("scalars"), c.out("metrics"),
       backend_of(c).loss_of(c.a, masked, nullptr), c.stream);
}

void run_loss_backward(const CudaCall<OpKind::loss_backward>& c) {
  loss_backward(patch_of(c.a, c.type_in("pred")), c.in("pred"), c.in("target"), c.in("sums"), c.a.scale,
                c.in("scalars"), c.out("dpred"),
                backend_of(c).loss_of(c.a, static_cast<bool>(c.in("mask")), c.in("mask")), c.stream);
}

// `mask`: bytes, null if none is kept; `read`: the forward pass has written it
template <OpKind K>
void run_dropout(const CudaCall<K>& c, DType act, std::byte* x, uint8_t* mask, bool read) {
  const float* const scalars = c.in("scalars");
  if (scalars == nullptr) return;
  if (read) return dropout_by_mask(c.a.rate, scalars, mask, c.a.m * c.a.n, act, x, c.stream);
  const DropoutDraw draw{static_cast<uint64_t>(backend_of(c).train().seed), static_cast<uint64_t>(c.a.stream),
                         c.a.rate, 0};
  for_dropped_rows(c.a, c.micro, [&](int64_t row, int64_t first, int64_t rows) {
    const int64_t at = row * c.a.n;
    dropout(draw, scalars, first * c.a.n, rows * c.a.n, c.a.each, act, x + at * c.a.each * size_of(act),
            mask != nullptr ? mask + at : nullptr, c.stream);
  });
}

void run_dropout_forward(const CudaCall<OpKind::dropout>& c) {
  run_dropout(c, c.type_in("x"), c.out("x"), c.out("mask"), false);
}

void run_dropout_backward(const CudaCall<OpKind::dropout_backward>& c) {
  run_dropout(c, c.type_in("dx"), c.out("dx"), c.in("mask"), static_cast<bool>(c.view_in("mask")));
}

void run_loss_scale(const CudaCall<OpKind::loss_scale>& c) {
  const TrainSpec& t = backend_of(c).train();
  loss_scale(static_cast<float>(t.min_loss_scale), t.loss_scale_window, c.out("norm2"), c.out("scalars"),
             c.stream);
}

Groups groups_of(const View& words, const ParameterGroup* of) {
  return {of, static_cast<int>(words.count * size_of(DType::i32) / sizeof(ParameterGroup))};
}

void run_sgd(const CudaCall<OpKind::sgd>& c) {
  const TrainSpec& t = backend_of(c).train();
  sgd({static_cast<float>(t.momentum), static_cast<float>(t.weight_decay), static_cast<float>(t.grad_clip)},
      c.a.n, c.in("grad"), c.type_in("grad"), c.in("scalars"), c.in("norm2"), c.out("param"),
      c.out("momentum"), c.out("param16"), c.type(c.view_out("param16"), DType::bf16),
      groups_of(c.view_in("groups"), c.in("groups")), c.stream);
}

void run_adam(const CudaCall<OpKind::adam>& c) {
  const TrainSpec& t = backend_of(c).train();
  adam({static_cast<float>(t.beta1), static_cast<float>(t.beta2), static_cast<float>(t.adam_eps),
        static_cast<float>(t.weight_decay), t.optimizer == "adamw", static_cast<float>(t.grad_clip)},
       c.a.n, c.in("grad"), c.type_in("grad"), c.in("scalars"), c.in("norm2"), c.out("param"), c.out("m"),
       c.out("v"), c.out("param16"), c.type(c.view_out("param16"), DType::bf16),
       groups_of(c.view_in("groups"), c.in("groups")), c.stream);
}

CudaRows library_ops() {
  static constexpr CudaRow kRows[] = {row<run_fetch>,
                                      row<run_gemm>,
                                      row<run_attention>,
                                      row<run_attention_backward>,
                                      row<run_attention_merge>,
                                      row<run_loss_sums>,
                                      row<run_loss>,
                                      row<run_loss_backward>,
                                      row<run_dropout_forward>,
                                      row<run_dropout_backward>,
                                      row<run_loss_scale>,
                                      row<run_sgd>,
                                      row<run_adam>};
  return kRows;
}

}  // namespace

const OpFunctions<CudaLaunch>& cuda_ops() {
  static const OpFunctions<CudaLaunch> all = {library_ops(),   class_ops(),    column_ops(), graph_ops(),
                                              image_ops(),     language_ops(), norm_ops(),   optimizer_ops(),
                                              pointwise_ops(), rms_norm_ops(), roll_ops()};
  return all;
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
