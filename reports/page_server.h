// What a command left for a browser, served to a browser of this machine: `isobar open PATH`.
//
//   const Openable found = find_openable("runs/first");     // its report, its trace
//   PageServer server(found, {});
//   server.addresses();  // {"report", http://127.0.0.1:43121/TOKEN/page/index.html}, {"trace", …}
//   server.run([] { return stop_flag() != 0; });
//
// A trace's address is a page with a button that opens the Perfetto UI in another tab and hands the trace
// over there, within the browser (postMessage): nothing is uploaded. The UI itself comes from the network
// unless the browser has it from before, or `perfetto_ui` names a copy of it.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace isobar {

struct Openable {
  std::filesystem::path page;   // an HTML file; what lies beside and below it is served too; "": none
  std::filesystem::path trace;  // a Chrome trace; "": none
};
/// Of a page, a trace, a report's directory, or a run's (its trace, and its report in RUN/report). Throws
/// ConfigError where there is neither.
Openable find_openable(const std::filesystem::path& path);

struct PageServerOptions {
  int port = 0;  // 0: any that is free
  std::string perfetto_ui = "https://ui.perfetto.dev";
};

class PageServer {
 public:
  /// Binds its port. Throws ConfigError for one that another program has, and for a UI that is no address.
  PageServer(const Openable& what, const PageServerOptions& options);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  /// What there is to see, and where, with the token in the path: whoever has it may read.
  std::vector<std::pair<std::string, std::string>> addresses() const;
  /// Answers until `stop` says so.
  void run(const std::function<bool()>& stop);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobar
