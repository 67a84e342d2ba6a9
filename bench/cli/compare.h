// Machines side by side, or what-ifs of one machine: a row each, compared with the first row.
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
  std::optional<Training> training = std::nullopt;  // only where its length was given
};

/// Chance that a is smaller, for independent errors and normal logarithms.
double chance_less(const Interval& a, const Interval& b);

/// For people.
Table compared(const std::vector<ComparedRow>& rows);
/// For programs: ends of intervals in separate columns, all digits.
Table compared_numbers(const std::vector<ComparedRow>& rows);

/// A machine, and the factor by which the training on it is longer than the one asked for.
struct Variant {
  Machine machine;
  double longer = 1;
};
/// Variants of one machine (--whatif): unchanged, with each change alone, and with all together. Throws
/// ConfigError for a change of the training where `q` gives no length of it.
std::vector<Variant> with_changes(const Machine& machine, const std::vector<std::string>& changes,
                                  const LayoutQuestion& q);

}  // namespace isobar
