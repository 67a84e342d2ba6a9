// isobar watch: the command line of reports/watch.h.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "bench/cli/commands.h"
#include "bench/cli/options.h"
#include "reports/watch.h"
#include "reports/watch_run.h"

namespace isobar {
namespace {

constexpr const char* kWatchHelp =
    R"(Of a sweep: how far it is, what runs now, what failed and what was fastest, until all trials have ended.
Of a run: its step, rate, time left and curve of losses, until it has ended.
It only reads, so it may run on another machine of a shared filesystem, and be stopped at any time.

Examples:
  isobar watch results/demo
  isobar watch runs/first               # one training
  isobar watch results/demo --once      # one look, e.g. from a script)";

struct WatchArguments {
  std::string dir;
  bool once = false;
  double every = 1;
};

FrameOptions terminal() {
  winsize size{};
  FrameOptions o;
  if (::isatty(STDOUT_FILENO) && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    o.width = size.ws_col;
    o.rows = size.ws_row > 2 ? size.ws_row - 1 : 24;
    o.colour = true;
  }
  return o;
}

bool ended(const WatchState& s) {
  return s.done == s.trials.size();
}
bool ended(const RunState& s) {
  return s.end.has_value();
}

template <class Watch>
void follow(Watch watch, const WatchArguments& a) {
  const bool live = !a.once && ::isatty(STDOUT_FILENO);
  while (true) {
    watch.refresh();
    // The cursor goes home and what is left of the frame before is wiped: no flicker.
    std::string text = live ? "\x1b[H" : "";
    text += frame(watch.state(), terminal());
    if (live) text += "\x1b[J";
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    if (a.once || ended(watch.state())) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(a.every));
  }
}

void run_watch(const WatchArguments& a) {
  const std::filesystem::path dir = a.dir;
  if (std::filesystem::exists(dir / "sweep.json")) return follow(SweepWatch(dir), a);
  follow(RunWatch(dir), a);
}

}  // namespace

void add_watch_command(CLI::App& app) {
  auto a = std::make_shared<WatchArguments>();
  CLI::App* watch = app.add_subcommand("watch", "Shows a sweep or a run as it goes, in the terminal");
  watch->footer(kWatchHelp);
  watch->add_option("DIR", a->dir, "Results of a sweep, or a run's directory")->required();
  auto* once = watch->add_flag("--once", a->once, "Look once and end");
  watch->add_option("--every", a->every, "Seconds between two looks")
      ->check(number_in(0.1, 3600))
      ->excludes(once)
      ->capture_default_str();
  watch->callback([a] {
    if (!a->once && ::isatty(STDOUT_FILENO)) std::fputs("\x1b[2J", stdout);
    run_watch(*a);
  });
}

}  // namespace isobar
