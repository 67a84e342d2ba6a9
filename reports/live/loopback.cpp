#include "reports/live/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "model/base/error.h"
#include "reports/connections.h"

namespace isobar::report {
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

ConfigError not_bound(const std::string& command, int port, int error) {
  const std::string why = error == EADDRINUSE ? "is taken by another program"
                          : error == EACCES   ? "is one of root's (below 1024)"
                                              : std::string("cannot be bound: ") + std::strerror(error);
  return ConfigError(command, "--port", std::to_string(port) + " " + why,
                     "name another, or leave it out: any free port is taken");
}

}  // namespace

Loopback::Loopback(const std::string& command, int port, ShownToken shown)
    : command_(command), token_(random_token()), shown_(std::move(shown)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener_ < 0) throw std::system_error(errno, std::generic_category(), "socket");
  // A port whose last connections are still closing; one that another program listens on stays refused.
  const int yes = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  ::inet_pton(AF_INET, kLoopback, &at.sin_addr);
  socklen_t size = sizeof at;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::listen(listener_, SOMAXCONN) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
    const int error = errno;
    ::close(listener_);
    throw not_bound(command, port, error);
  }
  port_ = ntohs(at.sin_port);
}

Loopback::~Loopback() {
  ::close(listener_);
}

std::string Loopback::origin() const {
  return std::string("http://") + kLoopback + ":" + std::to_string(port_);
}

bool Loopback::allowed(const HttpRequest& request) const {
  const auto named = request.headers.find("host");
  if (named == request.headers.end()) return false;
  const std::string port = ":" + std::to_string(port_);
  return (named->second == kLoopback + port || named->second == "localhost" + port) &&
         same(shown_(request), token_);
}

void Loopback::run(const std::function<HttpAnswer(const HttpRequest&)>& answer,
                   const std::function<bool()>& stop) {
  const HttpAnswer refusal{.status = 403,
                           .body = "Not allowed: open the whole address that " + command_ + " printed.\n"};
  serve_connections(
      listener_, [this](const HttpRequest& r) { return allowed(r); }, refusal, answer, stop);
}

}  // namespace isobar::report
