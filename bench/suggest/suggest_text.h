// Suggested trials and rehearsals, in text and JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "bench/suggest/sweep_field.h"
#include "perfmodel/referee/rehearse.h"

namespace isobar::suggest {

/// The best so far, and a line for each suggested trial.
std::string text_of(const SweepField& field, const perf::Outlook& outlook);
nlohmann::json json_of(const SweepField& field, const perf::Outlook& outlook);

/// Trials until the choice was good enough, by suggestions and by random order.
std::string text_of(const perf::Rehearsal& rehearsal, const perf::RehearsalOptions& options);
nlohmann::json json_of(const perf::Rehearsal& rehearsal, const perf::RehearsalOptions& options);

}  // namespace isobar::suggest
