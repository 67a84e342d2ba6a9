// isobar completions: scripts by which shells complete the command; they ask the program itself.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "bench/sweep/compose.h"
#include "model/base/spec/spec_keys.h"
#include "model/base/system/program.h"

namespace isobar::cli {
namespace {

// Continuations of a command line, from the commands' own tables of options and keys.

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

/// Words that complete the last of `words`, which follow the program's name. None: a file may follow.
std::vector<std::string> continuations(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty()) return {};
  Words all = candidates(app, words);
  std::erase_if(all, [&](const std::string& word) { return !word.starts_with(words.back()); });
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

constexpr const char* kCompletionsHelp =
    R"(Commands, options, their words, keys after --set, machines and models:

  source <(isobar completions bash)                                        # this shell; or in ~/.bashrc
  isobar completions bash > ~/.local/share/bash-completion/completions/isobar
  isobar completions zsh > ~/.zfunc/_isobar                                # a folder of $fpath, before compinit
  isobar completions fish > ~/.config/fish/completions/isobar.fish)";

// bash breaks words at = and :, so the line is split at blanks here, and what stands before the sign is cut
// off.
constexpr const char* kBash = R"(_isobar() {
  local line=${COMP_LINE:0:COMP_POINT} words cur prefix
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  cur=${words[-1]}
  mapfile -t COMPREPLY < <("${words[0]}" completions words -- "${words[@]:1}" 2> /dev/null)
  [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
  prefix=${cur%"${cur##*[=:]}"}
  COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
}
complete -o default -F _isobar isobar
)";

constexpr const char* kZsh = R"(#compdef isobar
_isobar() {
  local -a found
  found=("${(@f)$("${words[1]}" completions words -- "${(@)words[2,CURRENT]}" 2> /dev/null)}")
  found=(${found:#})
  if (( ${#found} == 0 )); then
    _files
  elif [[ ${found[1]} == *= ]]; then
    compadd -Q -S '' -- $found
  else
    compadd -Q -- $found
  fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
  _isobar "$@"
else
  compdef _isobar isobar
fi
)";

constexpr const char* kFish = R"(function __isobar_words
  set -l words (commandline -opc) (commandline -ct)
  $words[1] completions words -- $words[2..-1] 2> /dev/null
end
complete -c isobar -a '(__isobar_words)'
)";

}  // namespace

void add_completions_command(CLI::App& app) {
  struct Arguments {
    std::string shell;
    std::vector<std::string> words;
  };
  auto a = std::make_shared<Arguments>();
  CLI::App* c = app.add_subcommand("completions", "Print the completion script of bash, zsh or fish");
  c->footer(kCompletionsHelp);
  c->add_option("SHELL", a->shell,
                "bash, zsh or fish; `words -- WORD...` prints what completes the last word")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish", "words"}));
  c->add_option("WORDS", a->words, "For `words`: what was typed behind isobar");
  c->callback([a, &app] {
    if (a->shell == "words")
      for (const std::string& word : continuations(app, a->words)) std::printf("%s\n", word.c_str());
    else
      std::fputs(a->shell == "bash" ? kBash : a->shell == "zsh" ? kZsh : kFish, stdout);
  });
}

}  // namespace isobar::cli
