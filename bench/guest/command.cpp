#include "bench/guest/command.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "bench/sweep/command_words.h"
#include "bench/sweep/spec.h"
#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/spec/spec_keys.h"
#include "model/base/system/shell_quoted.h"
#include "model/base/text/joined.h"
#include "perfmodel/ask/choose/emit.h"

namespace isobar::guest {
namespace {

constexpr const char* kKey = "run.command";
using Values = std::map<std::string, std::string>;

void collect(const nlohmann::json& j, const std::string& path, Values& to) {
  if (j.is_object()) {
    for (const auto& [key, value] : j.items()) collect(value, path.empty() ? key : path + "." + key, to);
  } else {
    to[path] = shell_quoted(j.is_string() ? j.get<std::string>() : j.dump());
  }
}

Values values_of(const RunSpec& spec, const GuestHosts& hosts) {
  Values all;
  collect(to_json(spec), "", all);
  all.erase(kKey);
  const int64_t ranks = spec.layout.world();
  std::string names;
  for (const std::string& n : hosts.names) names += (names.empty() ? "" : ",") + n;
  all["ranks"] = std::to_string(ranks);
  all["ranks_on_host"] = std::to_string(hosts.ranks_here(ranks));
  all["nodes"] = std::to_string(hosts.count());
  all["node_rank"] = std::to_string(hosts.rank);
  all["nodelist"] = shell_quoted(names);
  all["master_addr"] = shell_quoted(hosts.names[0]);
  all["master_port"] = std::to_string(hosts.port);
  all["threads"] = std::to_string(spec.run.threads);
  all["out"] = shell_quoted(spec.run.out);
  return all;
}

std::string filled(const RunSpec& spec, const char* text_key, const std::string& text, const Values& values) {
  return sweep::with_words(spec, text_key, text, [&](const std::string& word) {
    const auto at = values.find(word);
    if (at != values.end()) return at->second;
    std::vector<std::string> all;
    for (const auto& [key, value] : values) all.push_back(key);
    throw ConfigError(spec.file, text_key, "has the word {" + word + "}, which is no key",
                      did_you_mean(word, all, "isobar config keys lists them; {{ is a brace"));
  });
}

}  // namespace

std::string guest_command(const RunSpec& spec, const GuestHosts& hosts, const std::string& checkpoint) {
  Values values = values_of(spec, hosts);
  const std::set<std::string> words = sweep::words_of_command(spec);
  if (!spec.run.resume.empty() && !words.contains("resume"))
    throw ConfigError(spec.file, "run.resume", "takes a run up, and run.command has no {resume} for it",
                      "add {resume} to run.command");
  const char* both = "e.g. run.resume: \"--resume {checkpoint}\" and run.checkpoint: \"ckpt/step-*.pt\"";
  if (spec.run.resume.empty() && words.contains("resume"))
    throw ConfigError(spec.file, "run.resume", "is missing, which {resume} of run.command stands for", both);
  if (spec.run.resume.empty() != spec.run.checkpoint.empty())
    throw ConfigError(spec.file, spec.run.resume.empty() ? "run.resume" : "run.checkpoint",
                      "is missing: a run is taken up by words of run.resume, from what run.checkpoint finds",
                      both);
  values["flags"] = flags_of(spec).words;
  Values more = values;
  more["checkpoint"] = shell_quoted(checkpoint);
  values["resume"] = checkpoint.empty() ? "" : filled(spec, "run.resume", spec.run.resume, more);
  return filled(spec, kKey, spec.run.command, values);
}

bool reaches_command(const std::string& key, const RunSpec& spec) {
  const std::set<std::string> words = sweep::words_of_command(spec);
  if (words.contains(key)) return true;
  const bool starts_ranks = words.contains("ranks") || words.contains("ranks_on_host");
  const bool of_ranks = key == "layout.dp" || key == sweep::kRanksKey;  // which are data-parallel
  if (key == sweep::kRanksKey && words.contains("layout.dp")) return true;
  // The samples of a step of programs that are given those of a rank
  if (key == kBatchKey && words.contains("policy.micro_batch") && (starts_ranks || spec.layout.dp == 1) &&
      spec.train.global_batch == spec.policy.micro_batch * spec.layout.dp)
    return true;
  // Read by the harness itself
  const std::set<std::string> own = {"run.out",    "run.command",    "run.reads",      "run.hang_timeout",
                                     "run.engine", "run.checkpoint", "run.by_settings"};
  if (own.contains(key) || (of_ranks && starts_ranks) ||
      (key == "run.threads" && words.contains("threads")) ||
      (key == "run.resume" && words.contains("resume")))
    return true;
  return words.contains("flags") && reaches_flags(key, spec);
}

void require_word_for(const std::string& key, const RunSpec& spec, const std::string& where) {
  if (reaches_command(key, spec)) return;
  throw ConfigError(where, key, "reaches no word of run.command, so the program would not notice it",
                    "add {" + key + "} to run.command, or leave the key out");
}

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
  if (std::find(engines.begin(), engines.end(), spec.run.engine) == engines.end())
    throw ConfigError(spec.file, "run.engine",
                      spec.run.engine.empty() ? "is missing: {flags} of run.command are an engine's options"
                                              : "is '" + spec.run.engine + "', whose options are not known",
                      did_you_mean(spec.run.engine, engines, "one of " + joined(engines)));
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
