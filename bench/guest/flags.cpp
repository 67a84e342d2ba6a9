#include "bench/guest/flags.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "bench/sweep/command_words.h"
#include "bench/sweep/spec.h"
#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/spec/spec_keys.h"
#include "model/base/system/shell_quoted.h"
#include "perfmodel/ask/choose/emit.h"

namespace isobar::guest {
namespace {

using nlohmann::json;

std::vector<std::string> flag_engines() {
  std::vector<std::string> engines = perf::emit_targets();
  std::erase(engines, "isobar");
  return engines;
}

std::string on_one_line(std::string text) {
  const std::string between = " \\\n";
  for (size_t at = 0; (at = text.find(between, at)) != std::string::npos;)
    text.replace(at, between.size(), " ");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void require_engine(const RunSpec& spec) {
  const std::vector<std::string> engines = flag_engines();
  if (std::find(engines.begin(), engines.end(), spec.run.engine) == engines.end()) {
    std::string known;
    for (const std::string& e : engines) known += (known.empty() ? "one of " : ", ") + e;
    throw ConfigError(spec.file, "run.engine",
                      spec.run.engine.empty() ? "is missing: {flags} of run.command are an engine's options"
                                              : "is '" + spec.run.engine + "', whose options are not known",
                      did_you_mean(spec.run.engine, engines, known));
  }
  if (spec.run.by_settings)
    throw ConfigError(spec.file, "net", "is missing, and {flags} are of a net and its layout",
                      "describe it under `net:`, or write the options into run.command");
}

/// Values that a key may have besides its own.
std::vector<json> other_values(const std::string& key, const json& own) {
  if (own.is_boolean()) return {!own.get<bool>()};
  if (own.is_number()) return {own.get<double>() == 1 ? 2 : 1, 2 * own.get<int64_t>() + 2, 0};
  std::vector<json> out;
  for (const SpecKey& k : spec_keys()) {
    if (k.key != key) continue;
    std::istringstream names(k.values);
    for (std::string name; names >> name;)
      if (name != "|" && json(name) != own) out.emplace_back(name);
  }
  return out;
}

/// The options, or why there are none.
std::string said_of(const RunSpec& spec) {
  try {
    return perf::emitted(spec, spec.run.engine);
  } catch (const ConfigError& e) {
    return e.what();
  }
}

}  // namespace

Flags flags_of(const RunSpec& spec) {
  if (!sweep::words_of_command(spec).contains("flags")) {
    if (spec.run.engine.empty()) return {};
    throw ConfigError(spec.file, "run.engine", "gives options, and run.command has no {flags} for them",
                      "add {flags} to run.command, or leave it out");
  }
  require_engine(spec);
  const std::string text = perf::emitted(spec, spec.run.engine);
  if (spec.run.engine != "deepspeed") return {.words = on_one_line(text)};
  const std::string file = spec.run.out + "/deepspeed.json";
  return {.words = "--deepspeed_config " + shell_quoted(file), .file = file, .text = text};
}

bool reaches_flags(const std::string& key, const RunSpec& spec) {
  const std::string own = said_of(spec);
  json j = to_json(spec);
  const json value = j.value(
      json::json_pointer("/" + key.substr(0, key.find('.')) + "/" + key.substr(key.find('.') + 1)), json());
  for (const json& other : other_values(key, value)) {
    sweep::assign(j, key, other);
    try {
      if (said_of(run_spec_from_json(j, spec.file)) != own) return true;
    } catch (const ConfigError&) {
      continue;  // no value of this key
    }
  }
  return false;
}

}  // namespace isobar::guest
