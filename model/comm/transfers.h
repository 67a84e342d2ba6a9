// A transfer as one rank's calls to a library that knows equal parts only (NCCL). What has a call of its own
// is one call; uneven parts, all-to-alls and rings are several that run as one group. Pure, so that all
// ranks' calls can be held against each other without a device.
//
//   for (const TransferCall& c : transfer_calls(op, rank, size, {in_count, out_count})) …   //
//   model/comm/nccl
#pragma once
#include <vector>

#include "model/comm/comm.h"

namespace isobar {

struct TransferCall {
  enum class Kind : uint8_t { all_reduce, broadcast, all_gather, reduce_scatter, reduce, send, recv };
  Kind kind;
  int64_t count = 0;      // elements; all_gather, reduce_scatter: of each rank's part
  int64_t in = 0;         // element of reads[0] that it begins to read at, unless `in_place`
  int64_t out = 0;        // element of writes[0] that it begins to write at
  int peer = 0;           // broadcast, reduce: the root; send, recv: the other rank
  bool in_place = false;  // reads where it writes: the operand lies in writes[0]
};

/// The calls of `rank` in a group of `size`. None where there is nothing to move.
std::vector<TransferCall> transfer_calls(const Op& op, int rank, int size, Extent counts);

}  // namespace isobar
