// isobar check: results against a stored reference, for people who change code, machines or settings.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/cli/commands.h"
#include "bench/cli/measured.h"
#include "bench/cli/options.h"
#include "model/base/error.h"
#include "model/base/files.h"
#include "reports/check.h"

namespace isobar {
namespace {

constexpr const char* kCheckHelp =
    R"(Says of each specification in DIR whether it is as fast as FILE says, and ends with 1 where one is
slower or fails. Slower is more than the tolerance and more than noise: repetitions (--repeat of a sweep) tell
how much that is, else the scatter of steps inside a run. Verdicts allow for the number of specifications
tested. Only what ran on the same kind of processor is compared.

FILE is JSON lines, a line for each run; --update adds DIR's runs to it (and makes it), and what it held
before stays as the history that --history writes.

  isobar sweep configs/models/vit-demo.yaml gpus=1,2 amp=none,bf16 steps=40 --repeat 3 --results results/now
  isobar check results/now --reference reference.jsonl --update           # the first time
  isobar check results/now --reference reference.jsonl                    # after a change

Exit codes: 0 nothing is slower, 1 something is, or fails, 2 bad input.)";

struct CheckArguments {
  std::string dir, reference, history;
  double tolerance = 5;
  Statistic statistic = kStatistic;
  bool update = false, json = false;
};

nlohmann::json json_of(const CheckResult& c, double tolerance) {
  nlohmann::json j = {{"regressed", c.regressed()},
                      {"tolerance", tolerance},
                      {"cpu", c.cpu},
                      {"specifications", to_json(check_table(c))}};
  for (const char* verdict : {"failed", "slower", "faster", "as fast", "new", "not run"})
    j["count"][verdict] = c.count(verdict);
  return j;
}

int run_check(const CheckArguments& a) {
  const ReportData data = collect({a.dir}, {.statistic = a.statistic});
  const std::vector<ReferenceRun> runs = entries_of(data);
  if (runs.empty())
    throw ConfigError(a.dir, "", "holds no finished run", "see isobar report, which says why they failed");
  const bool there = std::filesystem::exists(a.reference);
  if (!there && !a.update)
    throw ConfigError(a.reference, "--reference", "there is no such file",
                      "make it of these results with --update");
  const Reference reference = there ? read_reference(a.reference) : Reference{};
  if (!a.history.empty()) write_atomically(a.history, to_csv(history_table(reference, runs)));
  if (a.update) {
    append_reference(a.reference, runs);
    std::printf("%s: update %ld, %zu runs of %s\n", a.reference.c_str(), reference.updates() + 1, runs.size(),
                runs[0].cpu.c_str());
    return 0;
  }
  const CheckResult c = check(runs, failed_of(data), reference, a.reference, a.tolerance / 100);
  if (a.json) {
    std::printf(
        "%s\n",
        json_of(c, a.tolerance / 100).dump(1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return c.regressed() ? 1 : 0;
  }
  std::fputs(to_text(check_table(c)).c_str(), stdout);
  std::printf(
      "%s: %zu slower by more than %g %% and noise, %zu failed, %zu faster, %zu as fast, %zu new, %zu not "
      "run\n",
      c.regressed() ? "REGRESSED" : "No regression", c.count("slower"), a.tolerance, c.count("failed"),
      c.count("faster"), c.count("as fast"), c.count("new"), c.count("not run"));
  return c.regressed() ? 1 : 0;
}

}  // namespace

void add_check_command(CLI::App& app) {
  auto a = std::make_shared<CheckArguments>();
  CLI::App* c = app.add_subcommand("check", "Whether results are as fast as a stored reference says");
  c->footer(kCheckHelp);
  c->add_option("DIR", a->dir, "Results of a sweep, or of one run")->required();
  c->add_option("--reference", a->reference, "JSON lines of earlier runs")->required();
  c->add_option("--tolerance", a->tolerance, "Percent by which a step may be slower")
      ->check(number_in(0, 1000))
      ->capture_default_str();
  add_statistic_option(*c, a->statistic);
  c->add_flag("--update", a->update, "Add these runs to the reference; what it held stays as history");
  c->add_option("--history", a->history, "Write every update's step times as CSV");
  c->add_flag("--json", a->json, "Print JSON on stdout instead of a table");
  c->callback([a, c] {
    refuse_unused(*c, {{"--tolerance", a->update, "is for a check, and --update makes none", "leave one out"},
                       {"--json", a->update, "is for a check, and --update makes none", "leave one out"}});
    if (const int code = run_check(*a); code != 0) throw CLI::RuntimeError(code);
  });
}

}  // namespace isobar
