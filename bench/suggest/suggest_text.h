// Suggested trials and rehearsals, in text and JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "bench/suggest/sweep_field.h"
#include "perfmodel/referee/rehearse.h"

namespace isobar {

/// The best so far, and a line for each suggested trial.
std::string text_of(const SweepField& field, const Outlook& outlook);
nlohmann::json json_of(const SweepField& field, const Outlook& outlook);

/// Trials until the choice was good enough, by suggestions and by random order.
std::string text_of(const Rehearsal& rehearsal, const RehearsalOptions& options);
nlohmann::json json_of(const Rehearsal& rehearsal, const RehearsalOptions& options);

}  // namespace isobar
