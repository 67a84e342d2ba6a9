// Questions about runs and layouts, as the command line gives them, and their printed answers.
//
//   const Asked q = asked(arguments);
//   print_search(q);                            // or print_run, print_comparison, print_schedule,
//   print_emitted
//
// A question without an answer is reported beside the others, and decides the exit code at the end. A run
// that does not fit ends with exit code 4.
#pragma once
#include <CLI/CLI.hpp>
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

// Options that predict, search, compare, budget and emit share, in the groups that their help shows.

/// The run, the machine, and the engine that is predicted. `several`: --machine may be repeated.
void add_run_options(CLI::App& command, AskArguments& a, bool several = false);
/// --gpus and what narrows a search; `required`: a search is all that the command does.
void add_search_options(CLI::App& command, AskArguments& a, bool required);
/// --tokens and --samples: a training's length.
void add_training_options(CLI::App& command, AskArguments& a);
/// --ranks and --ranks-on-host, of the configuration's own layout.
void add_rank_options(CLI::App& command, AskArguments& a);
void add_what_if_option(CLI::App& command, AskArguments& a);
/// --deadline and --budget.
void add_limit_options(CLI::App& command, AskArguments& a);
/// --json, and -o where the command writes a page.
void add_output_options(CLI::App& command, AskArguments& a, bool page);

/// Takes --machine and --global-batch over. Throws ConfigError for options that contradict each other in any
/// of these commands.
void take_options(const CLI::App& command, AskArguments& a);

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
