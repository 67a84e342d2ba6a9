// A page that follows a running sweep or training, served to a browser on this machine: `isobar watch DIR
// --serve`.
//
// The page is there at once: what draws its figures starts beside it. The server only reads files, so it
// keeps working if the sweep dies. It listens on the loopback interface, requires the random token of its
// URL, and rejects requests with another Host header, which protects against DNS rebinding.
//
//   const Served server = serve_live("results/demo", 0, tell);
//   std::puts(server.addresses.front().second.c_str());        // http://127.0.0.1:43121/?token=…
//   server.run([] { return stop_flag() != 0; });
#pragma once
#include <filesystem>
#include <functional>
#include <string>

#include "reports/live/loopback.h"

namespace isobar::report {

/// `port`: 0: any free port. `without_figures` is called once if figures cannot be drawn, with the reason,
/// from another thread. Throws ConfigError if the directory holds no sweep and no run, or the port is in use.
Served serve_live(const std::filesystem::path& dir, int port,
                  const std::function<void(const std::string&)>& without_figures);

}  // namespace isobar::report
