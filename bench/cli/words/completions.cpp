// isobar completions: scripts by which shells complete the command; they ask the program itself.
#include <cstdio>
#include <memory>

#include "bench/cli/commands.h"
#include "bench/cli/words/complete.h"

namespace isobar::cli {
namespace {

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
