// Machines side by side, or what-ifs of one machine: a row each, compared with the first row.
//
//   const Compared c = compare(with_changes(machine, {"nvlink_bw*2"}, q), spec, q, engine, options);
//   c.rows[1].choice.step, beats(c.rows[1], c.rows[0]).faster
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/choice.h"
#include "perfmodel/ask/choose/schedule.h"

namespace isobar::perf {

struct ComparedRow {
  std::string name;  // of the machine
  LayoutChoice choice;
  std::optional<Training> training = std::nullopt;  // only where its length was given
  std::optional<Limit> limit = std::nullopt;        // of the best layout; none: of one given
};

/// Chance that a is smaller, for independent errors and normal logarithms.
double chance_less(const Known& a, const Known& b);

/// Chances to beat the first row; NaN for that row itself, and without prices. Rows of one machine and engine
/// share the errors of its prices; others err independently.
struct Beats {
  double faster, cheaper;
};
Beats beats(const ComparedRow& row, const ComparedRow& first);

/// A machine, and the factor by which the training on it is longer than the one asked for.
struct Variant {
  Machine machine;
  double longer = 1;
};
/// Variants of one machine (--what-if): unchanged, with each change alone, and with all together. Throws
/// ConfigError for a change of the training where `q` gives no length of it.
std::vector<Variant> with_changes(const Machine& machine, const std::vector<std::string>& changes,
                                  const LayoutQuestion& q);

struct Compared {
  std::vector<ComparedRow> rows;
  std::vector<NoAnswer> none;
};
/// A row for each machine and each of question.gpus; without them the configuration's layout.
Compared compare(const std::vector<Variant>& machines, const RunSpec& spec, const LayoutQuestion& question,
                 const EngineQuestion& engine, const PredictOptions& options);

}  // namespace isobar::perf
