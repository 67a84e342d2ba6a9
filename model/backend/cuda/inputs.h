// Batches on their way to the device: pinned buffers that the host fills, one for each fetch of a program,
// and for programs that run repeatedly two sets of landing buffers on the device. While a run computes on one
// set, the next run's batches are copied into the other on a separate stream; the fetch op is then a copy
// within the device.
//
//   Inputs inputs(plan);
//   inputs.reserve(2);                              // without landing: pinned memory, copied by the fetch op
//   if (inputs.reserve_ahead(fetches, device_bytes)) { inputs.send(op, i, set); inputs.sent(set); }
//   inputs.land(…);
//
// Landing buffers are outside the plan's arena and reported separately.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "model/backend/cuda/runtime/device.h"
#include "model/plan/plan.h"

namespace isobar::cuda {

class Inputs {
 public:
  explicit Inputs(const plan::Plan& plan);
  ~Inputs();
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  void reserve(int count);  // at least `count` pinned buffers
  /// Also both landing sets; reserves nothing and returns false if those exceed `most` bytes.
  bool reserve_ahead(int count, int64_t most);
  int count() const { return static_cast<int>(pinned_.size()); }
  int64_t pinned_bytes() const { return bytes_ * count(); }
  int64_t landing_bytes() const;

  /// An address for each of the fetch's writes, null if absent.
  using Places = std::vector<std::byte*>;
  /// Addresses for the host to fill. Waits until the device is done with the buffer.
  Places to_fill(const plan::Op& fetch, int index);
  /// From pinned memory to `to`, the fetch's views on the device.
  void copy(const plan::Op& fetch, int index, const Places& to, cudaStream_t stream);
  /// Marks the buffer as free once `stream`'s current work is done; not inside a capture.
  void in_use(int index, cudaStream_t stream);

  // ---- ahead: no run reads the set any more ----
  void send(const plan::Op& fetch, int index, int set);  // from pinned memory, on a separate stream
  void sent(int set);                                    // call after all sends of a set
  cudaStream_t stream() const { return stream_; }        // that they run on
  void wait(int set, cudaStream_t stream);               // `stream` waits for the set
  void land(const plan::Op& fetch, int index, int set, const Places& to, cudaStream_t stream);

 private:
  struct Pinned {
    PinnedMemory memory;
    Event copied;
    bool in_use = false;
    explicit Pinned(int64_t bytes) : memory(bytes) {}
  };
  struct Landing {
    std::vector<std::unique_ptr<DeviceArena>> buffers;
    Event sent;
  };
  size_t bytes_of(const plan::View& v) const;
  Places one_after_the_other(const plan::Op& fetch, std::byte* begin) const;
  void copy_views(const plan::Op& fetch, const std::byte* from, const Places& to, cudaMemcpyKind kind,
                  cudaStream_t stream) const;
  const plan::Plan& plan_;
  int64_t bytes_ = 0;  // of the largest fetch
  std::vector<std::unique_ptr<Pinned>> pinned_;
  std::array<Landing, 2> landing_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace isobar::cuda
