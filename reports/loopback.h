// An HTTP server for browsers on this machine: it listens on the loopback interface, requires a random token
// with every request, and rejects other Host headers, which protects against DNS rebinding. Includes all of
// httplib; include it only from servers' sources.
#pragma once
#include <httplib.h>

#include <functional>
#include <string>

namespace isobar {

class Loopback {
 public:
  /// Binds the port; 0: any free one. Throws ConfigError, in the name of `command`, if it is in use.
  Loopback(const std::string& command, int port);

  /// Answers 403 to any request in which `shown_token` does not find the token; call it before adding routes.
  void protect(const std::function<std::string(const httplib::Request&)>& shown_token);
  /// Serves until `stop` returns true.
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
