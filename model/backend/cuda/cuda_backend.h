// Ops on one NVIDIA GPU, each enqueued on a stream: matrix products by cuBLASLt, attention by cuDNN or
// our own kernels (kernels/attention/attention_path.h), the rest by kernels.h.
//
//   CudaBackend backend(plan, arena.data(), host.data(), streams, options);
//   backend.prepare();                    // algorithms and attention plans: before the arena has data
//   backend.launch_on(op, micro, slot, streams[op.lane]);
#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "model/backend/backend.h"
#include "model/backend/cuda/inputs.h"
#include "model/backend/cuda/kernels/cuda_ops.h"
#include "model/backend/cuda/libraries/attention_cudnn.h"
#include "model/backend/cuda/libraries/fusion.h"
#include "model/backend/cuda/libraries/gemm.h"
#include "model/backend/cuda/op_observer.h"
#include "model/backend/cuda/runtime/device.h"

namespace isobar::cuda {

/// The function of each kind.
const OpFunctions<CudaLaunch>& cuda_ops();

struct BackendOptions {
  GemmChoice gemm = GemmChoice::timed;
  int capability = 9;  // of the device, major
  bool cudnn = true;   // false: always our own attention kernels
  AttentionChoice attention = AttentionChoice::automatic;
  bool deterministic = false;  // attention sums in a fixed order (Attention::deterministic)
  bool fuse = true;            // fuse ops into products (fusion.h)
  int product_sms = 0;         // multiprocessors to choose products for (Gemms)
};

class CudaBackend : public Backend {
 public:
  /// `host`: pinned memory of plan.memory.host bytes, or null.
  CudaBackend(const plan::Plan& plan, std::byte* arena, std::byte* host, const Streams& streams,
              const BackendOptions& options);
  ~CudaBackend() override;

  /// Chooses all algorithms. GemmChoice::timed overwrites the arena and leaves it zeroed.
  void prepare();
  /// On the op's lane. A fetch uses the first pinned buffer.
  void launch(const plan::Op& op, int32_t micro, int32_t slot) override;
  void launch_on(const plan::Op& op, int32_t micro, int32_t slot, cudaStream_t stream);
  void sync() override { streams_.sync(); }
  const char* name() const override { return "cuda"; }

  std::byte* host(const plan::View& v) override;
  void download(const std::vector<plan::View>& views) override;
  void upload(const std::vector<plan::View>& views) override;
  void drop_host_copies() override;
  void observe(OpObserver* observer) { observer_ = observer; }

  // ---- fetch ----
  Inputs& inputs() { return inputs_; }
  const Inputs& inputs() const { return inputs_; }
  /// Has the data source fill a pinned buffer; `hidden`: while the device is busy.
  void fill(const plan::Op& fetch, int32_t micro, int index, bool hidden = false);

  // ---- for the functions of ops ----
  /// `mask`: null if the op has none
  Loss loss_of(const plan::LossAttrs& a, bool masked, const float* mask) const;
  Attention attention_of(const plan::Op& op) const;
  AttentionPath path_of(const Attention& a, bool backward) const;
  CudnnAttention& cudnn() { return *cudnn_; }
  void gemm(const plan::Op& op, int32_t slot, cudaStream_t stream);
  /// A fetch by the first pinned buffer
  void fetch_now(const plan::Op& op, int32_t micro, int32_t slot, cudaStream_t stream);

  const Gemms& gemms() const { return gemms_; }
  struct AttentionUse {
    Attention shape;
    bool backward;
    AttentionPath path;
    std::string engine;     // cuDNN's name of its plan
    int64_t workspace = 0;  // bytes
    std::string refused;    // why cuDNN does not run it, where it was asked
  };
  /// Each attention shape of the plan and its path, after prepare().
  const std::vector<AttentionUse>& attentions() const { return attentions_; }
  /// Ops fused into products, after prepare(); and the plan with their operands at the products.
  const std::vector<Fusion>& fusions() const { return fusions_; }
  const plan::Plan& as_run() const { return as_run_ ? *as_run_ : plan_; }

 private:
  using Slots = std::vector<std::set<int32_t>>;  // slots with which each routine runs
  void copy_each(const std::vector<plan::View>& views, cudaMemcpyKind kind);
  void prepare_attention();
  AttentionUse by_cudnn(AttentionUse use);    // or by our own kernels, where it does not take the shape
  size_t index_of(const plan::Op& op) const;  // in the plan; its number of ops if `op` is not in it
  void prepare_products(const Slots& slots);
  void choose_fusions(const Slots& slots);
  bool pays(const Fusion& f, const std::set<int32_t>& slots);
  const Fusion* fusion_of(const plan::Op& product) const;
  bool taken_in(const plan::Op& op, Fused kind) const;
  GemmOperands operands_of(const plan::Op& op, int32_t slot, const Fusion* f) const;
  std::byte* workspace(const plan::Op& op, int32_t slot) const;
  void sum_gradient(const plan::Op& op, int32_t slot, cudaStream_t stream);
  /// True if nothing is left to launch of an op that a product has taken in.
  bool done_by_product(const plan::Op& op, int32_t slot, cudaStream_t stream);

  const OpFunctions<CudaLaunch>& ops_ = cuda_ops();
  const Streams& streams_;
  const BackendOptions options_;
  OpObserver* observer_ = nullptr;
  std::map<int64_t, std::unique_ptr<DeviceArena>> rows_;  // row weights by image height: base/latitude.h
  bool biases_copied_;                                    // params16 mirrors params, biases included
  Gemms gemms_;
  Inputs inputs_;
  std::optional<CudnnAttention> cudnn_;
  std::set<std::string> refused_;  // attentions that cuDNN does not run here
  std::vector<AttentionUse> attentions_;
  std::vector<Fusion> fusions_;
  std::vector<int32_t> fusion_at_;    // by op of the plan, for products: index into fusions_, or -1
  std::vector<uint8_t> taken_in_;     // by op: bits of Fused
  std::map<GemmKey, bool> verdicts_;  // whether fused products pay
  std::optional<plan::Plan> as_run_;
  std::map<int32_t, std::unique_ptr<PinnedMemory>> small_;  // host copies by buffer
  std::map<int32_t, std::vector<std::byte>> large_;
};

}  // namespace isobar::cuda
