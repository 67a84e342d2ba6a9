// A transfer as calls of a library that supports equal parts only (NCCL). Uneven parts, all-to-alls and rings
// become several calls that run as one group. Pure, so that all ranks' calls can be compared without a
// device.
//
//   for (const TransferCall& c : transfer_calls(op, rank, size, {in_count, out_count})) …
#pragma once
#include <vector>

#include "model/comm/comm.h"

namespace isobar::comm {

struct TransferCall {
  enum class Kind : uint8_t { all_reduce, broadcast, all_gather, reduce_scatter, reduce, send, recv };
  Kind kind;
  int64_t count = 0;      // elements; all_gather, reduce_scatter: of each rank's part
  int64_t in = 0;         // first element read of reads[0], unless `in_place`
  int64_t out = 0;        // first element written of writes[0]
  int peer = 0;           // broadcast, reduce: the root; send, recv: the other rank
  bool in_place = false;  // reads where it writes: the operand is in writes[0]
  bool largest = false;   // all_reduce: the maximum, not the sum
};

/// The calls of `rank` in a group of `size`; none if there is nothing to move.
std::vector<TransferCall> transfer_calls(const plan::Op& op, int rank, int size, Extent counts);

}  // namespace isobar::comm
