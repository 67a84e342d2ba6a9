// Objects of JSON as lines: {"step": 4, "train/loss": 7.5, "step_time": 0.25}, and MLPerf's events.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "bench/logs/forms/forms.h"

namespace isobar::logs {

/// Quantities of an object's keys (quantity_of_key), also below other keys, if one of them is a step.
std::optional<Quantities> json_line(std::string_view line);

struct MlperfEvent {
  std::string key;
  double seconds = 0;  // since 1970
  nlohmann::json value, metadata;
};
/// The event of a line ":::MLLOG {…}".
std::optional<MlperfEvent> mlperf_event(std::string_view line);
/// Samples (or tokens, or epochs) in an event's metadata when a block begins or, `stop`, ends.
std::optional<double> mlperf_count(const MlperfEvent& event, bool stop);
/// A number of an object, none: it has none of this key.
std::optional<double> number_in(const nlohmann::json& j, const char* key);
/// Steps in events: blocks with counts, and tracked_stats. `tokens`: of a sample; 0: not a net of tokens
LineReader mlperf_lines(double batch, double tokens);

}  // namespace isobar::logs
