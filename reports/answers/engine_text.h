// Answers for other engines in text and JSON (perfmodel/ask/choose/answers.h).
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "perfmodel/ask/choose/answers.h"

namespace isobar {

/// `chosen`: the micro-batch was not given.
std::string text_of(const EngineRunAnswer& a, const EngineOn& engine, const Machine& machine, bool chosen);
nlohmann::json json_of(const EngineRunAnswer& a, const EngineOn& engine, const Machine& machine);

std::string text_of(const EngineSearchAnswer& a, const EngineOn& engine, const Machine& machine, int64_t gpus,
                    const LayoutQuestion& q);
nlohmann::json json_of(const EngineSearchAnswer& a, const EngineOn& engine, const Machine& machine,
                       int64_t gpus, const LayoutQuestion& q);

}  // namespace isobar
