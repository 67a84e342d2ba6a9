// Which of a search's layouts are the same within what is known, and which runs would tell them apart.
//
//   Ties t = ties(model, result.variants, 3);
//   t.members    // one of these is the fastest, with 80 %: {index, chance}
//   t.loss       // by which the first is expected to fall short of the best of all
//   t.telling    // the runs that would lower that most, best first
//
// What layouts of one machine share (a price that is wrong is wrong for all of them) cancels between them:
// the candidates' log times are one correlated normal distribution (suggest.h).
#pragma once
#include <vector>

#include "perfmodel/search.h"

namespace isobar {

struct Ties {
  struct Member {
    size_t index = 0;   // of the candidates
    double chance = 0;  // to be the fastest
  };
  std::vector<Member> members;  // likeliest first
  double loss = 0;              // share of the throughput
  std::vector<size_t> telling;  // indices
};

/// Those of which with 80 % one is the fastest, by each one's chance of it; none is said to tell.
Ties likeliest(const std::vector<double>& chances, double loss);
/// Times alone: the chance to fit is the search's. The model's coefficients stay the machine's.
Ties ties(LayoutModel& model, const std::vector<LayoutCandidate>& candidates, size_t runs);

}  // namespace isobar
