#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "bench/cli/commands.h"
#include "bench/cli/train/last_words.h"
#include "bench/cli/train/submit_train.h"
#include "bench/cli/words/translate.h"
#include "bench/ranks/rank_output.h"
#include "model/base/error.h"
#include "model/base/names/did_you_mean.h"
#include "model/base/names/other_names.h"
#include "model/base/names/search_paths.h"
#include "model/base/spec/spec_keys.h"
#include "model/base/text/yaml.h"
#include "model/engine/host/host.h"
#include "model/engine/train.h"
#include "model/inference/arena.h"
#include "perfmodel/ask/search.h"

namespace {

using namespace isobar;

/// The first thing in main(): a stream that the caller closed (`>&-`) becomes one that refuses what is
/// written: else the next file that is opened would take its number, and get what is printed. Standard output
/// keeps up line by line. What is written beyond the limit on file sizes is an error, not the process' end.
void open_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
        ::_exit(1);                               // the lowest is free
  std::signal(SIGXFSZ, SIG_IGN);                  // a write beyond ulimit -f fails as one on a full disk does
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a log file keeps up, and an abort loses no line
}

/// The last: flushes. Lost output is reported and returns 1, or silently 141 if a reader has gone (`| head`),
/// as a shell reports a death by SIGPIPE; a code other than 0 is kept.
int checked_output(int code) {
  std::cout.flush();
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !std::ferror(stdout) && std::cout.good()) return code;
  if (errno == EPIPE) return code != 0 ? code : 128 + SIGPIPE;
  std::fprintf(stderr,
               "isobar: standard output: cannot be written%s%s -> free its disk, or send it elsewhere\n",
               errno != 0 ? ": " : "", errno != 0 ? std::strerror(errno) : "");
  return code != 0 ? code : 1;
}

/// CLI11's own message only says that a subcommand is required.
void refuse_unknown_command(const CLI::App& app, char** words) {
  if (!*words || app.get_require_subcommand_min() == 0) return;
  const std::string word = *words;
  std::vector<std::string> known;
  for (const CLI::App* c : app.get_subcommands(nullptr)) known.push_back(c->get_name());
  if (word.starts_with("-")) return;
  if (std::find(known.begin(), known.end(), word) != known.end())
    return refuse_unknown_command(*app.get_subcommand(word), words + 1);
  throw ConfigError("'" + word + "'", "", "is no command", "did you mean '" + nearest(word, known) + "'?");
}

/// A suggestion for a word that the command does not take; "" where there is none.
std::string mend_of(const std::string& word, const CLI::App& command) {
  std::vector<std::string> options;
  for (const CLI::Option* o : command.get_options())
    for (const std::string& name : o->get_lnames()) options.push_back("--" + name);
  const bool sets = std::find(options.begin(), options.end(), "--set") != options.end();
  if (const size_t eq = word.find('='); !word.starts_with("-")) {
    if (!sets || eq == std::string::npos) return "";
    const std::string name = word.substr(0, eq);
    const std::vector<SpecKey> keys = spec_keys();
    const bool ours = std::any_of(keys.begin(), keys.end(), [&](const SpecKey& k) { return k.key == name; });
    const std::string other = ours ? "" : mend_of_other_name(name, word.substr(eq + 1), true);
    return other.empty() ? "write --set " + word : other;
  }
  if (word == "--set" && command.get_name() == "sweep")
    return "write KEY=VALUES without --set: layout.tp=1,2,4";
  return did_you_mean(word.substr(0, word.find('=')), options, "");
}

/// The command under way and the words behind it.
struct Given {
  const CLI::App* command;
  std::string name = "isobar";
  std::vector<std::string> words;
};
Given given_to(const CLI::App& app, std::vector<std::string> words) {
  Given g{.command = &app, .words = std::move(words)};
  for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = g.command->get_subcommands()) {
    g.command = chosen.front();
    g.name += " " + g.command->get_name();
    const auto at = std::find(g.words.begin(), g.words.end(), g.command->get_name());
    g.words.erase(g.words.begin(), at == g.words.end() ? at : at + 1);
  }
  return g;
}

/// The line with options of other software translated, and below it what differs; "" where there are none.
std::string translation_of(const Given& g) {
  const std::optional<cli::TranslatedLine> line = cli::translated(g.name, *g.command, g.words);
  if (!line) return "";
  std::string names, notes;
  for (const std::string& name : line->names) names += (names.empty() ? "" : ", ") + name;
  for (const std::string& note : line->notes) notes += "\n  " + showable(note);
  return g.name + ": not ours, but known from other software: " + showable(names) + " -> " +
         showable(line->line) + notes + "\n";
}

/// One line, as for any other bad input.
std::string usage_error(const CLI::App* app, const CLI::Error& e, std::vector<std::string> words) {
  const Given g = given_to(*app, std::move(words));
  std::string what = e.what();
  while (!what.empty() && what.back() == '\n') what.pop_back();
  // A mistyped option is reported before what is missing because of it.
  std::vector<std::string> unknown = app->remaining(true);
  std::stable_partition(unknown.begin(), unknown.end(),
                        [](const std::string& w) { return w.starts_with("-"); });
  if (unknown.empty()) return g.name + ": " + showable(what) + " -> see " + g.name + " --help\n";
  if (std::string line = translation_of(g); !line.empty()) return line;
  const std::string mend = mend_of(unknown[0], *g.command);
  return g.name + ": " + showable(unknown[0]) + " is not one of its options or arguments -> " +
         (mend.empty() ? "see " + g.name + " --help" : mend) + "\n";
}

