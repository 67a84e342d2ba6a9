// A training by somebody else's program (run.command), as a run of ours: started without MPI of our own,
// supervised, its output kept and read as it comes, its end classified. What reads runs
// (sweeps, reports, fits, watch) sees result.jsonl and knows no difference.
//
//   RUN/result.jsonl  spec.json  output.txt  errors.txt     what the program printed on each stream
//
//   const EndRecord end = run_guest(spec, hosts, {.stop = &stop_flag()});      // end.ok(), *end.failure
//
// A command that is started on every node is so by one process of ours on each: the first writes the records,
// the others (other_host.h) keep what theirs printed in output-1.txt, errors-1.txt … and tell the first
// of a failure.
#pragma once
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bench/guest/hosts.h"
#include "bench/sweep/run/classify.h"
#include "model/base/spec/spec.h"
#include "model/records/advice.h"
#include "model/records/records.h"
#include "model/records/run_class.h"

namespace isobar::guest {

struct GuestOptions {
  nlohmann::json about = nullptr;                      // name, tags and note of the run
  std::function<void(const std::string&)> print = {};  // the program's lines, as they come; none: not shown
  const volatile std::sig_atomic_t* stop = nullptr;    // the signal that asks for the end; 0: none yet
  int64_t most_output = int64_t{1} << 30;              // bytes; a program that prints more is ended
  bool resume = false;                                 // takes up what run.out holds
  std::optional<records::ExpectedStep> expected = {};  // what advice compares with
};

/// The verdict on a command that did not end well. `out`, `err`: the ends of what it printed; `last_step`:
/// -1: it made none.
sweep::Verdict verdict_of_guest(const sweep::ProcessOutcome& outcome, const std::string& out,
                                const std::string& err, int64_t last_step);

/// Runs the command to its end. Throws ConfigError before it starts; what happens later is in the record.
records::EndRecord run_guest(const RunSpec& spec, const GuestHosts& hosts, const GuestOptions& options);

}  // namespace isobar::guest
