// Questions about runs and layouts, as the command line gives them, and their printed answers.
//
//   const Asked q = asked(arguments);
//   print_search(q);                            // or print_run, print_comparison, print_schedule,
//   print_emitted
//
// A question without an answer is reported beside the others, and decides the exit code at the end. A run
// that does not fit ends with exit code 4.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "perfmodel/ask/choose/compare.h"

namespace isobar::cli {

struct AskArguments {
  std::string command;  // "search": for errors
  std::string config, machine, emit, out;
  std::vector<std::string> machines, set;
  int64_t ranks = 0, ranks_on_host = 0;
  std::string global_batch;
  std::vector<std::string> what_if, fix, exclude;
  perf::LayoutQuestion question;
  perf::EngineQuestion engine;
  bool rates = false, json = false;
  bool names_engine = false;
  bool searches() const { return !question.gpus.empty() || plans(); }
  bool plans() const { return question.deadline_s > 0 || question.budget > 0; }
};

/// A question whose files are read.
struct Asked {
  std::string command;
  RunSpec spec;
  std::vector<perf::Machine> machines;
  std::vector<perf::Variant> changed;  // the first machine, and with what-ifs
  perf::LayoutQuestion question;       // with the constraints of the search
  perf::EngineQuestion engine;
  perf::PredictOptions options;
  std::string emit, out;
  bool rates = false, json = false;
  const perf::Machine& machine() const { return changed.back().machine; }
};
/// Throws ConfigError.
Asked asked(const AskArguments& a);

/// The question with all of the what-ifs.
Asked with_all_changes(Asked q);

/// The configuration's own layout.
void print_run(const Asked& q);
/// The best layouts on each number of accelerators, and a page in `out`.
void print_search(const Asked& q);
/// The machines, or the what-ifs of one, side by side, and a page in `out`.
void print_comparison(const Asked& q);
/// One of the first two with all of the what-ifs; below it, but not as JSON, the comparison.
void print_with_changes(const Asked& q, void (*print)(const Asked&));
/// The fewest accelerators that meet a deadline or a budget.
void print_schedule(const Asked& q);
/// The layout, or the best one, for other software.
void print_emitted(const Asked& q);

}  // namespace isobar::cli
