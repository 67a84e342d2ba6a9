// A run's memory on a GPU, and the micro-batch chosen if none is given: the largest that fits. The engine and
// predictions of accelerators share it, so that both choose the same.
//
//   const DeviceRoom room{.bytes = 80e9, .process = kGpuProcessBytes};
//   device_memory(spec, workspace, room).total() <= room.bytes           // it fits
//   const MicroBatchChoice c = largest_micro_batch(spec, workspace, room);
//   build_plan(c.spec, rank, workspace);                                 // c.spec.policy.micro_batch > 0
//
// Counts the placed arena, NCCL's buffers of the plan's communicators (base/nccl_resources.h) and the
// process' own memory. Prefetched batches on the device are not counted: they use what is left.
#pragma once
#include <string>
#include <vector>

#include "model/base/nccl_resources.h"
#include "model/base/spec/spec.h"
#include "model/plan/plan.h"

namespace isobar::nets {

/// A process on a GPU, measured on an H100 (driver 580.159, CUDA 13.0): CUDA's context 534 MiB, cuBLASLt and
/// cuDNN 21, graphs and kernels that the first steps load 6.
inline constexpr double kGpuProcessBytes = (534.0 + 21 + 6) * (1 << 20);

struct DeviceRoom {  // a rank's device
  double bytes = 0;  // of the device
  double process = kGpuProcessBytes;
  int nccl_channels = kNcclChannels;  // 0: transfers do not use NCCL
};

struct DeviceMemory {  // of the fullest rank, bytes
  plan::Memory plan;
  int64_t nccl = 0;
  double process = 0;
  double total() const { return static_cast<double>(plan.arena) + static_cast<double>(nccl) + process; }
};

/// Memory of the rank whose plan needs the most, device and host together.
plan::Memory fullest(const ValidSpec& spec, const plan::Workspace& workspace);
/// The same for its device. Throws ConfigError for what build_plan() refuses.
DeviceMemory device_memory(const ValidSpec& spec, const plan::Workspace& workspace, const DeviceRoom& room);

struct MicroBatchChoice {
  RunSpec spec;           // with policy.micro_batch set, if a legal one had to be chosen
  bool chosen = false;    // false: it was given
  bool fits = false;      // if chosen; false: it is the smallest and does not fit either
  DeviceMemory memory{};  // with it
  DeviceRoom room{};
  /// "micro-batch 4, the largest that fits: 61.3 of 80 GB"; "" if it was given
  std::string text() const;
};
/// Resolves policy.micro_batch 0 on a GPU: the largest that fits, so more memory never gives a smaller one;
/// pure, so that ranks with equal devices agree. Throws ConfigError for what build_plan() refuses.
MicroBatchChoice largest_micro_batch(const ValidSpec& spec, const plan::Workspace& workspace,
                                     const DeviceRoom& room);

}  // namespace isobar::nets
