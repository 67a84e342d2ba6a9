// isobar record: the command line of bench/guest/record_loop.h.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "bench/cli/train/train_arguments.h"
#include "bench/cli/words/options.h"
#include "bench/guest/record_loop.h"
#include "model/base/error.h"

namespace isobar::cli {
namespace {

constexpr const char* kRecordHelp =
    R"(Writes the records of a training loop of your own into run.out, so that watch, report, check and fit read them like
those of any run. The loop writes one JSON object a line to this command's standard input, in the form of result.jsonl
(model/records/README.md); the Python package `isobar` (bench/python) does that: with isobar.run(...) as r: r.step(loss=…)

  {"event": "step", "step": 1, "seconds": 0.12, "samples": 8, "loss": 0.7}     also tokens, lr, grad_norm, epoch, accuracy,
                                     data_wait_s; without seconds, the time since the line before; samples over all ranks
  {"event": "valid", "step": 100, "loss": 0.6, "seconds": 2.1}
  {"event": "checkpoint", "step": 100, "path": "step-100.pt", "seconds": 0.4}
  {"event": "run_end", "status": "ok"}         or "failed" with "message", and "class" where that does not
                                     follow from the message's words

The first answer is run_start. Each line is answered by its record on standard output, once the kernel has it: a loop that waits for the answer loses no
step, however it ends. Lines that end without run_end are a crash of the loop. CONFIG and --set describe what trains:
net, layout, policy and batch, which fits and forecasts are of. SIGINT, SIGTERM and SIGHUP are ignored: they are meant
for the loop, and its end ends this command.

Exit codes: 0 ok, 2 bad line or configuration, 3 the loss is not a number, 4 out of memory, 1 any other failure of the
loop.

Example:
  my-loop | isobar record configs/models/vit-tiny.yaml --set run.out=runs/mine --set train.global_batch=32)";

struct RecordArguments {
  std::string config;
  std::vector<std::string> set;
  About about;
};

void run_record(const RecordArguments& a) {
  TrainArguments named{.config = a.config, .set = a.set, .about = a.about};
  RunSpec spec = loaded(named);
  if (!spec.run.command.empty())
    throw ConfigError(spec.file, "run.command", "starts a program, and a loop that runs already is recorded",
                      "leave it out, or use isobar train");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);  // the loop may be gone before its last answer
  std::optional<RunFolder> folder;
  name_run(named, spec, folder);
  const records::EndRecord end =
      guest::record_loop(spec, STDIN_FILENO, a.about.json(), [](const std::string& line) {
        std::printf("%s\n", line.c_str());
        std::fflush(stdout);
      });
  if (end.ok()) return;
  std::fprintf(stderr, "isobar: %s: %s\n", end.failure->c_str(), end.message.value_or("").c_str());
  throw ExitCode{exit_code_of(*end.failure)};
}

}  // namespace

void add_record_command(CLI::App& app) {
  auto a = std::make_shared<RecordArguments>();
  CLI::App* c = app.add_subcommand("record", "Write the records of a training loop of your own");
  add_config_option(*c, a->config, "CONFIG", "Run configuration (YAML) of what trains")->required();
  c->add_option("--set", a->set, "Override a key: --set train.global_batch=8 (repeatable)")
      ->allow_extra_args(false);
  add_about_options(*c, a->about);
  c->footer(kRecordHelp);
  c->callback([a] { run_record(*a); });
}

}  // namespace isobar::cli
