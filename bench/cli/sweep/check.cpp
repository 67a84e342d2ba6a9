// isobar check: results against a stored reference, for people who change code, machines or settings.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/cli/commands.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"
#include "model/base/system/files.h"
#include "reports/comparison/check.h"
#include "reports/page.h"

namespace isobar::cli {
namespace {

constexpr const char* kCheckHelp =
    R"(Compares each run specification in DIR with its step time in FILE, and exits with 1 where one is slower or fails.
Slower means by more than the tolerance and by more than noise: of steps, of repetitions (--repeat of a sweep), and
between days. As fast means that the whole interval lies within the tolerance. Otherwise it is undecided, and the
table says what change this check would have seen. Only runs on the same kind of processor are compared.

FILE is JSON lines, a line for each run; --update adds DIR's runs to it (and makes it), and what it held
before stays as the history that --history writes, and that the page of -o draws from commit to commit.

  isobar sweep configs/models/vit-demo.yaml gpus=1,2 amp=none,bf16 steps=40 --repeat 3 --results results/now
  isobar check results/now --reference reference.jsonl --update           # the first time
  isobar check results/now --reference reference.jsonl                    # after a change

Exit codes: 0 nothing is slower, 1 something is, or fails, 2 bad input, 5 nothing is, but some is undecided.)";

struct CheckArguments {
  std::string dir, reference, history, out;
  double tolerance = 5;
  Statistic statistic = kStatistic;
  bool update = false, json = false;
};

nlohmann::json json_of(const report::CheckResult& c, double tolerance) {
  nlohmann::json j = {{"regressed", c.regressed()},
                      {"tolerance", tolerance},
                      {"cpu", c.cpu},
                      {"specifications", report::to_json(report::check_table(c))}};
  j["undecided"] = c.undecided();
  for (const char* verdict :
       {"failed", report::kSlower, report::kFaster, report::kCannotTell, report::kAsFast, "new", "not run"})
    j["count"][verdict] = c.count(verdict);
  return j;
}

int exit_code(const report::CheckResult& c) {
  constexpr int kRegressed = 1, kUndecided = 5;
  return c.regressed() ? kRegressed : c.undecided() ? kUndecided : 0;
}

int run_check(const CheckArguments& a) {
  const report::ReportData data = report::collect({a.dir}, {.holdout = false, .statistic = a.statistic});
  const std::vector<report::ReferenceRun> runs = report::entries_of(data);
  if (runs.empty())
    throw ConfigError(a.dir, "", "holds no finished run", "see isobar report, which says why they failed");
  const bool there = std::filesystem::exists(a.reference);
  if (!there && !a.update)
    throw ConfigError(a.reference, "--reference", "there is no such file",
                      "make it of these results with --update");
  const report::Reference reference = there ? report::read_reference(a.reference) : report::Reference{};
  if (!a.history.empty()) write_atomically(a.history, report::to_csv(report::history_table(reference, runs)));
  if (a.update) {
    report::append_reference(a.reference, runs);
    std::printf("%s: update %ld, %zu runs of %s\n", a.reference.c_str(), reference.updates() + 1, runs.size(),
                runs[0].cpu.c_str());
    return 0;
  }
  const report::CheckResult c =
      report::check(runs, report::failed_of(data), reference, a.reference, a.tolerance / 100);
  if (!a.out.empty()) {
    const std::string not_drawn = report::write_plain_page(
        a.out, {.title = "Step times on " + c.cpu}, report::history_figures(c, reference, runs),
        {report::check_table(c), report::history_table(reference, runs)});
    if (!a.json) std::printf("page        %s\n", (std::filesystem::path(a.out) / "index.html").c_str());
    if (!not_drawn.empty()) std::fprintf(stderr, "isobar: figures are not drawn: %s\n", not_drawn.c_str());
  }
  if (a.json) {
    std::printf(
        "%s\n",
        json_of(c, a.tolerance / 100).dump(1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    return exit_code(c);
  }
  std::fputs(report::to_text(report::check_table(c)).c_str(), stdout);
  std::printf(
      "%s: %zu slower by more than %g %% and noise, %zu failed, %zu faster, %zu as fast, %zu undecided, "
      "%zu "
      "new, %zu not run\n",
      c.regressed()   ? "REGRESSED"
      : c.undecided() ? "CANNOT TELL"
                      : "No regression",
      c.count(report::kSlower), a.tolerance, c.count("failed"), c.count(report::kFaster),
      c.count(report::kAsFast), c.count(report::kCannotTell), c.count("new"), c.count("not run"));
  return exit_code(c);
}

}  // namespace

void add_check_command(CLI::App& app) {
  auto a = std::make_shared<CheckArguments>();
  CLI::App* c = app.add_subcommand("check", "Check results for regressions against a stored reference");
  c->footer(kCheckHelp);
  c->add_option("DIR", a->dir, "Results of a sweep, or of one run")->required();
  c->add_option("--reference", a->reference, "JSON lines of earlier runs")->required();
  c->add_option("--tolerance", a->tolerance, "Percent by which a step may be slower: 5 or 5%")
      ->transform(CLI::Validator(  // users write "5%"
          [](std::string& text) {
            if (text.ends_with('%')) text.pop_back();
            return std::string();
          },
          "PERCENT"))
      ->check(number_in(0, 1000))
      ->capture_default_str();
  add_statistic_option(*c, a->statistic);
  c->add_flag("--update", a->update, "Add these runs to the reference, keeping earlier ones as history");
  c->add_option("--history", a->history, "Write every update's step times as CSV");
  c->add_option("-o,--out", a->out, "Write a page: step times over commits, verdicts, history");
  c->add_flag("--json", a->json, "Print JSON on stdout instead of tables");
  c->callback([a, c] {
    refuse_unused(*c, {{"--tolerance", a->update, "is for a check, and --update makes none", "leave one out"},
                       {"--json", a->update, "is for a check, and --update makes none", "leave one out"},
                       {"--out", a->update, "is for a check, and --update makes none", "leave one out"}});
    if (const int code = run_check(*a); code != 0) throw ExitCode{code};
  });
}

}  // namespace isobar::cli
