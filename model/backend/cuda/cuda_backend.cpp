#include "model/backend/cuda/cuda_backend.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>

#include "model/backend/cuda/kernels/attention/attention_few.h"
#include "model/backend/cuda/kernels/hopper/attention.h"
#include "model/backend/cuda/kernels/kernels.h"
#include "model/backend/cuda/kernels/workspace.h"
#include "model/base/latitude.h"
#include "model/base/loss_sums.h"

namespace isobar::cuda {
namespace {

constexpr int64_t kSmall = int64_t{1} << 20;  // bytes: host copies up to this size are pinned, and kept

// True without ZeRO: every parameter has its 16-bit copy at the same offset.
bool mirrored(const plan::Plan& plan) {
  if (!plan.params16_all || plan.params16_all.count != plan.params_all.count) return false;
  int64_t end = 0;
  for (const plan::Param& p : plan.params) {
    if (p.half) return false;
    end = std::max(end, p.offset + p.count);
  }
  return plan.params_all.count >= end;
}

}  // namespace

CudaBackend::CudaBackend(const plan::Plan& plan, std::byte* arena, std::byte* host, const Streams& streams,
                         const BackendOptions& options)
    : Backend(plan, arena, host),
      streams_(streams),
      options_(options),
      biases_copied_(mirrored(plan)),
      gemms_(options.gemm, options.product_sms),
      inputs_(plan),
      fusion_at_(plan.ops.size(), -1),
      taken_in_(plan.ops.size()) {
  for (const plan::Op& op : plan.ops) {
    const auto* loss = std::get_if<plan::LossAttrs>(&op.attrs);
    if (!loss || rows_.contains(loss->image.height)) continue;
    const int64_t height = loss->image.height;
    const std::vector<double> weights = row_weights(height, loss->weighed().latitudes);
    const std::vector<float> rows(weights.begin(), weights.end());
    auto& held = rows_[height] =
        std::make_unique<DeviceArena>(static_cast<int64_t>(sizeof(float) * rows.size()));
    ISOBAR_CUDA(cudaMemcpy(held->data(), rows.data(), sizeof(float) * rows.size(), cudaMemcpyHostToDevice));
  }
  // The copies may be pending, and the lanes' streams do not wait for the null stream.
  ISOBAR_CUDA(cudaStreamSynchronize(nullptr));
}

CudaBackend::~CudaBackend() = default;

// ---- operands ----

std::byte* CudaBackend::workspace(const plan::Op& op, int32_t slot) const {
  return CudaLaunch::workspace_at(*this, op, slot);
}

Attention CudaBackend::attention_of(const plan::Op& op) const {
  constexpr plan::OpKind kForward = plan::OpKind::attention, kBackward = plan::OpKind::attention_backward;
  Attention a = cuda::attention_of(op.as<plan::AttentionAttrs>(),
                                   plan_.buffers[plan::in<kForward, kBackward>(op, "q").buffer].dtype,
                                   options_.deterministic);
  a.biased = static_cast<bool>(plan::bias_of_scores(op));
  return a;
}

AttentionPath CudaBackend::path_of(const Attention& a, bool backward) const {
  const bool cudnn = options_.cudnn && CudnnAttention::built() && !refused_.contains(text_of(a, backward));
  return attention_path(a, backward, options_.capability, cudnn, options_.attention);
}

// ---- before the first step ----

CudaBackend::AttentionUse CudaBackend::by_cudnn(AttentionUse use) {
  if (!cudnn_) cudnn_.emplace();
  try {
    cudnn_->prepare(use.shape, use.backward, use.workspace);
    use.engine = cudnn_->plan(use.shape, use.backward).engine;
    use.workspace = cudnn_->plan(use.shape, use.backward).workspace;
  } catch (const Failure& e) {
    use.refused = e.what();
    refused_.insert(text_of(use.shape, use.backward));
    use.path = path_of(use.shape, use.backward);
  }
  return use;
}

void CudaBackend::prepare_attention() {
  std::set<std::string> seen;
  for (const plan::Op& op : plan_.ops) {
    const bool backward = op.kind == plan::OpKind::attention_backward;
    if (op.kind != plan::OpKind::attention && !backward) continue;
    const Attention a = attention_of(op);
    const int64_t bytes = plan::workspace_of(op).count * size_of(DType::f32);
    AttentionUse use{a, backward, path_of(a, backward), "", bytes, ""};
    if (use.path == AttentionPath::cudnn) use = by_cudnn(std::move(use));
    if (use.path == AttentionPath::hopper && backward && hopper_backward_workspace(a) > bytes)
      throw std::logic_error(op.path + ": planned for another run.attention");
    if (seen.insert(text_of(a, backward)).second) attentions_.push_back(std::move(use));
  }
}

// ---- ops ----

Loss CudaBackend::loss_of(const plan::LossAttrs& a, bool masked, const float* mask) const {
  if (a.kind == LossKind::projection) throw std::logic_error("projections run on CPUs only");
  const plan::LossWeights& w = a.weighed();
  Loss l{.kind = a.kind, .delta = a.delta};
  const auto fill = [](float* to, const std::vector<float>& from, float absent) {
    std::fill_n(to, kMaxChannels, absent);
    std::copy_n(from.begin(), std::min<size_t>(from.size(), kMaxChannels), to);
  };
  fill(l.weight, w.channel, 1);
  fill(l.above, w.above, std::numeric_limits<float>::infinity());
  fill(l.intense, w.intense, 1);
  l.rows = reinterpret_cast<const float*>(rows_.at(a.image.height)->data());
  l.by_rows = w.latitude;
  l.masked = masked;
  l.mask = mask;
  return l;
}

size_t CudaBackend::index_of(const plan::Op& op) const {
  const std::less<const plan::Op*> before;
  const plan::Op *first = plan_.ops.data(), *end = first + plan_.ops.size();
  return before(&op, first) || !before(&op, end) ? plan_.ops.size() : static_cast<size_t>(&op - first);
}

void CudaBackend::launch(const plan::Op& op, int32_t micro, int32_t slot) {
  launch_on(op, micro, slot, streams_[op.lane]);
}

void CudaBackend::launch_on(const plan::Op& op, int32_t micro, int32_t slot, cudaStream_t stream) {
  if (done_by_product(op, slot, stream)) return;
  const auto run = ops_[op.kind];
  if (!run) throw std::logic_error(op.path + ": the GPU backend does not run this kind");
  run({*this, op, micro, slot, stream});
}

void CudaBackend::fetch_now(const plan::Op& op, int32_t micro, int32_t slot, cudaStream_t stream) {
  inputs_.reserve(1);
  fill(op, micro, 0);
  inputs_.copy(op, 0, places(op, slot), stream);
  inputs_.in_use(0, stream);
}

namespace {

CudaBackend& backend_of(const CudaLaunch& c) {
  return static_cast<CudaBackend&>(c.backend);
}

void run_fetch(const CudaCall<plan::OpKind::fetch>& c) {
  backend_of(c).fetch_now(c.op, c.micro, c.slot, c.stream);
}

void run_gemm(const CudaCall<plan::OpKind::gemm>& c) {
  backend_of(c).gemm(c.op, c.slot, c.stream);
}

void run_attention(const CudaCall<plan::OpKind::attention>& c) {
  CudaBackend& b = backend_of(c);
  Attention a = b.attention_of(c.op);
  a.bias = c.in("bias");
  switch (b.path_of(a, false)) {
    case AttentionPath::cudnn:
      return b.cudnn().forward(a, c.in("q"), c.in("k"), c.in("v"), c.out("o"), c.out("lse"), c.workspace(),
                               c.stream);
    case AttentionPath::tensor_cores:
      return attention_mma(a, c.in("q"), c.in("k"), c.in("v"), c.out("o"), c.out("lse"), c.stream);
    case AttentionPath::scalar:
      return attention_simt(a, c.in("q"), c.in("k"), c.in("v"), c.out("o"), c.out("lse"), c.stream);
    case AttentionPath::few_tokens:
      return attention_few(a, c.in("q"), c.in("k"), c.in("v"), c.out("o"), c.out("lse"), c.stream);
    case AttentionPath::hopper:
      return attention_hopper(a, c.in("q"), c.in("k"), c.in("v"), c.out("o"), c.out("lse"), c.stream);
  }
}

void run_attention_backward(const CudaCall<plan::OpKind::attention_backward>& c) {
  CudaBackend& b = backend_of(c);
  Attention a = b.attention_of(c.op);
  a.bias = c.in("bias");
  const AttentionPath path = b.path_of(a, true);
  if (path == AttentionPath::few_tokens)
    return attention_few_backward(a, c.in("q"), c.in("k"), c.in("v"), c.in("o"), c.in("lse"), c.in("do"),
                                  c.out("dq"), c.out("dk"), c.out("dv"), c.stream);
  if (path == AttentionPath::cudnn)
    return b.cudnn().backward(a, c.in("q"), c.in("k"), c.in("v"), c.in("o"), c.in("lse"), c.in("do"),
                              c.out("dq"), c.out("dk"), c.out("dv"), c.workspace(), c.stream);
  if (path == AttentionPath::hopper)
    return attention_hopper_backward(a, c.in("q"), c.in("k"), c.in("v"), c.in("o"), c.in("lse"), c.in("do"),
                                     c.out("dq"), c.out("dk"), c.out("dv"), c.workspace(), c.stream);
  const auto own = path == AttentionPath::tensor_cores ? attention_mma_backward : attention_simt_backward;
  own(a, c.in("q"), c.in("k"), c.in("v"), c.in("o"), c.in("lse"), c.in("do"), c.out("dq"), c.out("dk"),
      c.out("dv"), c.workspace(), c.stream);
  if (c.out("dbias"))
    attention_dbias(a, c.in("q"), c.in("k"), c.in("v"), c.in("lse"), c.in("do"), c.workspace(),
                    c.out("dbias"), c.stream);
}

void run_attention_merge(const CudaCall<plan::OpKind::attention_merge>& c) {
  attention_merge(attention_of(c.a.of, c.type_in("o"), false), c.a.first, c.in("o"), c.in("lse"), c.out("o"),
                  c.out("lse"), c.stream);
}

void run_loss_sums(const CudaCall<plan::OpKind::loss_sums>& c) {
  loss_sums(patch_of(c.a.image, c.type_in("pred")), c.in("pred"), c.in("target"), c.out("sums"),
            backend_of(c).loss_of(c.a, static_cast<bool>(c.in("mask")), c.in("mask")), c.workspace(),
            c.stream);
}

void run_loss(const CudaCall<plan::OpKind::loss>& c) {
  const bool masked = c.view_in("sums").count > c.a.image.batch * loss_sums_size(c.a.image.channels, false);
  loss(patch_of(c.a.image, c.type_in("sums")), c.in("sums"), c.a.weight, c.in("scalars"), c.out("metrics"),
       backend_of(c).loss_of(c.a, masked, nullptr), c.stream);
}

void run_loss_backward(const CudaCall<plan::OpKind::loss_backward>& c) {
  loss_backward(patch_of(c.a.image, c.type_in("pred")), c.in("pred"), c.in("target"), c.in("sums"),
                c.a.weight, c.in("scalars"), c.out("dpred"),
                backend_of(c).loss_of(c.a, static_cast<bool>(c.in("mask")), c.in("mask")), c.stream);
}

CudaRows shared_ops() {
  using L = CudaLaunch;
  static constexpr CudaRow kRows[] = {row<run_residual_norm<residual_norm, L>>,
                                      row<run_residual_norm_backward<residual_norm_backward, L>>,
                                      row<run_norm_residual<norm_residual, L>>,
                                      row<run_norm_residual_backward<norm_residual_backward, L>>,
                                      row<run_rms_norm<rms_norm, L>>,
                                      row<run_rms_norm_backward<rms_norm_backward, L>>,
                                      row<run_residual_add<residual_add, L>>,
                                      row<run_activation<activation, L>>,
                                      row<run_activation_backward<activation_backward, L>>,
                                      row<run_column_sum<column_sum, L>>,
                                      row<run_period_sum<period_sum, L>>,
                                      row<run_swap<cuda::swap, L>>,
                                      row<run_patch_gather<patch_gather, L>>,
                                      row<run_roll<roll, L>>,
                                      row<run_unroll<unroll, L>>,
                                      row<run_gather<gather, L>>,
                                      row<run_segment_sum<segment_sum, L>>,
                                      row<run_rotary<rotary, L>>,
                                      row<run_rotary_backward<rotary, L>>,
                                      row<run_latent_heads<latent_heads, L>>,
                                      row<run_latent_heads_backward<latent_heads_backward, L>>,
                                      row<run_embedding<embedding, L>>,
                                      row<run_embedding_backward<embedding_backward, L>>,
                                      row<run_cross_entropy_max<cross_entropy_max, L>>,
                                      row<run_cross_entropy_sums<cross_entropy_sums, L>>,
                                      row<run_route<route, L>>,
                                      row<run_dispatch<gather, L>>};
  return kRows;
}

CudaRows library_ops() {
  static constexpr CudaRow kRows[] = {
      row<run_fetch>,           row<run_gemm>,      row<run_attention>, row<run_attention_backward>,
      row<run_attention_merge>, row<run_loss_sums>, row<run_loss>,      row<run_loss_backward>};
  return kRows;
}

}  // namespace

const OpFunctions<CudaLaunch>& cuda_ops() {
  static const OpFunctions<CudaLaunch> all = {library_ops(),   shared_ops(),   class_ops(),
                                              dropout_ops(),   expert_ops(),   language_ops(),
                                              optimizer_ops(), pointwise_ops()};
  return all;
}

// ---- host copies ----

std::byte* CudaBackend::host(const plan::View& v) {
  const plan::Buffer& b = plan_.buffers[v.buffer];
  if (b.kind == plan::BufferKind::host) return at(v);  // it is in host memory
  if (b.kind == plan::BufferKind::scratch || b.kind == plan::BufferKind::saved)
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

void CudaBackend::copy_each(const std::vector<plan::View>& views, cudaMemcpyKind kind) {
  const bool up = kind == cudaMemcpyHostToDevice;
  if (observer_) observer_->begin_engine(up ? trace::EngineWork::upload : trace::EngineWork::download);
  for (const plan::View& v : views) {
    const plan::Buffer* b = v ? &plan_.buffers[v.buffer] : nullptr;
    if (!b || b->kind == plan::BufferKind::host) continue;
    const auto bytes = static_cast<size_t>(v.count * size_of(b->dtype));
    std::byte *here = host(v), *there = at(v);
    ISOBAR_CUDA(
        cudaMemcpyAsync(up ? there : here, up ? here : there, bytes, kind, streams_[plan::Lane::compute]));
  }
  if (observer_) observer_->end_engine();
}

void CudaBackend::download(const std::vector<plan::View>& views) {
  copy_each(views, cudaMemcpyDeviceToHost);
  ISOBAR_CUDA(cudaStreamSynchronize(streams_[plan::Lane::compute]));
}

// Programs begin after the compute stream's work, so everything that runs later sees the upload.
void CudaBackend::upload(const std::vector<plan::View>& views) {
  copy_each(views, cudaMemcpyHostToDevice);
}

void CudaBackend::drop_host_copies() {
  ISOBAR_CUDA(cudaStreamSynchronize(streams_[plan::Lane::compute]));
  large_.clear();
}

// ---- fetch ----

void CudaBackend::fill(const plan::Op& op, int32_t micro, int index, bool hidden) {
  fetch(op, micro, inputs_.to_fill(op, index), hidden);
}

}  // namespace isobar::cuda
