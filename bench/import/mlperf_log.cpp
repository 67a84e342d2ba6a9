// What MLPerf's loggers print: one event a line, ":::MLLOG {…}". Between block_start and block_stop nothing
// but training happens, and both count samples. Nothing is said of net and layout.
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/import/log_text.h"
#include "bench/import/training_log.h"
#include "model/base/error.h"
#include "model/base/json.h"

namespace isobar {
namespace {

using nlohmann::json;

std::optional<double> number_in(const json& j, const char* key) {
  const auto at = j.is_object() ? j.find(key) : j.end();
  if (!j.is_object() || at == j.end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

struct LoggedEvent {
  std::string key;
  double seconds = 0;
  std::optional<double> value, samples;
};

std::optional<LoggedEvent> event_in(const std::string& line) {
  const auto text = text_after(line, ":::MLLOG");
  if (!text) return std::nullopt;
  const json j = parse_json(*text);
  if (!j.is_object() || !j.contains("key") || !j["key"].is_string()) return std::nullopt;
  LoggedEvent e{
      j["key"].get<std::string>(), 1e-3 * number_in(j, "time_ms").value_or(0), number_in(j, "value"), {}};
  if (j.contains("metadata")) e.samples = number_in(j["metadata"], "samples_count");
  return e;
}

}  // namespace

void read_mlperf_log(const std::string& text, LoggedRun& r) {
  std::optional<LoggedEvent> begin;
  std::vector<std::pair<double, double>> blocks;  // seconds, samples
  bool uncounted = false;
  double batch = 0;
  for (const std::string& line : log_lines(text)) {
    const std::optional<LoggedEvent> e = event_in(line);
    if (!e) continue;
    if (e->key == "global_batch_size" && e->value) batch = *e->value;
    if (e->key == "max_sequence_length" && e->value) r.set("seq_len", *e->value);
    if (e->key == "block_start") begin = e;
    if (e->key != "block_stop" || !begin) continue;
    uncounted = uncounted || !e->samples || !begin->samples;
    if (e->samples && begin->samples && *e->samples > *begin->samples && e->seconds > begin->seconds)
      blocks.emplace_back(e->seconds - begin->seconds, *e->samples - *begin->samples);
    begin.reset();
  }
  if (!(batch > 0))
    throw ConfigError(r.file, "global_batch_size", "is in no event", "give the whole log of the run");
  r.set("global_batch", batch);
  if (blocks.empty() && uncounted)
    throw ConfigError(r.file, "block_start", "has no metadata.samples_count",
                      "write a row of configs/published by hand: this logger does not count samples");
  for (const auto& [seconds, samples] : blocks) r.steps.push_back(seconds * batch / samples);
}

}  // namespace isobar
