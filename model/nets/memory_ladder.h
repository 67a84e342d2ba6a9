// What a run could change to need less memory, one thing at a time and each with the bytes it saves: advice
// beside "does not fit" and "out of memory".
//
//   for (const MemoryRung& r : memory_ladder(spec, workspace))
//     r.set       // "policy.micro_batch=2": what to give to --set
//     r.saves     // bytes of the fullest rank
//
// A smaller micro-batch, edges in chunks, recomputation, in this order, train the same net; then a narrower
// one.
#pragma once
#include <string>
#include <vector>

#include "model/base/spec.h"
#include "model/plan/plan.h"

namespace isobar {

struct MemoryRung {
  std::string set;    // key=value
  int64_t saves = 0;  // bytes of the fullest rank, device and host together; more than 0
};

/// {}: nothing of it saves anything. Throws ConfigError for what build_plan() refuses of `spec` itself.
std::vector<MemoryRung> memory_ladder(const RunSpec& spec, const Workspace& workspace);

/// "policy.micro_batch=2 saves 1.3 GB, policy.recompute=full saves 2.1 GB"; "" of none
std::string to_text(const std::vector<MemoryRung>& ladder);

}  // namespace isobar
