// Measured against predicted memory, for runs on cores.
#pragma once
#include <string>
#include <vector>

#include "perfmodel/fitting/fit.h"

namespace isobar {

struct MemoryFit {
  size_t runs = 0, same = 0;  // with a known arena; of these, with the same bytes when planned here
  size_t peaks = 0;           // runs with a known peak of their processes
  double median_error = 0, p90 = 0, bias = 0;  // of plan and Coef::process against that peak
};
MemoryFit memory_of(const std::vector<MeasuredRun>& runs, const Machine& machine);

/// "Memory: …", a line or two; "": nothing was measured.
std::string text_of(const MemoryFit& m);

}  // namespace isobar
