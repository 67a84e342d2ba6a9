// Shows how run.reads would read a file that a training has written: which readers know it, the first steps,
// what looks like a step and was not read, and the warm-up.
//
//   std::fputs(tried_log("slurm-12.out", {.reads = "auto", .batch = 32}).c_str(), stdout);
#pragma once
#include <string>

#include "bench/logs/output_reader.h"

namespace isobar::logs {

/// `file`: text, also gzipped; a table (.csv); an event file of TensorBoard, or a folder of such. Throws
/// ConfigError if nothing in it is recognised.
std::string tried_log(const std::string& file, OutputOptions options);

}  // namespace isobar::logs
