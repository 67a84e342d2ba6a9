// Collectives, sends and receives between devices, on streams: the executor's interface to NCCL.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "model/base/dtype.h"
#include "model/plan/ops/op.h"

namespace isobar::cuda {

class DeviceComm {
 public:
  virtual ~DeviceComm() = default;
  /// Enqueues `op` (is_collective) on `stream`; may be captured into a graph, but not if there are `offsets`:
  /// those of an all_to_all, for which the host then waits. `in`, `out`: device addresses of reads[0] and
  /// writes[0], null if absent; counts in elements of `t`. Semantics are those of Comm::post
  /// (model/comm/comm.h).
  virtual void launch(const plan::Op& op, const void* in, int64_t in_count, void* out, int64_t out_count,
                      const int32_t* offsets, DType t, cudaStream_t stream) = 0;
  /// Throws if a transfer has failed in the background; called while the host waits for the device.
  virtual void check() = 0;
};

}  // namespace isobar::cuda
