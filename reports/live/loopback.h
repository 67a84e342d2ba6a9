// A server for browsers of this machine alone: it listens on the loopback interface, has a random token that
// every request must show, and refuses requests that name another host (a page elsewhere that makes the
// browser ask here).
//
//   Loopback server("isobar open", 0, [](const HttpRequest& r) { return r.path.substr(1, 32); });
//   server.run([](const HttpRequest&) { return HttpAnswer{.body = "yes"}; }, [] { return stop_flag() != 0;
//   });
//
// One thread hears all connections, so that many slow ones cost a descriptor each and keep no request with
// the token waiting; a few others make the answers.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "reports/live/http.h"

namespace isobar::report {

class Loopback {
 public:
  using ShownToken = std::function<std::string(const HttpRequest&)>;

  /// Binds. `command`: who asks, for the error of a port that another program has (ConfigError). 0: any free
  /// port.
  Loopback(const std::string& command, int port, ShownToken shown);
  ~Loopback();
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  /// Answers until `stop` says so, whatever is connected; `answer` is called from several threads.
  void run(const std::function<HttpAnswer(const HttpRequest&)>& answer, const std::function<bool()>& stop);

  const std::string& token() const { return token_; }
  std::string origin() const;  // http://127.0.0.1:43121

 private:
  bool allowed(const HttpRequest& request) const;

  std::string command_, token_;
  ShownToken shown_;
  int listener_ = -1, port_ = 0;
};

}  // namespace isobar::report
