// isobar predict --engine: one layout, or the best of a search, as other engines would run it.
#pragma once
#include <optional>
#include <string>

#include "bench/cli/predict_layouts.h"

namespace isobar {

struct EngineQuestion {
  std::string engine;           // a file of configs/engines, or unknown
  std::optional<double> tuned;  // 0 … 1; none: the engine's usual
  std::string fit{};            // of own runs (isobar fit --engine); "": none
};

/// As the fit says: its engine, and how tuned it is. Throws ConfigError where --engine says another.
void take_fit(const Machine& machine, EngineQuestion& engine);

/// Prints the answer. Throws ConfigError for what engine, net or machine cannot take; ends with exit code 4
/// (CLI::RuntimeError) where all of the memory's interval is more than there is.
void answer(const RunSpec& spec, const Machine& machine, const LayoutQuestion& question,
            const EngineQuestion& engine);

}  // namespace isobar
