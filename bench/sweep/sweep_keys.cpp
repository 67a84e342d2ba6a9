#include "bench/sweep/sweep_keys.h"

#include <functional>

#include "bench/sweep/compose.h"
#include "bench/sweep/spec.h"
#include "model/base/spec/spec_schema.h"

namespace isobar::sweep {
namespace {

using nlohmann::json;

struct SweepKey {
  // text, whole, number, order; settings: a map of a run's keys; axes: of lists of them, or any; map: any
  // values
  enum class Form { text, whole, number, order, settings, axes, bounds };
  const char* name;
  Form form;
  bool list = false;  // a list of them
  const char* help;
};

// A run's keys in every spelling: dotted, short, below their section
json run_keys(const std::function<json(const json&)>& form) {
  const json run = run_schema()["properties"];
  json out = json::object();
  for (const auto& [section, keys] : run.items()) {
    if (section == "inherits") continue;
    json nested = json::object();
    for (const auto& [name, schema] : keys["properties"].items())
      nested[name] = out[section + "." + name] = form(schema);
    out[section] = object_schema(std::move(nested));
  }
  for (const std::string& name : short_names()) {
    const std::string full = full_key(name);
    const json ranks = {{"type", "integer"}, {"minimum", 1}, {"description", "World size: dp follows."}};
    out[name] = full == kRanksKey ? form(ranks) : out[full];
  }
  return object_schema(std::move(out));
}

json of_form(SweepKey::Form form) {
  switch (form) {
    case SweepKey::Form::text:
      return {{"type", "string"}};
    case SweepKey::Form::whole:
      return {{"type", "integer"}, {"minimum", 0}};
    case SweepKey::Form::number:
      return {{"type", "number"}, {"minimum", 0}};
    case SweepKey::Form::order:
      return {{"enum", {"random", "listed"}}};
    case SweepKey::Form::settings:
      return {{"$ref", "#/definitions/settings"}};
    case SweepKey::Form::axes:
      return {{"$ref", "#/definitions/axes"}};
    case SweepKey::Form::bounds:
      return {{"type", {"object", "string"}}};
  }
  return json::object();
}

const std::vector<SweepKey>& sweep_key_rows() {
  using enum SweepKey::Form;
  static const std::vector<SweepKey> rows = {
      {"base", text, false, "Run configuration that the trials start from, relative to this file."},
      {"set", settings, false, "Keys of a run that are fixed for all trials."},
      {"axes", axes, false, "Keys with lists of values: every combination is a trial."},
      {"include", settings, true, "Further combinations."},
      {"exclude", bounds, true, "Combinations left out: maps with values or bounds, or expressions."},
      {"constraints", bounds, false, "min_ranks and max_ranks."},
      {"repetitions", whole, false, "Runs of each trial, interleaved."},
      {"steps", whole, false, "Optimizer steps of a trial (train.steps)."},
      {"warmup", whole, false, "First steps of a trial left out of the statistics."},
      {"order", order, false, "Order of the trials."},
      {"seed", whole, false, "Seed of the random order."},
      {"timeout_s", number, false, "Seconds that a trial may take."},
      {"hang_s", number, false, "Seconds without progress that end a trial."},
      {"memory_limit_mb", whole, false, "Resident memory of a trial, MB."},
      {"grace_s", number, false, "Seconds from SIGTERM to SIGKILL."},
      {"noise_limit", number, false, "Scatter of steps, (p90 - p10) / median, above which a trial is noisy."},
      {"machine", text, false, "Machine file, or a shipped one's name, for forecasts."},
      {"probe_infeasible", number, false, "Share of the trials predicted not to fit that run anyway."},
      {"weak_scaling", whole, true, "World sizes with the batch in proportion."},
      {"strong_scaling", whole, true, "World sizes with the same batch."},
      {"baselines", settings, true, "Combinations that all others are compared with."},
      {"repeat_contended", whole, false, "Repeats of a contended trial."},
      {"zip", axes, true, "Keys that vary together: maps of lists of equal lengths."},
      {"when", bounds, true, "Axes of the combinations that meet a condition: if, axes."}};
  return rows;
}

}  // namespace

const std::vector<std::string>& sweep_keys() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const SweepKey& k : sweep_key_rows()) out.emplace_back(k.name);
    return out;
  }();
  return names;
}

json sweep_schema() {
  json properties = json::object();
  for (const SweepKey& k : sweep_key_rows()) {
    const json one = of_form(k.form);
    json& to = properties[k.name];
    if (k.list)
      to["anyOf"] = {{{"type", "array"}, {"items", one}}, one};
    else
      to["allOf"] = json::array({one});
    to["description"] = k.help;
  }
  json schema = object_schema(std::move(properties));
  schema["required"] = {"base"};
  schema["definitions"]["settings"] = run_keys([](const json& key) { return key; });
  schema["definitions"]["axes"] = run_keys([](const json& key) {
    json either = {{"anyOf", {{{"type", "array"}, {"items", key}}, {{"const", "any"}}, key}}};
    if (key.contains("description")) either["description"] = key["description"];
    return either;
  });
  return schema_file("A sweep of isobar", std::move(schema));
}

}  // namespace isobar::sweep
