// Serves a report or trace to a browser on this machine: `isobar open PATH`.
//
//   const Openable found = find_openable("runs/first");     // its report, its trace
//   const Served server = serve_pages(found, 0, "https://ui.perfetto.dev");
//   server.addresses;  // {"report", http://127.0.0.1:43121/TOKEN/page/index.html}, {"trace", …}
//   server.run([] { return stop_flag() != 0; });
//
// A trace's URL is a page with a button that opens the Perfetto UI in another tab and passes it the trace by
// postMessage, so nothing is uploaded. The UI is loaded from the network, the browser's cache, or the copy at
// `perfetto_ui`.
#pragma once
#include <filesystem>
#include <string>

#include "reports/live/loopback.h"

namespace isobar::report {

struct Openable {
  std::filesystem::path page;   // an HTML file; files beside and below it are served too; "": none
  std::filesystem::path trace;  // a Chrome trace; "": none
};
/// `path` is a page, a trace, a report's directory, or a run's directory (its trace, and its report in
/// RUN/report). Throws ConfigError if it has neither page nor trace.
Openable find_openable(const std::filesystem::path& path);

/// `port`: 0: any free port. Throws ConfigError if it is in use or `perfetto_ui` is not a URL.
Served serve_pages(const Openable& what, int port, const std::string& perfetto_ui);

}  // namespace isobar::report
