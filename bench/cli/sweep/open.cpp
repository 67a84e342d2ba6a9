// isobar open: the command line of reports/live/live.h.
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/cli/commands.h"
#include "bench/cli/train/stop_flag.h"
#include "bench/cli/words/options.h"
#include "bench/ranks/mpiexec.h"
#include "model/base/system/program.h"
#include "model/base/system/temporary.h"
#include "reports/live/live.h"

namespace isobar::cli {
namespace {

constexpr const char* kOpenHelp =
    R"(Serves PATH to a browser on this machine until Ctrl-C, and opens it where there is a desktop (xdg-open): the page of
a report or a run, the live page of a sweep (as `isobar watch --serve`), or a page that hands a trace to the Perfetto
UI. The Perfetto UI is loaded from the network unless the browser has it cached; the trace stays on this machine.

Examples:
  isobar open reports/out                 # a report, and its perfetto.json
  isobar open results/demo                # a sweep, live
  isobar open runs/first                  # a run: RUN/report, RUN/trace.json
  isobar open runs/first/trace.json

The address has a random token; only who has it, on this machine, can read the page. From another machine:
ssh -L PORT:127.0.0.1:PORT with --port PORT, then the same address there.)";

struct OpenArguments {
  std::string path;
  int port = 0;
  bool no_browser = false;
  std::string perfetto_ui = "https://ui.perfetto.dev";
};

// The browser is sent through a file that only this user can read: command lines are public, and the page's
// address holds a token.
class Browser {
 public:
  void open(const std::string& url) {
    if (!std::getenv("DISPLAY") && !std::getenv("WAYLAND_DISPLAY")) return;  // no desktop
    const std::string program = program_in_path("xdg-open").string();
    if (program.empty()) {
      std::fprintf(stderr, "isobar open: there is no xdg-open; open the address yourself\n");
      return;
    }
    file_.emplace("isobar-open-", ".html",
                  "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=" + url + "\">\n");
    std::vector<std::string> words = {program, file_->path().string()};
    posix_spawn_file_actions_t silent;
    posix_spawn_file_actions_init(&silent);
    posix_spawn_file_actions_addopen(&silent, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&silent, 2, "/dev/null", O_WRONLY, 0);
    pid_t pid = 0;
    const int error =
        ::posix_spawn(&pid, program.c_str(), &silent, nullptr, ranks::argv_of(words).data(), environ);
    posix_spawn_file_actions_destroy(&silent);
    if (error != 0)
      std::fprintf(stderr, "isobar open: %s: %s; open the address yourself\n", program.c_str(),
                   std::strerror(error));
  }

 private:
  std::optional<TemporaryFile> file_;
};

void run_open(const OpenArguments& a) {
  const bool sweep = std::filesystem::exists(std::filesystem::path(a.path) / "sweep.json");
  const report::Served server = sweep ? report::serve_live(a.path, a.port, say_without_figures)
                                      : report::serve_pages(a.path, a.port, a.perfetto_ui);
  for (const auto& [what, url] : server.addresses) std::printf("%-6s %s\n", what.c_str(), url.c_str());
  catch_signals({SIGINT, SIGTERM, SIGHUP}, SA_RESETHAND);
  std::fflush(stdout);
  Browser browser;
  if (!a.no_browser) browser.open(server.addresses.front().second);
  server.run([] { return stop_flag() != 0; });
}

}  // namespace

void add_open_command(CLI::App& app) {
  auto a = std::make_shared<OpenArguments>();
  CLI::App* open =
      app.add_subcommand("open", "Show a report, a sweep or a trace in a browser of this machine");
  open->footer(kOpenHelp);
  open->add_option("PATH", a->path, "A report, a sweep's results, a run's directory, a page or a trace")
      ->required();
  open->add_option("--port", a->port, "Port to serve on [any free one]")->check(CLI::Range(1, 65535));
  open->add_flag("--no-browser", a->no_browser, "Only print the address");
  open->add_option("--perfetto-ui", a->perfetto_ui, "Address of the Perfetto UI, e.g. a copy at your site")
      ->capture_default_str();
  open->callback([a] { run_open(*a); });
}

}  // namespace isobar::cli
