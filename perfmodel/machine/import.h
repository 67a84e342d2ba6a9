// Imports files of other performance models, so that their users can compare quickly.
//
//   Machine m = import_machine(load_json("systems/a100_80g.json"), "systems/a100_80g.json");   // Calculon
//   nlohmann::json run = import_model(load_json("models/megatron-1T.json"), "...");   // {net: {...}}
//
// Supported: Calculon's system, application and execution; transformer-perf-estimates' system (config-*.json)
// and model ({l, e, h, depth}); config.json of Hugging Face's transformers. The former two's efficiencies
// become coefficients with their name as provenance; anything else keeps this program's default. Those have
// no vocabulary: it becomes the smallest.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "perfmodel/machine/machine.h"

namespace isobar::perf {

/// A machine, else a model. Throws ConfigError for any other file.
bool is_machine(const nlohmann::json& j, const std::string& file);

Machine import_machine(const nlohmann::json& j, const std::string& file);
/// Sections of a run configuration: net, or layout, policy and train.
nlohmann::json import_model(const nlohmann::json& j, const std::string& file);

}  // namespace isobar::perf
