// A server for browsers of this machine alone: it listens on the loopback interface, has a random token that
// every request must show, and refuses requests that name another host (a page elsewhere that makes the
// browser ask here). Includes httplib whole: only for the sources of servers.
#pragma once
#include <httplib.h>

#include <functional>
#include <string>

namespace isobar {

class Loopback {
 public:
  /// Binds. `command`: who asks, for the error of a port that another program has (ConfigError). 0: any free
  /// port.
  Loopback(const std::string& command, int port);

  /// Before any route is answered: `shows_token` finds the token in a request. Others get 403.
  void protect(const std::function<std::string(const httplib::Request&)>& shown_token);
  /// Answers until `stop` says so.
  void run(const std::function<bool()>& stop);

  httplib::Server& server() { return server_; }
  const std::string& token() const { return token_; }
  std::string origin() const;  // http://127.0.0.1:43121

 private:
  bool is_named(const httplib::Request& request) const;

  std::string command_, token_;
  httplib::Server server_;
  int port_ = 0;
};

}  // namespace isobar
