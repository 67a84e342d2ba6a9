// isobar watch: the command line of reports/live/watch.h.
#include <signal.h>
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
#include "bench/cli/train/stop_flag.h"
#include "bench/cli/words/options.h"
#include "model/base/error.h"
#include "reports/live/live.h"
#include "reports/live/watch.h"
#include "reports/live/watch_run.h"

namespace isobar::cli {
namespace {

constexpr const char* kWatchHelp =
    R"(Of a sweep: how far it is, what runs now, what failed and what was fastest, until all trials have ended.
Of a run: its step, rate, time left and curve of losses, until it has ended.
It only reads, so it may run on another machine of a shared filesystem, and be stopped at any time.

Examples:
  isobar watch results/demo
  isobar watch runs/first               # one training
  isobar watch results/demo --once      # one frame, e.g. from a script
  isobar watch results/demo --serve     # a page for the browser of this machine, until Ctrl-C; of a run, too

--serve prints an address with a random token: only who has it, on this machine, can read the page. From another
machine: ssh -L PORT:127.0.0.1:PORT, then the same address there.)";

struct WatchArguments {
  std::string dir;
  bool once = false, serve = false;
  int port = 0;
  double every = 1;
};

report::FrameOptions terminal() {
  winsize size{};
  report::FrameOptions o;
  if (::isatty(STDOUT_FILENO) && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    o.width = size.ws_col;
    o.rows = size.ws_row > 2 ? size.ws_row - 1 : 24;
    o.colour = true;
  }
  return o;
}

bool ended(const report::WatchState& s) {
  return s.done == s.trials.size();
}
bool ended(const report::RunState& s) {
  return s.end.has_value();
}

template <class Watch>
void follow(Watch watch, const WatchArguments& a) {
  const bool live = !a.once && ::isatty(STDOUT_FILENO);
  while (true) {
    watch.refresh();
    // Moves the cursor home and then clears the rest of the frame: clearing first would flicker.
    std::string text = live ? "\x1b[H" : "";
    text += report::frame(watch.state(), terminal());
    if (live) text += "\x1b[J";
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
    if (a.once || ended(watch.state())) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(a.every));
  }
}

void serve(const WatchArguments& a) {
  const report::Served server = report::serve_live(a.dir, a.port, say_without_figures);
  catch_signals({SIGINT, SIGTERM, SIGHUP}, SA_RESETHAND);
  std::printf("%s\n", server.addresses.front().second.c_str());
  std::fflush(stdout);
  server.run([] { return stop_flag() != 0; });
}

void run_watch(const WatchArguments& a) {
  const std::filesystem::path dir = a.dir;
  if (std::filesystem::exists(dir / "sweep.json")) return follow(report::SweepWatch(dir), a);
  follow(report::RunWatch(dir), a);
}

}  // namespace

void add_watch_command(CLI::App& app) {
  auto a = std::make_shared<WatchArguments>();
  CLI::App* watch =
      app.add_subcommand("watch", "Follow a sweep or a run in the terminal; --serve: in a browser");
  watch->footer(kWatchHelp);
  watch->add_option("DIR", a->dir, "Results of a sweep, or a run's directory")->required();
  auto* once = watch->add_flag("--once", a->once, "Print one frame and exit");
  watch->add_option("--every", a->every, "Seconds between updates")
      ->check(number_in(0.1, 3600))
      ->excludes(once)
      ->capture_default_str();
  auto* serving = watch->add_flag("--serve", a->serve, "Follow it in a browser of this machine");
  serving->excludes(once)->excludes(watch->get_option("--every"));
  watch->add_option("--port", a->port, "Port of --serve [any free one]")
      ->check(CLI::Range(1, 65535))
      ->needs(serving);
  watch->callback([a] {
    if (a->serve) {
      serve(*a);
      return;
    }
    if (!a->once && ::isatty(STDOUT_FILENO)) std::fputs("\x1b[2J", stdout);
    run_watch(*a);
  });
}

}  // namespace isobar::cli
