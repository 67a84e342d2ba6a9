// Measured against predicted memory, for runs on cores.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/plan/plan.h"
#include "perfmodel/fitting/fit.h"

namespace isobar::perf {

struct MemoryFit {
  size_t runs = 0, same = 0;  // with a known arena; of these, with the same bytes when planned here
  size_t peaks = 0;           // runs with a known peak of their processes
  double median_error = 0, p90 = 0, bias = 0;  // of plan and Coef::process against that peak
};
/// `workspace`: of the CPU back end, by threads.
MemoryFit memory_of(const std::vector<MeasuredRun>& runs, const Machine& machine,
                    const std::function<plan::Workspace(int threads)>& workspace);

/// "Memory: …", a line or two; "": nothing was measured.
std::string text_of(const MemoryFit& m);

}  // namespace isobar::perf
