// A row of a table of runs (published_run.h has the columns) as a run, or the reason why it is refused.
//
//   try { PublishedRun r = run_from(row, "mine", false); } catch (const Refused& why) { why.what(); }
#pragma once
#include <stdexcept>
#include <string>

#include "perfmodel/score/published/published_run.h"

namespace isobar::perf {

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
  /// `numbers`: the row's own, where rows are refused for one reason with different ones.
  Refused(const std::string& why, const std::string& numbers)
      : std::runtime_error(why + " (" + numbers + ")"), reason(why) {}
  std::string reason;  // "": all of what()
};

/// The row's accelerator is none of configs/machines.
struct UnknownChip : Refused {
  explicit UnknownChip(const std::string& gpu_type) : Refused(unknown_chip(gpu_type)), name(gpu_type) {}
  std::string name;
};

PublishedRun run_from(const CsvRow& row, const std::string& table, const Surroundings* own = nullptr);

}  // namespace isobar::perf
