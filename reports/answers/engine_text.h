// Answers for other engines in text and JSON (perfmodel/ask/choose/answers.h).
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "perfmodel/ask/choose/answers.h"

namespace isobar::report {

/// `chosen`: the micro-batch was not given.
std::string text_of(const perf::EngineRunAnswer& a, const perf::EngineOn& engine,
                    const perf::Machine& machine, bool chosen);
nlohmann::json json_of(const perf::EngineRunAnswer& a, const perf::EngineOn& engine,
                       const perf::Machine& machine);

std::string text_of(const perf::EngineSearchAnswer& a, const perf::EngineOn& engine,
                    const perf::Machine& machine, int64_t gpus, const perf::LayoutQuestion& q);
nlohmann::json json_of(const perf::EngineSearchAnswer& a, const perf::EngineOn& engine,
                       const perf::Machine& machine, int64_t gpus, const perf::LayoutQuestion& q);

}  // namespace isobar::report
