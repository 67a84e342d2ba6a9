#include "perfmodel/term.h"

#include <algorithm>

namespace isobar {

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
  std::stable_sort(out.begin(), out.end(),
                   [](const Term& a, const Term& b) { return a.seconds > b.seconds; });
  return out;
}

}  // namespace isobar
