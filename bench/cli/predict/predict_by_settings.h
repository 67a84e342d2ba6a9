// isobar predict of a run whose net is not described (run.by_settings): by a fit to runs of other settings.
#pragma once
#include <CLI/CLI.hpp>

#include "bench/cli/predict/ask.h"

namespace isobar::cli {

/// True if it has printed the answer. Throws ConfigError where a run without a net has no such fit.
bool predicted_by_settings(const CLI::App& command, const AskArguments& a);

}  // namespace isobar::cli
