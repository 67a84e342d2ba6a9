// The connections of a server: one thread reads heads and sends answers, a few others make them.
//
//   Connections(listener, allowed, {.status = 403}, answer).serve(stop);
//
// Until a request has been allowed, its connection has a limit of bytes and of seconds and is one of a
// limited number: a new one takes the place of the oldest. So whatever comes without the token holds nothing
// up.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "reports/live/http.h"

namespace isobar::report {

class Connections {
 public:
  using Answer = std::function<HttpAnswer(const HttpRequest&)>;

  /// `listener`: a socket that listens, and does not block.
  Connections(int listener, std::function<bool(const HttpRequest&)> allowed, const HttpAnswer& refusal,
              Answer answer);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  void serve(const std::function<bool()>& stop);

 private:
  struct Connection;
  using Clock = std::chrono::steady_clock;

  void poll_once();
  void accept_all();
  bool drop_oldest_stranger();  // false: there is none
  // These return false for a connection that is over.
  bool advance(const std::shared_ptr<Connection>& c);
  bool hear(const std::shared_ptr<Connection>& c);
  bool tell(Connection& c);
  bool leave(Connection& c);
  bool drain(Connection& c);
  void judge(const std::shared_ptr<Connection>& c, std::string_view head);
  void give(Connection& c, HttpAnswer answer);
  void make_answers();
  void send_made();

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

}  // namespace isobar::report
