// {flags} of run.command: the options of run.engine for a run's net, batch, layout and policy, as isobar emit
// writes them.
//
//   flags_of(spec).words     // "--num-layers 32 --hidden-size 4096 …", for a shell
#pragma once
#include <string>

#include "model/base/spec/spec.h"

namespace isobar::guest {

struct Flags {
  std::string words;
  std::string file, text;  // a file that they name, and what it holds; "": none
};

/// Empty where run.command has no {flags}. Throws ConfigError if it has, and run.engine is no engine.
Flags flags_of(const RunSpec& spec);
/// True if the options are others where this key has another value.
bool reaches_flags(const std::string& key, const RunSpec& spec);

}  // namespace isobar::guest
