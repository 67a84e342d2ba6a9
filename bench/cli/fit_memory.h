// Memory of measured runs on cores beside what is said of it.
#pragma once
#include <string>
#include <vector>

#include "perfmodel/fitting/fit.h"

namespace isobar {

struct MemoryFit {
  size_t runs = 0, same = 0;  // whose arena is known; and is planned here as it was, to the byte
  size_t peaks = 0;           // whose processes' peak is known
  double median_error = 0, p90 = 0, bias = 0;  // of the peak, about the plan's bytes and Coef::process
};
MemoryFit memory_of(const std::vector<MeasuredRun>& runs, const Machine& machine);

/// "Memory: …", a line or two; "": nothing is known.
std::string text_of(const MemoryFit& m);

}  // namespace isobar
