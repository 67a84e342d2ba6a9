// What a run takes of a GPU, and the micro-batch that it takes where nobody gave one: the largest that fits.
// One account for the engine before it trains and for predictions of accelerators, so that both choose alike.
//
//   const DeviceRoom room{.bytes = 80e9, .process = kGpuProcessBytes};
//   device_memory(spec, workspace, room).total() <= room.bytes           // it fits
//   const MicroBatchChoice c = largest_micro_batch(spec, workspace, room);
//   build_plan(c.spec, rank, workspace);                                 // c.spec.policy.micro_batch > 0
//
// Counted are the placed arena, NCCL's buffers of the plan's communicators (base/nccl_resources.h) and the
// process' own memory. Batches of the next step that wait on the device are not: they take what is left.
#pragma once
#include <string>
#include <vector>

#include "model/base/nccl_resources.h"
#include "model/base/spec.h"
#include "model/plan/plan.h"

namespace isobar {

/// Of a process on a GPU: CUDA's context, what cuBLASLt and cuDNN take; a round figure.
inline constexpr double kGpuProcessBytes = 2e9;

struct DeviceRoom {  // of one rank
  double bytes = 0;  // of the device
  double process = kGpuProcessBytes;
  int nccl_channels = kNcclChannels;  // 0: transfers are not NCCL's
};

struct DeviceMemory {  // of the fullest rank, bytes
  Memory plan;
  int64_t nccl = 0;
  double process = 0;
  double total() const { return static_cast<double>(plan.arena) + static_cast<double>(nccl) + process; }
};

/// The ranks of which one needs the most memory: tokens, rows and shards may be cut unevenly. Replicas that
/// shard nothing are alike; of large worlds the first and the last of every axis are taken, and all stages.
std::vector<int> ranks_to_place(const RunSpec& spec);
/// Memory of one rank's plan, folded where its net is very deep (folded_plan.h).
Memory placed_memory(const RunSpec& spec, int rank, const Workspace& workspace);
/// Memory of the rank whose plan needs the most, device and host together.
Memory fullest(const RunSpec& spec, const Workspace& workspace);
/// The same of its device. Throws ConfigError for what build_plan() refuses.
DeviceMemory device_memory(const RunSpec& spec, const Workspace& workspace, const DeviceRoom& room);

/// Sizes that a run on a GPU may take, largest first: they divide the batch of a rank and suit the layout
/// (legal_layout.h). A pipeline keeps pp * vpp micro-batches, or as many as it can have: with fewer its
/// bubbles grow. {}: none is legal.
std::vector<int64_t> micro_batch_sizes(const RunSpec& spec);

struct MicroBatchChoice {
  RunSpec spec;           // with policy.micro_batch set, where a legal one was to be chosen
  bool chosen = false;    // false: it was given
  bool fits = false;      // of a chosen one: false is the smallest, which does not fit either
  DeviceMemory memory{};  // with it
  DeviceRoom room{};
  /// "micro-batch 4, the largest that fits: 61.3 of 80 GB"; "" for one that was given
  std::string text() const;
};
/// policy.micro_batch 0 on a GPU. Of sizes that fit the largest, so more room never gives a smaller one;
/// pure, so that ranks with the same device agree. Throws ConfigError for what build_plan() refuses.
MicroBatchChoice largest_micro_batch(const RunSpec& spec, const Workspace& workspace, const DeviceRoom& room);

}  // namespace isobar
