// Single changes to a run that save memory, with the bytes each saves: advice beside "does not fit" and "out
// of memory".
//
//   for (const MemoryRung& r : memory_ladder(spec, workspace))
//     r.set       // "policy.micro_batch=2": for --set
//     r.saves     // bytes of the fullest rank
//
// A smaller micro-batch, edges in chunks and recomputation, in this order, train the same net; the last rung
// is a narrower net.
#pragma once
#include <string>
#include <vector>

#include "model/base/spec/spec.h"
#include "model/plan/plan.h"

namespace isobar::nets {

struct MemoryRung {
  std::string set;    // key=value
  int64_t saves = 0;  // bytes of the fullest rank, device and host together; > 0
};

/// {}: no change saves memory. Throws ConfigError if build_plan() refuses `spec` itself.
std::vector<MemoryRung> memory_ladder(const RunSpec& spec, const plan::Workspace& workspace);

/// "policy.micro_batch=2 saves 1.3 GB, policy.recompute=full saves 2.1 GB"; "" if empty
std::string to_text(const std::vector<MemoryRung>& ladder);

}  // namespace isobar::nets
