// Machines side by side, or what-ifs of one beside what it is: a row each, the first is what the others are
// compared with.
//
//   std::fputs(to_text(compared(rows)).c_str(), stdout);       // rounded to the intervals
//   to_csv(compared_numbers(rows)); to_json(compared_numbers(rows));
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "bench/cli/choice.h"
#include "bench/cli/schedule.h"
#include "reports/tables.h"

namespace isobar {

struct ComparedRow {
  std::string name;  // of the machine
  LayoutChoice choice;
  std::optional<Training> training = std::nullopt;  // where its length was said
};

/// Chance that a is the smaller one, where the two err independently: their logarithms are normal.
double chance_less(const Known& a, const Known& b);

/// For people.
Table compared(const std::vector<ComparedRow>& rows);
/// For programs: ends of intervals in columns of their own, all digits.
Table compared_numbers(const std::vector<ComparedRow>& rows);

/// A machine, and by how much the training on it is longer than the one that was asked for.
struct Variant {
  Machine machine;
  double longer = 1;
};
/// Of one machine with changes (--whatif): as it is, with each of them alone and with all together. Throws
/// ConfigError for a training's, where `q` says nothing of its length.
std::vector<Variant> with_changes(const Machine& machine, const std::vector<std::string>& changes,
                                  const LayoutQuestion& q);

}  // namespace isobar