/// "isobar 0.1.0, commit 3dc81bda16d8, changed, Release by GCC 12.2.0; oneDNN 2.6.3, Open MPI 4.1.4"
std::string version_text() {
  const nlohmann::json p = engine::provenance();
  return "isobar " ISOBAR_VERSION ", commit " + p.value("commit", "unknown") +
         (p.value("dirty", false) ? ", changed" : "") + ", " + p.value("build_type", "") + " by GCC " +
         p.value("compiler", "") + "; oneDNN " + p.value("onednn", "") + ", " + p.value("mpi", "");
}

int run(int argc, char** argv) {
  CLI::App app(
      "Isobar: how should this model be laid out on this machine, and how fast will it train?\n"
      "Measure with a real training engine, fit a performance model to it, predict the runs you never made.");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text, "Print version, commit, compiler and libraries");
  app.footer(
      "A first result:   isobar train configs/models/vit-tiny.yaml\n"
      "The whole tour:   bench/quickstart.sh\n"
      "Help on one:      isobar train --help");
  cli::add_plan_command(app);
  cli::add_train_command(app, cli::submit_training);
  cli::add_record_command(app);
  cli::add_forecast_command(app);
  cli::add_generate_command(app);
  cli::add_verify_command(app);
  cli::add_jacobian_command(app);
  cli::add_export_command(app);
  cli::add_calibrate_command(app);
  cli::add_sweep_command(app);
  cli::add_fit_command(app);
  cli::add_predict_command(app);
  cli::add_search_command(app);
  cli::add_compare_command(app);
  cli::add_budget_command(app);
  cli::add_emit_command(app);
  cli::add_score_command(app);
  cli::add_report_command(app);
  cli::add_check_command(app);
  cli::add_watch_command(app);
  cli::add_open_command(app);
  cli::add_import_command(app);
  cli::add_data_commands(app);
  cli::add_config_commands(app);
  cli::add_doctor_command(app);
  cli::add_machine_command(app);
  cli::add_preflight_command(app);
  cli::add_completions_command(app);
  cli::add_man_command(app);
  const std::vector<std::string> words{argv + std::min(argc, 1), argv + argc};
  app.failure_message([&](const CLI::App* of, const CLI::Error& e) { return usage_error(of, e, words); });
  try {
    refuse_unknown_command(app, argv + std::min(argc, 1));
    app.parse(argc, argv);
    return 0;
  } catch (const ConfigError&) {
    // The value of an unknown option was taken for an argument: `--num_workers 8`.
    const std::string line = translation_of(given_to(app, words));
    if (line.empty()) throw;
    std::fputs(line.c_str(), stderr);
    return 2;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
}

const char* mend_of(const std::error_code& code) {
  if (code == std::errc::file_too_large) return " -> raise the limit on file sizes: ulimit -f unlimited";
  if (code == std::errc::no_space_on_device) return " -> free its disk, or name a folder on another";
  if (code == std::errc::too_many_files_open) return " -> raise the limit on open files: ulimit -n 1024";
  return "";
}

// Every way to end, with its exit code.
int guarded(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const cli::ExitCode& e) {
    return e.code;
  } catch (const perf::DoesNotFit& e) {
    std::fprintf(stderr, "isobar: %s\n", e.what());
    return 4;
  } catch (const ConfigError& e) {
    std::fprintf(stderr, "isobar: %s\n", e.what());
    return 2;
  } catch (const std::filesystem::filesystem_error& e) {
    std::fprintf(stderr, "isobar: %s\n", cli::path_error_text(e).c_str());
    return 2;
  } catch (const std::system_error& e) {  // a write that failed: the disk, or a limit on it
    if (cli::is_of_memory(e.code())) {
      std::fprintf(stderr, "isobar: %s\n", cli::out_of_memory_text().c_str());
      return 4;
    }
    std::fprintf(stderr, "isobar: %s%s\n", showable(e.what()).c_str(), mend_of(e.code()));
    return 1;
  } catch (const nlohmann::json::type_error& e) {
    const bool bytes = e.id == 316;  // those of a name that is no UTF-8, where it has to be written as JSON
    std::fprintf(stderr, "isobar: %s\n",
                 bytes ? "a name holds bytes that are no UTF-8 -> rename the file or folder" : e.what());
    return bytes ? 2 : 1;
  } catch (const engine::NumericFailure& e) {
    std::fprintf(stderr, "isobar: %s\n", e.what());
    return 3;
  } catch (const inference::OutOfMemory& e) {
    std::fprintf(stderr, "isobar: out of memory: %s\n", e.what());
    return 4;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "isobar: %s\n", cli::out_of_memory_text().c_str());
    return 4;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "isobar: %s\n", showable(e.what()).c_str());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  isobar::cli::tell_of_ends();
  isobar::keep_to_absolute_search_paths();
  ::setenv("NCRCENV_IGNORE", "1", 1);  // netCDF would read .ncrc and .dodsrc of the working directory
  return isobar::ranks::end_rank_output(checked_output(guarded(argc, argv)));
}
