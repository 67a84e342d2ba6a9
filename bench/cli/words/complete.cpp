#include "bench/cli/words/complete.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "bench/sweep/compose.h"
#include "model/base/spec/spec_keys.h"
#include "model/base/system/program.h"

namespace isobar::cli {
namespace {

using Words = std::vector<std::string>;

Words names_in(const char* folder) {
  Words out;
  std::string refused;
  const std::filesystem::path own = file_of_program(folder, &refused);
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(own, none))
    if (entry.path().extension() == ".yaml") out.push_back(entry.path().stem().string());
  return out;
}

// The words of CLI::IsMember, as an option's type shows them: "TEXT:{local,slurm,pbs}"
Words choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}');
  Words out;
  if (open == std::string::npos || close == std::string::npos) return out;
  std::istringstream in(type.substr(open + 1, close - open - 1));
  for (std::string word; std::getline(in, word, ',');) out.push_back(word);
  return out;
}

// "train.lr=", or after the sign each word that the key takes
Words assignments(const std::string& typed, bool short_ones) {
  Words out;
  const std::string key = typed.substr(0, typed.find('='));
  const bool value = typed.find('=') != std::string::npos;
  for (const SpecKey& k : spec_keys()) {
    if (!value) {
      out.push_back(k.key + "=");
      continue;
    }
    if (k.key != (short_ones ? sweep::full_key(key) : key)) continue;
    std::istringstream words(k.type == "bool" ? "true false" : k.values);
    if (k.type == "bool" || k.values.find('|') != std::string::npos)
      for (std::string word; words >> word;)
        if (word != "|") out.push_back(key + "=" + word);
    if (const size_t other = k.values.find(", or "); other != std::string::npos)
      out.push_back(key + "=" + k.values.substr(other + 5));
  }
  if (short_ones && !value) {
    for (const std::string& name : sweep::short_names()) out.push_back(name + "=");
    for (const std::string& name : sweep::sweep_keys()) out.push_back(name + "=");
  }
  return out;
}

Words values_of(const CLI::Option& option, const std::string& typed) {
  if (option.check_lname("set")) return assignments(typed, false);
  if (option.check_lname("machine")) return names_in("configs/machines");
  return choices_of(option);
}

// Positionals of a command: a configuration, then a sweep's assignments
Words positionals(const CLI::App& command, const std::string& typed, size_t before) {
  const bool sweep = command.get_name() == "sweep";
  if (sweep && before > 0) return assignments(typed, true);
  size_t place = 0;
  for (const CLI::Option* o : command.get_options()) {
    if (!o->get_positional()) continue;
    if (place++ != before) continue;
    return o->get_description().find("config models") != std::string::npos ? names_in("configs/models")
                                                                           : choices_of(*o);
  }
  return {};
}

Words option_names(const CLI::App& command) {
  Words out;
  for (const CLI::Option* o : command.get_options())
    for (const std::string& name : o->get_lnames()) out.push_back("--" + name);
  return out;
}

const CLI::App* below(const CLI::App& command, const std::string& name) {
  for (const CLI::App* c : command.get_subcommands(nullptr))
    if (c->get_name() == name) return c;
  return nullptr;
}

Words candidates(const CLI::App& app, const Words& words) {
  const CLI::App* at = &app;
  const CLI::Option* waits = nullptr;
  size_t before = 0;  // positionals
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (waits) {
      waits = nullptr;
    } else if (word.starts_with("-")) {
      const CLI::Option* o = at->get_option_no_throw(word);
      waits = o && o->get_items_expected_max() > 0 ? o : nullptr;
    } else if (const CLI::App* next = below(*at, word)) {
      at = next;
      before = 0;
    } else {
      ++before;
    }
  }
  const std::string& typed = words.back();
  if (waits) return values_of(*waits, typed);
  if (typed.starts_with("--") && typed.find('=') != std::string::npos) {
    const std::string name = typed.substr(0, typed.find('='));
    const CLI::Option* o = at->get_option_no_throw(name);
    Words out = o ? values_of(*o, typed.substr(name.size() + 1)) : Words();
    for (std::string& word : out) word.insert(0, name + "=");
    return out;
  }
  if (typed.starts_with("-")) return option_names(*at);
  Words out;
  for (const CLI::App* c : at->get_subcommands(nullptr)) out.push_back(c->get_name());
  return out.empty() ? positionals(*at, typed, before) : out;
}

}  // namespace

std::vector<std::string> continuations(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty()) return {};
  Words all = candidates(app, words);
  std::erase_if(all, [&](const std::string& word) { return !word.starts_with(words.back()); });
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace isobar::cli
