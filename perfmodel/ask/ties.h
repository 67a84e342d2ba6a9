// The layouts of a search that are equal within the uncertainty, and the runs that would distinguish them.
//
//   Ties t = ties(model, result.variants, 3);
//   t.members    // one of these is the fastest, with 80 %: {index, chance}
//   t.loss       // expected shortfall of the first from the best of all
//   t.telling    // the runs that lower that most, best first
//
// Errors shared by layouts of one machine (a wrong price affects all) cancel: the candidates' log times are a
// correlated normal distribution (suggest.h).
#pragma once
#include <vector>

#include "perfmodel/ask/search.h"

namespace isobar::perf {

struct Ties {
  struct Member {
    size_t index = 0;   // of the candidates
    double chance = 0;  // to be the fastest
  };
  std::vector<Member> members;  // likeliest first
  std::vector<double> chances;  // of every candidate to be the fastest
  double loss = 0;              // share of the throughput
  std::vector<size_t> telling;  // indices
};

/// The likeliest candidates that contain the fastest with 80 %, from each one's chance; `telling` stays
/// empty.
Ties likeliest(const std::vector<double>& chances, double loss);
/// Considers times only: the search knows the chance to fit. The model's coefficients stay the machine's.
Ties ties(LayoutModel& model, const std::vector<LayoutCandidate>& candidates, size_t runs);

}  // namespace isobar::perf
