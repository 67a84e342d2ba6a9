// isobar sweep --suggest, --until and --rehearse: which trials of a sweep to run next, given the results so
// far (bench/suggest).
#pragma once
#include <CLI/CLI.hpp>
#include <csignal>
#include <string>

#include "bench/suggest/suggest_rounds.h"

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

struct SuggestContext {
  std::string results, machine;
  bool json = false;
  int64_t ranks_per_node = 0;                        // 0: all ranks of a trial share a host
  const volatile std::sig_atomic_t* stop = nullptr;  // not 0: stop after this round
};

/// Prints; returns the exit code.
int suggest_trials(const SuggestArguments& a, const sweep::Matrix& matrix, const SuggestContext& context,
                   const suggest::RunPart& run);

}  // namespace isobar::cli
