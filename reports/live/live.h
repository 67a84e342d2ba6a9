// Pages served to a browser on this machine (loopback.h): `isobar watch DIR --serve` and `isobar open PATH`.
//
//   const Served server = serve_live("results/demo", 0, tell);
//   std::puts(server.addresses.front().second.c_str());        // http://127.0.0.1:43121/?token=…
//   server.run([] { return stop_flag() != 0; });
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace isobar::report {

/// A server that is bound: run() answers until `stop` returns true.
struct Served {
  std::vector<std::pair<std::string, std::string>> addresses;  // name and URL; its token grants access
  std::function<void(const std::function<bool()>& stop)> run;
};

/// Follows a running sweep or training. The page is there at once: what draws its figures starts beside it.
/// The server only reads files, so it keeps working if the sweep dies. `port`: 0: any free port.
/// `without_figures` is called once if figures cannot be drawn, with the reason, from another thread. Throws
/// ConfigError if the directory holds no sweep and no run, or the port is in use.
Served serve_live(const std::filesystem::path& dir, int port,
                  const std::function<void(const std::string&)>& without_figures);

/// The page and the trace that `path` is or holds: a page, a trace, a report's directory, or a run's
/// directory (its trace, and its report in RUN/report). A trace's URL is a page with a button that opens the
/// Perfetto UI in another tab and passes it the trace by postMessage, so nothing is uploaded; the UI is
/// loaded from the network, the browser's cache, or the copy at `perfetto_ui`. Throws ConfigError if there is
/// neither page nor trace, the port is in use, or `perfetto_ui` is not a URL.
Served serve_pages(const std::filesystem::path& path, int port, const std::string& perfetto_ui);

}  // namespace isobar::report
