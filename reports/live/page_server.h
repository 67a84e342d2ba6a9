// Serves a report or trace to a browser on this machine: `isobar open PATH`.
//
//   const Openable found = find_openable("runs/first");     // its report, its trace
//   PageServer server(found, {});
//   server.addresses();  // {"report", http://127.0.0.1:43121/TOKEN/page/index.html}, {"trace", …}
//   server.run([] { return stop_flag() != 0; });
//
// A trace's URL is a page with a button that opens the Perfetto UI in another tab and passes it the trace by
// postMessage, so nothing is uploaded. The UI is loaded from the network, the browser's cache, or the copy at
// `perfetto_ui`.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace isobar::report {

struct Openable {
  std::filesystem::path page;   // an HTML file; files beside and below it are served too; "": none
  std::filesystem::path trace;  // a Chrome trace; "": none
};
/// `path` is a page, a trace, a report's directory, or a run's directory (its trace, and its report in
/// RUN/report). Throws ConfigError if it has neither page nor trace.
Openable find_openable(const std::filesystem::path& path);

struct PageServerOptions {
  int port = 0;  // 0: any free port
  std::string perfetto_ui = "https://ui.perfetto.dev";
};

class PageServer {
 public:
  /// Binds its port. Throws ConfigError if the port is in use or `perfetto_ui` is not a URL.
  PageServer(const Openable& what, const PageServerOptions& options);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// Name and URL of each page; the token in the path grants access.
  std::vector<std::pair<std::string, std::string>> addresses() const;
  /// Serves until `stop` returns true.
  void run(const std::function<bool()>& stop);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobar::report
