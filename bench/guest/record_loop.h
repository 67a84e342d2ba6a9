// The records of a training loop that reports its steps itself: a JSON object a line, in the form of
// result.jsonl (model/records/README.md).
//
//   {"event": "step", "step": 1, "seconds": 0.12, "samples": 8, "loss": 0.7}      or "tokens"
//   {"event": "valid", "step": 100, "loss": 0.6, "seconds": 2.1}
//   {"event": "checkpoint", "step": 100, "path": "step-100.pt", "seconds": 0.4}
//   {"event": "run_end", "status": "ok"}          or "failed" with "message", and "class"
//
// The first answer is run_start. Every line is answered by its record once the kernel has it, so that a loop
// that waits for the answer loses no step, however it ends. Steps may lack seconds (the time since the line
// before counts) and samples (train.global_batch); a failure without a class has that of its message. An end
// of the lines without run_end is recorded as a crash.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "model/base/spec/spec.h"
#include "model/records/records.h"

namespace isobar::guest {

/// Reads the lines of a descriptor to their end. Throws ConfigError before the first is read, and for one
/// that is no such record, which then ends the run. `about`: name, tags and note of the run; `answer` gets
/// the record of each line.
records::EndRecord record_loop(const RunSpec& spec, int descriptor, const nlohmann::json& about,
                               const std::function<void(const std::string&)>& answer);

}  // namespace isobar::guest
