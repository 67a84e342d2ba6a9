#include "perfmodel/ask/term.h"

#include <algorithm>
#include <vector>

namespace isobar::perf {

std::vector<Term> name_terms(const Counts& parts, const std::vector<Term>& others, double correction) {
  std::vector<Term> out;
  const auto add = [&](const std::string& name, double seconds) {
    if (seconds <= 0) return;
    auto known = std::find_if(out.begin(), out.end(), [&](const Term& t) { return t.name == name; });
    if (known == out.end()) known = out.insert(known, Term{name});
    known->seconds += seconds * correction;
  };
  for (size_t i = 0; i < kCoefs; ++i) add(info_of(i).term, parts[i]);
  for (const Term& t : others) add(t.name, t.seconds);
  // Drops rounding errors of differences of sums
  double all = 0;
  for (const Term& t : out) all += t.seconds;
  std::erase_if(out, [&](const Term& t) { return t.seconds < 1e-12 * all; });
  std::stable_sort(out.begin(), out.end(),
                   [](const Term& a, const Term& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace isobar::perf
