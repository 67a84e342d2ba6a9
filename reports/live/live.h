// A page that follows a running sweep or training, served to a browser on this machine: `isobar watch DIR
// --serve`.
//
// The page is there at once: what draws its figures starts beside it. The server only reads files, so it
// keeps working if the sweep dies. It listens on the loopback interface, requires the random token of its
// URL, and rejects requests with another Host header, which protects against DNS rebinding.
//
//   LiveServer server("results/demo", {});
//   std::puts(server.url().c_str());        // http://127.0.0.1:43121/?token=…
//   server.run([] { return stop_flag() != 0; });
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace isobar::report {

struct LiveOptions {
  int port = 0;                       // 0: any free port
  std::filesystem::path python = {};  // interpreter with vl-convert to draw figures; "": found (report.h)
  /// Called once if figures cannot be drawn, with the reason, from another thread.
  std::function<void(const std::string&)> without_figures = {};
};

class LiveServer {
 public:
  /// Binds its port. Throws ConfigError if the directory holds no sweep and no run, or the port is in use.
  LiveServer(const std::filesystem::path& dir, const LiveOptions& options);
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  std::string url() const;  // includes the token, which grants access
  /// Serves until `stop` returns true.
  void run(const std::function<bool()>& stop);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobar::report
