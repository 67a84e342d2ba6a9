#include "bench/guest/command.h"

#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/base/did_you_mean.h"
#include "model/base/error.h"
#include "model/base/shell_quoted.h"
#include "model/base/validate.h"

namespace isobar {
namespace {

constexpr const char* kKey = "run.command";
const std::array<std::string, 5> kOwnWords = {"ranks", "hosts", "ranks_on_host", "threads", "out"};

/// Calls `text` with what lies outside of braces, and `word` with each word inside.
void parse(const RunSpec& spec, const std::function<void(char)>& text,
           const std::function<void(const std::string&)>& word) {
  const std::string& command = spec.run.command;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if ((c == '{' || c == '}') && command.substr(i + 1, 1) == std::string(1, c)) {
      text(c);
      ++i;
    } else if (c == '{') {
      const size_t end = command.find('}', i);
      if (end == std::string::npos)
        throw ConfigError(spec.file, kKey, "has a { without }: '" + command.substr(i) + "'",
                          "close it, or write {{ for a brace");
      word(command.substr(i + 1, end - i - 1));
      i = end;
    } else {
      text(c);
    }
  }
}

void collect(const nlohmann::json& j, const std::string& path, std::map<std::string, std::string>& to) {
  if (j.is_object()) {
    for (const auto& [key, value] : j.items()) collect(value, path.empty() ? key : path + "." + key, to);
  } else {
    to[path] = j.is_string() ? j.get<std::string>() : j.dump();
  }
}

std::map<std::string, std::string> values_of(const RunSpec& spec, int64_t hosts) {
  std::map<std::string, std::string> all;
  collect(to_json(spec), "", all);
  all.erase(kKey);
  const int64_t ranks = spec.layout.world();
  all["ranks"] = std::to_string(ranks);
  all["hosts"] = std::to_string(hosts);
  all["ranks_on_host"] = std::to_string((ranks + hosts - 1) / hosts);
  all["threads"] = std::to_string(spec.run.threads);
  all["out"] = spec.run.out;
  return all;
}

}  // namespace

int64_t hosts_of_job() {
  for (const char* name : {"SLURM_JOB_NUM_NODES", "PBS_NUM_NODES"})
    if (const char* text = std::getenv(name); text && std::atoll(text) > 0) return std::atoll(text);
  return 1;
}

std::set<std::string> words_of_command(const RunSpec& spec) {
  std::set<std::string> words;
  parse(
      spec, [](char) {}, [&](const std::string& word) { words.insert(word); });
  return words;
}

std::string guest_command(const RunSpec& spec, int64_t hosts) {
  const std::map<std::string, std::string> values = values_of(spec, hosts);
  std::string out;
  parse(
      spec, [&](char c) { out += c; },
      [&](const std::string& word) {
        const auto at = values.find(word);
        if (at == values.end()) {
          std::vector<std::string> all;
          for (const auto& [key, value] : values) all.push_back(key);
          throw ConfigError(spec.file, kKey, "has the word {" + word + "}, which is no key",
                            did_you_mean(word, all, "isobar config keys lists them; {{ is a brace"));
        }
        out += shell_quoted(at->second);
      });
  return out;
}

void refuse_in_jobs(const RunSpec& spec, const std::string& launcher) {
  if (launcher != "local" && !spec.run.command.empty())
    throw ConfigError(spec.file, "run.command",
                      "starts its ranks itself, and jobs of --launcher " + launcher + " start them",
                      "give the whole command in a job of your own, without --launcher");
}

void require_word_for(const std::string& key, const RunSpec& spec, const std::string& where) {
  const std::set<std::string> words = words_of_command(spec);
  if (words.contains(key)) return;
  const bool starts_ranks = words.contains("ranks") || words.contains("ranks_on_host");
  // Read by the harness itself
  const std::set<std::string> own = {"run.out", "run.command", "run.reads", "run.hang_timeout"};
  if (own.contains(key) || (key == "layout.dp" && starts_ranks) ||
      (key == "run.threads" && words.contains("threads")))
    return;
  throw ConfigError(where, key, "reaches no word of run.command, so the program would not notice it",
                    "add {" + key + "} to run.command, or leave the key out");
}

}  // namespace isobar
