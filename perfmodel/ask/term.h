// The lines of a prediction: a step's seconds by cause, largest first. Closed form and replay share the
// names, so that a line always means the same.
//
//   Counts parts = ...;                                                  // seconds by coefficient
//   p.terms = name_terms(parts, {{term::kBubble, s.bubble}}, p.correction);
#pragma once
#include <string>
#include <vector>

#include "perfmodel/machine/coefficient.h"

namespace isobar::perf {

struct Term {
  std::string name;
  double seconds = 0;
};

/// Lines that are no coefficient's own (coefficient.cpp names those).
namespace term {
constexpr const char* kExposed = "exposed communication";
constexpr const char* kSlowdown = "compute slowed by communication";
constexpr const char* kBubble = "pipeline bubble";
constexpr const char* kImbalance = "waiting for the slowest rank";
constexpr const char* kReading = "reading data";
constexpr const char* kStolen = "cores taken by loader threads";
constexpr const char* kDataWait = "waiting for loader threads";
constexpr const char* kBoundaries = "stage boundaries";
constexpr const char* kTensor = "exposed TP communication";
constexpr const char* kContext = "exposed CP communication";
constexpr const char* kExperts = "exposed EP communication";
constexpr const char* kTransfers = "pipeline transfers";
constexpr const char* kData = "exposed DP communication";
}  // namespace term

/// Merges coefficients of one name and drops zero lines. `correction`: factor on all of them.
std::vector<Term> name_terms(const Counts& parts, const std::vector<Term>& others, double correction);

}  // namespace isobar::perf
