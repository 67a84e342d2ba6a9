// isobar predict --engine: one layout, or the best of a search, as other engines would run it.
#pragma once
#include "bench/cli/engine_on.h"

namespace isobar {

/// Prints the answer. Throws ConfigError for what engine, net or machine cannot take; a number of
/// accelerators without an answer is reported beside the others. Ends with exit code 4 (CLI::RuntimeError)
/// where the whole interval of the memory is more than there is.
void answer(const RunSpec& spec, const Machine& machine, const LayoutQuestion& question,
            const EngineQuestion& engine);

}  // namespace isobar
