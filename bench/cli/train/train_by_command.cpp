#include "bench/cli/train/train_by_command.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/cli/commands.h"
#include "bench/cli/train/last_words.h"
#include "bench/cli/train/stop_flag.h"
#include "bench/cli/train/train_arguments.h"
#include "bench/guest/command.h"
#include "bench/guest/other_host.h"
#include "bench/guest/run_guest.h"
#include "model/base/error.h"
#include "model/base/text/json.h"
#include "model/engine/liveness/signals.h"

namespace isobar::cli {
namespace {

/// --resume RUN of a run.command: RUN is run.out, and run.resume says how.
void require_takes_up(const std::string& resume, const RunSpec& spec) {
  if (resume.empty()) return;
  if (spec.run.resume.empty())
    throw ConfigError("--resume", "", "takes up a run, and run.resume does not say how run.command is",
                      "e.g. run.resume: \"--resume {checkpoint}\" and run.checkpoint: \"ckpt/step-*.pt\"");
  std::error_code none;
  if (!std::filesystem::equivalent(resume, spec.run.out, none))
    throw ConfigError("--resume", "", resume + " is not run.out, where run.command goes on",
                      "add --set run.out=" + resume);
}

}  // namespace

void require_words_for(const std::vector<std::string>& given, const TrainArguments& a, const RunSpec& spec) {
  for (const std::string& word : given)
    if (!word.starts_with("net.")) guest::require_word_for(word.substr(0, word.find('=')), spec, "--set");
  if (a.ranks > 0 && spec.layout.dp > 1) guest::require_word_for("layout.dp", spec, "--ranks");
}

void train_by_command(TrainArguments a, const CLI::App& command) {
  refuse_unused(
      command,
      {{"--trace", true, "is of Isobar's engine, and run.command trains", "leave it out"},
       {"--set-aside-damaged", true, "is of Isobar's engine, and run.command trains", "leave it out"},
       {"--machine", true, "gives the MFU of Isobar's engine's step lines", "leave it out"},
       {"--rank-output", true, "is of Isobar's engine's ranks", "leave it out"}});
  const std::vector<std::string> given = a.set;
  if (a.ranks > 0) take_ranks(a, loaded(a).layout);
  RunSpec spec = loaded(a);
  require_words_for(given, a, spec);
  const guest::GuestHosts hosts = guest::guest_hosts(spec, ::getenv);
  std::optional<RunFolder> folder;
  if (hosts.names.size() > 1 && (a.fresh || names_a_pattern(spec.run.out)))
    throw ConfigError(a.fresh ? "--new" : spec.file, a.fresh ? "" : "run.out",
                      "numbers runs, and this one starts on several nodes, each by itself",
                      "give run.out the name of a directory");
  name_run(a, spec, folder);
  require_takes_up(a.resume, spec);
  catch_signals({SIGINT, SIGTERM, SIGHUP, SIGUSR1}, 0);
  if (hosts.rank > 0) {
    const auto v = guest::run_on_other_host(spec, hosts, !a.resume.empty(), &stop_flag());
    if (v) std::fprintf(stderr, "isobar: %s: %s\n", records::name_of(v->run_class), v->message.c_str());
    if (v) throw ExitCode{1};
    return;
  }
  std::function<void(const std::string&)> print;
  if (!a.json)
    print = [](const std::string& line) {
      std::printf("%s\n", line.c_str());
      std::fflush(stdout);
    };
  const records::EndRecord end = guest::run_guest(spec, hosts,
                                                  {.about = a.about.json(),
                                                   .print = print,
                                                   .stop = &stop_flag(),
                                                   .resume = !a.resume.empty(),
                                                   .expected = expected_of(a, spec)});
  nlohmann::json j = records::to_json(end);
  j["out"] = spec.run.out;
  if (a.json) std::printf("%s\n", json_text(j).c_str());
  if (!a.json)
    for (const std::string& note : end.notes.value_or(std::vector<std::string>()))
      std::printf("note       %s\n", note.c_str());
  if (end.ok()) {
    if (!a.json)
      std::printf(
          "trained    %lld steps: %.4g ms a step (median), %.4g samples/s\nresults    %s/result.jsonl\n",
          static_cast<long long>(*end.steps), 1e3 * end.step_s->of(kStatistic), *end.samples_per_s,
          spec.run.out.c_str());
    return;
  }
  std::fprintf(stderr, "isobar: %s: %s\n", end.failure->c_str(), end.message->c_str());
  if (stop_flag() != 0) throw ExitCode{128 + stop_flag()};
  throw ExitCode{exit_code_of(*end.failure)};
}

}  // namespace isobar::cli
