// The lines of a prediction: a step's seconds by what they are spent on, largest first. Both gears name them
// here, so that a line means the same whatever was predicted.
//
//   Counts parts = ...;                                                  // seconds by coefficient
//   p.terms = name_terms(parts, {{term::kBubble, s.bubble}}, p.correction);
#pragma once
#include <string>
#include <vector>

#include "perfmodel/machine/coefficient.h"

namespace isobar {

struct Term {
  std::string name;
  double seconds = 0;
};

/// What is no coefficient's own line (coefficient.cpp names those).
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
constexpr const char* kTransfers = "pipeline transfers";
constexpr const char* kData = "exposed DP communication";
}  // namespace term

/// Coefficients of one name are one line, and lines of nothing are left out. `correction`: factor on all of
/// them.
std::vector<Term> name_terms(const Counts& parts, const std::vector<Term>& others, double correction);

}  // namespace isobar
