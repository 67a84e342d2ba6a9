#include "reports/live/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "reports/live/http.h"

namespace isobar::report {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLongestHead = 16 << 10;  // bytes
constexpr milliseconds kHeadTime{5000};    // until the whole head is there
constexpr milliseconds kSilence{30000};    // of a reader that takes no byte of its answer
constexpr milliseconds kDrainTime{1000};   // for what a refused request still sends
constexpr milliseconds kTick{100};         // between two looks at `stop`
constexpr size_t kStrangers = 256;         // connections without an allowed request
constexpr int kMakers = 4;
constexpr size_t kAtOnce = 4 << 20, kMostDrained = 1 << 20;  // bytes

/// The connections of a server: one thread reads heads and sends answers, a few others make them. Until a
/// request has been allowed, its connection has a limit of bytes and of seconds and is one of a limited
/// number: a new one takes the place of the oldest. So whatever comes without the token holds nothing up.
class Connections {
 public:
  using Answer = std::function<HttpAnswer(const HttpRequest&)>;

  /// `listener`: a socket that listens, and does not block.
  Connections(int listener, std::function<bool(const HttpRequest&)> allowed, const HttpAnswer& refusal,
              Answer answer)
      : listener_(listener), allowed_(std::move(allowed)), refusal_(refusal), answer_(std::move(answer)) {
    made_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    for (int i = 0; i < kMakers; ++i) makers_.emplace_back([this] { make_answers(); });
  }
  ~Connections() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
      to_make_.clear();
    }
    asked_.notify_all();
    for (std::thread& t : makers_) t.join();
    ::close(made_);
  }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  void serve(const std::function<bool()>& stop) {
    while (!stop()) poll_once();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    enum class State { hears, waits, tells, drains };

    Connection(int descriptor, Clock::time_point limit) : fd(descriptor), deadline(limit) {}
    ~Connection() { ::close(fd); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    short events() const { return state == State::tells ? POLLOUT : state == State::waits ? 0 : POLLIN; }

    const int fd;
    Clock::time_point deadline;
    State state = State::hears;
    bool allowed = false, more = false, gone = false;  // more: was sent than its head
    std::string in, head;
    HttpRequest request;
    HttpAnswer answer;
    size_t sent = 0, drained = 0;  // sent: of head and body
  };

  void poll_once() {
    const bool hears = Clock::now() >= deaf_until_;
    std::vector<pollfd> at = {{listener_, static_cast<short>(hears ? POLLIN : 0), 0}, {made_, POLLIN, 0}};
    for (const auto& c : open_) at.push_back({c->fd, c->events(), 0});
    if (::poll(at.data(), at.size(), static_cast<int>(kTick.count())) < 0) {
      if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "poll");
      return;
    }
    size_t i = 2;
    for (auto c = open_.begin(); c != open_.end(); ++i) {
      const bool late = (*c)->state != Connection::State::waits && Clock::now() > (*c)->deadline;
      (*c)->gone = late || (at[i].revents != 0 && !advance(*c));
      c = (*c)->gone ? open_.erase(c) : std::next(c);
    }
    send_made();
    if (at[0].revents != 0) accept_all();
  }
  void accept_all() {
    for (size_t n = 0; n < kStrangers; ++n) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        if (drop_oldest_stranger()) continue;
        deaf_until_ = Clock::now() + kTick;
      }
      if (fd < 0) return;
      auto c = std::make_shared<Connection>(fd, Clock::now() + kHeadTime);
      if (!advance(c)) continue;  // what it sent with its coming
      open_.push_back(std::move(c));
      const auto strangers =
          std::count_if(open_.begin(), open_.end(), [](const auto& o) { return !o->allowed; });
      if (static_cast<size_t>(strangers) > kStrangers) drop_oldest_stranger();
    }
  }
  // false: there is none
  bool drop_oldest_stranger() {
    const auto oldest = std::find_if(open_.begin(), open_.end(), [](const auto& c) { return !c->allowed; });
    if (oldest == open_.end()) return false;
    open_.erase(oldest);
    return true;
  }
  // These return false for a connection that is over.
  bool advance(const std::shared_ptr<Connection>& c) {
    switch (c->state) {
      case Connection::State::hears:
        return hear(c);
      case Connection::State::tells:
        return tell(*c);
      case Connection::State::drains:
        return drain(*c);
      default:
        return false;  // its reader has gone while the answer was being made
    }
  }
  bool hear(const std::shared_ptr<Connection>& c) {
    char bytes[4096];
    while (true) {
      const ssize_t n = ::recv(c->fd, bytes, sizeof bytes, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
      if (n == 0) return false;
      const size_t from = c->in.size() < 3 ? 0 : c->in.size() - 3;
      c->in.append(bytes, static_cast<size_t>(n));
      const size_t end = c->in.find("\r\n\r\n", from);
      const bool whole = end != std::string::npos && end + 4 <= kLongestHead;
      if (!whole && c->in.size() < kLongestHead) continue;
      c->more = !whole || c->in.size() > end + 4;
      if (whole) {
        judge(c, std::string_view(c->in).substr(0, end + 4));
      } else {
        give(*c, {.status = 431, .body = "The head of this request is too long.\n"});
      }
      std::string().swap(c->in);
      return c->state != Connection::State::tells || tell(*c);
    }
  }
  bool tell(Connection& c) {
    for (size_t end = c.sent + kAtOnce; c.sent < end;) {
      const bool of_head = c.sent < c.head.size();
      std::string_view left = of_head ? std::string_view(c.head) : std::string_view(c.answer.body);
      left.remove_prefix(of_head ? c.sent : c.sent - c.head.size());
      if (left.empty()) return leave(c);
      const ssize_t n = ::send(c.fd, left.data(), left.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
      c.sent += static_cast<size_t>(n);
      if (c.allowed) c.deadline = Clock::now() + kSilence;
    }
    return true;
  }
  bool leave(Connection& c) {
    // Closing while bytes wait to be read would reset the connection, and may take the answer with it.
    if (!c.more || ::shutdown(c.fd, SHUT_WR) != 0) return false;
    c.state = Connection::State::drains;
    c.deadline = Clock::now() + kDrainTime;
    return true;
  }
  bool drain(Connection& c) {
    char bytes[16 << 10];
    const ssize_t n = ::recv(c.fd, bytes, sizeof bytes, 0);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    c.drained += static_cast<size_t>(n);
    return n > 0 && c.drained < kMostDrained;
  }
  void judge(const std::shared_ptr<Connection>& c, std::string_view head) {
    const std::optional<HttpRequest> request = parse_head(head);
    if (!request) return give(*c, {.status = 400, .body = "This is no request of HTTP/1.1.\n"});
    c->request = *request;
    if (!allowed_(*request)) return give(*c, refusal_);
    if (request->method != "GET" && request->method != "HEAD")
      return give(*c, {.status = 405, .body = "Nothing can be changed here.\n"});
    c->allowed = true;
    c->state = Connection::State::waits;
    const std::lock_guard<std::mutex> lock(mutex_);
    to_make_.push_back(c);
    asked_.notify_one();
  }
  void give(Connection& c, HttpAnswer answer) {
    c.answer = std::move(answer);
    c.head = head_of(c.answer);
    if (c.request.method == "HEAD") c.answer.body.clear();
    c.state = Connection::State::tells;
    c.deadline = Clock::now() + (c.allowed ? kSilence : kHeadTime);
  }
  void make_answers() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      asked_.wait(lock, [this] { return ends_ || !to_make_.empty(); });
      if (ends_) return;
      const std::shared_ptr<Connection> c = std::move(to_make_.front());
      to_make_.pop_front();
      lock.unlock();
      HttpAnswer made;
      try {
        made = answer_(c->request);
      } catch (const std::exception& e) {
        made = {.status = 500, .body = std::string(e.what()) + "\n"};
      }
      lock.lock();
      c->answer = std::move(made);
      to_send_.push_back(c);
      const uint64_t one = 1;
      if (::write(made_, &one, sizeof one) < 0) continue;  // it is full, and says so already
    }
  }
  void send_made() {
    std::deque<std::shared_ptr<Connection>> made;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      uint64_t count = 0;
      if (::read(made_, &count, sizeof count) < 0) return;  // none
      made.swap(to_send_);
    }
    for (const auto& c : made) {
      if (c->gone) continue;
      give(*c, std::move(c->answer));
      if (!tell(*c)) open_.remove(c);
    }
  }

  const int listener_;
  const std::function<bool(const HttpRequest&)> allowed_;
  const HttpAnswer refusal_;
  const Answer answer_;
  std::list<std::shared_ptr<Connection>> open_;  // in the order of their coming
  Clock::time_point deaf_until_ = {};            // no descriptor is left for another connection

  int made_ = -1;  // an eventfd: answers are ready
  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<std::shared_ptr<Connection>> to_make_, to_send_;  // under mutex_
  bool ends_ = false;                                          // under mutex_
  std::vector<std::thread> makers_;
};

constexpr const char* kLoopback = "127.0.0.1";

std::string random_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
    throw std::system_error(errno, std::generic_category(), "getrandom");
  std::string out;
  for (const unsigned char b : bytes) out += printed("%02x", b);
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
  Connections(
      listener_, [this](const HttpRequest& r) { return allowed(r); }, refusal, answer)
      .serve(stop);
}

}  // namespace isobar::report
