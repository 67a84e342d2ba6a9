#include "perfmodel/ask/ties.h"

#include <algorithm>

#include "perfmodel/ask/suggest.h"
#include "perfmodel/fitting/layout_fit.h"

namespace isobar::perf {

Ties likeliest(const std::vector<double>& chances, double loss) {
  constexpr double kSure = 0.8;
  Ties t{.chances = chances, .loss = loss};
  for (size_t i = 0; i < chances.size(); ++i) t.members.push_back({i, chances[i]});
  std::stable_sort(t.members.begin(), t.members.end(),
                   [](const Ties::Member& a, const Ties::Member& b) { return a.chance > b.chance; });
  double sum = 0;
  size_t most = 0;
  while (most < t.members.size() && sum < kSure) sum += t.members[most++].chance;
  t.members.resize(most);
  return t;
}

Ties ties(LayoutModel& model, const std::vector<LayoutCandidate>& candidates, size_t runs) {
  std::vector<Candidate> all;
  for (const LayoutCandidate& c : candidates) {
    const RunSpec spec = with_layout(model.spec(), c.layout);
    all.push_back({.spec = spec, .view = view_of(model, spec)});
  }
  const Machine machine = model.machine();
  const Outlook o = look_ahead(all, machine, {.count = runs});
  model.set_coefficients(machine.values());
  std::vector<double> chances;
  for (const auto& belief : o.beliefs) chances.push_back(belief.chance);
  Ties t = likeliest(chances, o.regret);
  for (const Suggestion& s : o.next) t.telling.push_back(s.candidate);
  return t;
}

}  // namespace isobar::perf
