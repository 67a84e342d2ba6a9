// A sweep as it goes, as a small page for a browser on this machine: `isobar watch DIR --serve`.
//
// Only files are read, so the sweep may die and the page goes on. The server listens on the loopback
// interface alone, answers nothing without the random token of its address, and refuses requests that name
// another host (a page elsewhere that makes the browser ask here).
//
//   LiveServer server("results/demo", {});
//   std::puts(server.url().c_str());        // http://127.0.0.1:43121/?token=…
//   server.run([] { return stop_flag() != 0; });
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace isobar {

struct LiveOptions {
  int port = 0;                  // 0: any that is free
  std::filesystem::path python;  // with vl-convert, whose Vega draws the figures; "": found (report.h)
};

class LiveServer {
 public:
  /// Binds its port. Throws ConfigError for a directory that no sweep has begun to fill, and for a port that
  /// another program has.
  LiveServer(const std::filesystem::path& dir, const LiveOptions& options);
  ~LiveServer();
  LiveServer(const LiveServer&) = delete;
  LiveServer& operator=(const LiveServer&) = delete;

  std::string url() const;              // with the token: whoever has it may read
  std::string without_figures() const;  // why there are none; "": there are
  /// Answers until `stop` says so.
  void run(const std::function<bool()>& stop);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isobar
