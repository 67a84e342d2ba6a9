// A training by somebody else's program (run.command), as a run of ours: started without MPI of our own,
// supervised, its output kept and read as it comes (guest_output.h), its end classified. What reads runs
// (sweeps, reports, fits, watch) sees result.jsonl and knows no difference.
//
//   RUN/result.jsonl  spec.json  output.txt  errors.txt     what the program printed on each stream
//
//   const EndRecord end = run_guest(spec, {.stop = &stop_flag()});      // end.ok(), *end.failure
#pragma once
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "model/base/spec.h"
#include "model/records/records.h"
#include "model/records/run_class.h"

namespace isobar {

struct GuestOptions {
  nlohmann::json about = nullptr;                      // name, tags and note of the run
  std::function<void(const std::string&)> print = {};  // the program's lines, as they come; none: not shown
  const volatile std::sig_atomic_t* stop = nullptr;    // the signal that asks for the end; 0: none yet
  int64_t most_output = int64_t{1} << 30;              // bytes; a program that prints more is ended
};

/// Runs the command to its end. Throws ConfigError before it starts; what happens later is in the record.
EndRecord run_guest(const RunSpec& spec, const GuestOptions& options);

}  // namespace isobar
