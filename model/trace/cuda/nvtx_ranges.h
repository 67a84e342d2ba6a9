// NVTX ranges around each op's launch, for Nsight Systems: one domain, "isobar"; a range's name is the op's
// path, registered once, and its payload the op's index in the plan. Without a tool a range costs a
// comparison.
//
//   NvtxRanges ranges(plan);
//   ranges.begin(instr.op);  backend.launch(op);  ranges.end();
#pragma once
#include <nvtx3/nvToolsExt.h>

#include <vector>

#include "model/plan/plan.h"

namespace isobar::cuda {

class NvtxRanges {
 public:
  explicit NvtxRanges(const plan::Plan& plan);
  ~NvtxRanges();
  NvtxRanges(const NvtxRanges&) = delete;
  NvtxRanges& operator=(const NvtxRanges&) = delete;
  void begin(int32_t op);
  /// Around a graph's launch, which runs many ops.
  void begin(const char* name);
  void end();

 private:
  nvtxDomainHandle_t domain_;
  std::vector<nvtxStringHandle_t> paths_;  // by op
};

}  // namespace isobar::cuda
