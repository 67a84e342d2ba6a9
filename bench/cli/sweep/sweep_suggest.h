// isobar sweep --suggest, --until and --rehearse: which trials of a sweep to run next, given the results so
// far (bench/suggest).
#pragma once
#include <CLI/CLI.hpp>
#include <csignal>
#include <string>

#include "bench/suggest/sweep_field.h"

namespace isobar::cli {

struct SuggestArguments {
  int64_t count = 0;  // --suggest; 0: not given
  bool run = false;
  std::string until;
  int64_t max_trials = 0;
  int64_t rehearse = 0;  // seeds
  Statistic statistic = kStatistic;
  uint64_t seed = 0;
  bool asked() const { return count > 0 || !until.empty() || rehearse > 0; }
};
void add_suggest_options(CLI::App& sweep, SuggestArguments& a);

/// Prints; returns the exit code. `of`: results, machine and ranks of a node; `stop`: not 0: stop after this
/// round.
int suggest_trials(const SuggestArguments& a, const sweep::Matrix& matrix, suggest::FieldOptions of,
                   bool as_json, const volatile std::sig_atomic_t* stop, const suggest::RunPart& run);

}  // namespace isobar::cli
