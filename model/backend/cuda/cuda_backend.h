// Ops on one NVIDIA GPU: each is enqueued on a stream, as cuBLASLt's matrix products, cuDNN's attention or a
// kernel of kernels.h.
//
//   CudaBackend backend(plan, arena.data(), spec.train, host.data(), streams, options);
//   backend.prepare();                    // algorithms and attention plans: before the arena holds anything
//   backend.launch_on(op, micro, slot, streams[op.lane]);
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "model/backend/backend.h"
#include "model/backend/cuda/attention_cudnn.h"
#include "model/backend/cuda/device.h"
#include "model/backend/cuda/gemm.h"
#include "model/base/spec.h"

namespace isobar::cuda {

struct BackendOptions {
  GemmChoice gemm = GemmChoice::heuristic;
  int capability = 9;  // of the device, major
  bool cudnn = true;   // false: attention in plain kernels always
};

class CudaBackend : public Backend {
 public:
  /// `host`: pinned memory of plan.memory.host bytes, or null.
  CudaBackend(const Plan& plan, std::byte* arena, const TrainSpec& train, std::byte* host,
              const Streams& streams, const BackendOptions& options);
  ~CudaBackend() override;

  /// Chooses all algorithms. With GemmChoice::timed it overwrites the arena, and leaves it zeroed.
  void prepare();
  /// On the op's lane. A fetch goes through staging 0.
  void launch(const Op& op, int32_t micro, int32_t slot) override;
  void launch_on(const Op& op, int32_t micro, int32_t slot, cudaStream_t stream);
  void sync() override { streams_.sync(); }
  const char* name() const override { return "cuda"; }

  std::byte* host(const View& v) override;
  void download(const std::vector<View>& views) override;
  void upload(const std::vector<View>& views) override;
  void drop_host_copies() override;

  // ---- fetch: the host fills a pinned staging buffer, the device copies from it ----
  void reserve_staging(int count);  // at least so many
  int staging() const { return static_cast<int>(staging_.size()); }
  int64_t staging_bytes() const;
  /// Waits until the device is done with the buffer and has the data source fill it.
  void fill_staging(const Op& fetch, int32_t micro, int index);
  void copy_staged(const Op& fetch, int32_t slot, int index, cudaStream_t stream);
  /// Notes that the buffer is free once what was enqueued on `stream` is done; not inside a capture.
  void staging_in_use(int index, cudaStream_t stream);

  const Gemms& gemms() const { return gemms_; }

 private:
  struct Staging {
    PinnedMemory memory;
    Event copied;
    bool in_use = false;
    explicit Staging(int64_t bytes) : memory(bytes) {}
  };
  Attention attention_of(const Op& op) const;
  Loss loss_of() const;
  bool by_cudnn(const Attention& a, bool backward) const;
  GemmOperands operands_of(const Op& op, int32_t slot) const;
  std::byte* workspace(const Op& op, int32_t slot) const;
  void gemm(const Op& op, int32_t slot, cudaStream_t stream);
  void attention(const Op& op, int32_t slot, cudaStream_t stream);
  void attention_backward(const Op& op, int32_t slot, cudaStream_t stream);
  void optimizer(const Op& op, int32_t slot, cudaStream_t stream);
  int64_t input_bytes(const Op& fetch) const;

  const TrainSpec train_;
  const Streams& streams_;
  const BackendOptions options_;
  const Loss loss_;
  bool biases_copied_;  // params16 mirrors params, biases and all
  Gemms gemms_;
  std::optional<CudnnAttention> cudnn_;
  std::vector<std::unique_ptr<Staging>> staging_;
  std::map<int32_t, std::unique_ptr<PinnedMemory>> small_;  // host copies by buffer
  std::map<int32_t, std::vector<std::byte>> large_;
};

}  // namespace isobar::cuda
