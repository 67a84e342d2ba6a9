#include "reports/loopback.h"

#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <thread>

#include "model/base/error.h"

namespace isobar {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

std::string random_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  std::string out;
  char hex[3];
  for (const unsigned char b : bytes) {
    std::snprintf(hex, sizeof hex, "%02x", b);
    out += hex;
  }
  return out;
}

// Constant-time comparison of secrets.
bool same(const std::string& a, const std::string& b) {
  unsigned char differ = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    differ = static_cast<unsigned char>(differ | (a[i] ^ b[i]));
  return differ == 0;
}

}  // namespace

Loopback::Loopback(const std::string& command, int port) : command_(command), token_(random_token()) {
  server_.set_default_headers({{"Cache-Control", "no-store"},
                               {"Referrer-Policy", "no-referrer"},
                               {"X-Content-Type-Options", "nosniff"},
                               {"X-Frame-Options", "DENY"}});
  port_ =
      port > 0 ? (server_.bind_to_port(kLoopback, port) ? port : -1) : server_.bind_to_any_port(kLoopback);
  if (port_ <= 0)
    throw ConfigError(command, "--port", std::to_string(port) + " cannot be bound",
                      "leave it out: any free port is taken");
}

void Loopback::protect(const std::function<std::string(const httplib::Request&)>& shown_token) {
  server_.set_pre_routing_handler(
      [this, shown_token](const httplib::Request& request, httplib::Response& response) {
        if (is_named(request) && same(shown_token(request), token_))
          return httplib::Server::HandlerResponse::Unhandled;
        response.status = 403;
        response.set_content("Not allowed: open the whole address that " + command_ + " printed.\n",
                             "text/plain");
        return httplib::Server::HandlerResponse::Handled;
      });
}

void Loopback::run(const std::function<bool()>& stop) {
  std::thread thread([this] { server_.listen_after_bind(); });
  while (!stop()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  server_.stop();
  thread.join();
}

std::string Loopback::origin() const {
  return std::string("http://") + kLoopback + ":" + std::to_string(port_);
}

bool Loopback::is_named(const httplib::Request& request) const {
  const std::string host = request.get_header_value("Host"), port = ":" + std::to_string(port_);
  return host == kLoopback + port || host == "localhost" + port;
}

}  // namespace isobar
