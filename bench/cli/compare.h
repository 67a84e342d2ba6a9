// Machines side by side, or what-ifs of one beside what it is: a row each, the first is what the others are
// compared with.
//
//   std::fputs(to_text(compared(rows)).c_str(), stdout);       // rounded to the intervals
//   to_csv(compared_numbers(rows)); to_json(compared_numbers(rows));
#pragma once
#include <string>
#include <vector>

#include "bench/cli/choice.h"
#include "reports/tables.h"

namespace isobar {

struct ComparedRow {
  std::string name;  // of the machine
  LayoutChoice choice;
};

/// Chance that a is the smaller one, where the two err independently: their logarithms are normal.
double chance_less(const Known& a, const Known& b);

/// For people.
Table compared(const std::vector<ComparedRow>& rows);
/// For programs: ends of intervals in columns of their own, all digits.
Table compared_numbers(const std::vector<ComparedRow>& rows);

/// Of one machine with changes (--whatif): as it is, with each of them alone and with all together.
std::vector<Machine> with_changes(const Machine& machine, const std::vector<std::string>& changes);

}  // namespace isobar
