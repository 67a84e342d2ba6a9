// A server of this machine among those who mean it ill: endless heads, many slow connections, a taken port.
#include "reports/live/loopback.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "model/base/error.h"

namespace isobar::report {
namespace {

using Seconds = std::chrono::duration<double>;
using SteadyClock = std::chrono::steady_clock;

double since(SteadyClock::time_point begin) {
  return Seconds(SteadyClock::now() - begin).count();
}

class Client {
 public:
  explicit Client(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
  }
  ~Client() {
    if (fd_ >= 0) ::close(fd_);
  }
  Client(Client&& other) noexcept : fd_(std::exchange(other.fd_, -1)), connected_(other.connected_) {}
  Client& operator=(Client&&) = delete;

  bool connected() const { return connected_; }
  // false: the server has closed the connection, or takes nothing any more
  bool say(std::string_view text) const {
    while (!text.empty()) {
      pollfd p{fd_, POLLOUT, 0};
      if (::poll(&p, 1, 5000) <= 0) return false;
      const ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // All that comes within the seconds, until the end.
  std::string rest(double seconds) {
    std::string out;
    char bytes[4096];
    for (const auto begin = SteadyClock::now(); since(begin) < seconds;) {
      pollfd p{fd_, POLLIN, 0};
      if (::poll(&p, 1, 50) <= 0) continue;
      const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
      ended_ = n <= 0;
      if (ended_) return out;
      out.append(bytes, static_cast<size_t>(n));
    }
    return out;
  }
  bool ended() const { return ended_; }

 private:
  int fd_;
  bool connected_ = false, ended_ = false;
};

std::string first_of_query(const HttpRequest& r) {
  const auto shown = r.query.find("token");
  return shown == r.query.end() ? "" : shown->second;
}

// A server that answers "here" with what was asked, until it must stop.
class LoopbackServer : public testing::Test {
 protected:
  LoopbackServer() : server_("test", 0, first_of_query) {
    port_ = std::stoi(server_.origin().substr(server_.origin().rfind(':') + 1));
    thread_ = std::thread([this] {
      server_.run(
          [](const HttpRequest& r) {
            if (r.path == "/slow") std::this_thread::sleep_for(std::chrono::milliseconds(500));
            return HttpAnswer{.body = r.path == "/large" ? std::string(8 << 20, 'x') : "here " + r.path};
          },
          [this] { return stop_.load(); });
    });
  }
  ~LoopbackServer() override { stop(); }

  double stop() {
    const auto begin = SteadyClock::now();
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return since(begin);
  }
  std::string request(const std::string& path, const std::string& more = "") const {
    return "GET " + path + "?token=" + server_.token() +
           " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) + "\r\n" + more + "\r\n";
  }
  std::string get(const std::string& path) const {
    Client c(port_);
    c.say(request(path));
    return c.rest(10);
  }

  Loopback server_;
  int port_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST_F(LoopbackServer, AnswersThoseWhoShowItsToken) {
  const std::string yes = get("/a%20b");
  EXPECT_TRUE(yes.starts_with("HTTP/1.1 200 ")) << yes;
  EXPECT_TRUE(yes.ends_with("\r\n\r\nhere /a b")) << yes;
  for (const char* header : {"X-Content-Type-Options: nosniff", "Referrer-Policy: no-referrer",
                             "Content-Security-Policy: default-src 'none'", "X-Frame-Options: DENY",
                             "Cross-Origin-Resource-Policy: same-origin", "Cache-Control: no-store"})
    EXPECT_NE(yes.find(header), std::string::npos) << header;
  const std::string host = "\r\nHost: 127.0.0.1:" + std::to_string(port_),
                    token = "?token=" + server_.token();
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"GET /a HTTP/1.1" + host, "403"},
      {"GET /a?token=0 HTTP/1.1" + host, "403"},
      {"GET /a" + token + " HTTP/1.1", "403"},
      {"GET /a" + token + " HTTP/1.1\r\nHost: evil.example:" + std::to_string(port_), "403"},
      {"GET /a" + token + " HTTP/1.1" + host + "\r\nHost: evil.example", "400"},
      {"POST /a" + token + " HTTP/1.1" + host + "\r\nContent-Length: 3", "405"},
      {"GET /%0" + token + " HTTP/1.1" + host, "400"},
      {"GET /%00" + token + " HTTP/1.1" + host, "400"},
      {"GET http://evil.example/a" + token + " HTTP/1.1" + host, "400"},
      {"nonsense", "400"}};
  for (const auto& [head, status] : refused) {
    Client c(port_);
    c.say(head + "\r\n\r\nxyz");
    const std::string said = c.rest(10);
    EXPECT_TRUE(said.starts_with("HTTP/1.1 " + status + " ")) << head << "\n" << said;
    EXPECT_EQ(said.find("here /"), std::string::npos) << head;
  }
  EXPECT_EQ(get("/large").size() - get("/large").find("\r\n\r\n") - 4, size_t{8} << 20);
  Client half(port_);  // a head in pieces
  const std::string whole = request("/pieces");
  for (size_t i = 0; i < whole.size(); i += 7) {
    half.say(whole.substr(i, 7));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_TRUE(half.rest(10).ends_with("here /pieces"));
}

// The bytes of a line, or of headers, that never end.
TEST_F(LoopbackServer, AHeadHasAnEnd) {
  const std::string token = "?token=" + server_.token();
  for (const std::string& begin :
       {std::string("GET /"), "GET /a" + token + " HTTP/1.1\r\nX: ", std::string()}) {
    Client c(port_);
    c.say(begin);
    const std::string more(1 << 16, 'x');
    size_t taken = 0;
    while (taken < (size_t{64} << 20) && c.say(more)) taken += more.size();
    EXPECT_LT(taken, size_t{32} << 20) << "it goes on reading";
    EXPECT_NE(get("/after").find("here /after"), std::string::npos);
  }
  Client many(port_);
  many.say(request("/").substr(0, request("/").size() - 2));
  size_t lines = 0;
  while (lines < 1000000 && many.say("a: b\r\n")) ++lines;
  EXPECT_LT(lines, 1000000u);
}

TEST_F(LoopbackServer, AHeadThatIsTooLongIsToldSo) {
  Client c(port_);
  c.say(request("/a", "X: " + std::string(20000, 'x') + "\r\n"));
  const std::string said = c.rest(10);
  EXPECT_TRUE(said.starts_with("HTTP/1.1 431 ")) << said;
}

TEST_F(LoopbackServer, AHeadThatNeverComesIsGivenUp) {
  Client silent(port_), slow(port_);
  const auto begin = SteadyClock::now();
  std::thread drip([&slow] {  // a byte now and then keeps nothing open
    for (int i = 0; i < 200 && slow.say("G"); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  silent.rest(20);
  EXPECT_TRUE(silent.ended());
  slow.rest(20);
  EXPECT_TRUE(slow.ended());
  drip.join();
  EXPECT_LT(since(begin), 15) << "both were given up long ago";
}

// Hundreds of connections that send nothing, a little, or take no answer: the owner is answered at once, and
// the server ends at once.
TEST_F(LoopbackServer, ManySlowConnectionsHoldNothingUp) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const size_t most = std::min<size_t>(600, files.rlim_cur > 400 ? (files.rlim_cur - 300) / 2 : 0);
  if (most < 64) GTEST_SKIP() << "ulimit -n is " << files.rlim_cur;
  std::vector<Client> slow;
  for (size_t i = 0; i < most; ++i) {
    slow.emplace_back(port_);
    ASSERT_TRUE(slow.back().connected()) << i;
    if (i % 3 == 1) slow.back().say("GET / HTTP/1.1\r\nX-Slow: ");
    if (i % 3 == 2) slow.back().say("GET / HTTP/1.1\r\n\r\n");  // and reads nothing
    if (i % 100 == 99) {
      const auto begin = SteadyClock::now();
      EXPECT_NE(get("/now").find("here /now"), std::string::npos) << i;
      EXPECT_LT(since(begin), 2) << i << " slow connections";
    }
  }
  slow.emplace_back(port_);
  slow.back().say(request("/slow"));
  slow.emplace_back(port_);
  slow.back().say(request("/large"));  // an answer that is not taken
  EXPECT_LT(stop(), 1.5);
}

TEST_F(LoopbackServer, TwoServersDoNotShareAPort) {
  try {
    const Loopback second("isobar test", port_, first_of_query);
    ADD_FAILURE() << "both have it";
  } catch (const ConfigError& e) {
    EXPECT_EQ(std::string(e.what()),
              ConfigError("isobar test", "--port", std::to_string(port_) + " is taken by another program",
                          "name another, or leave it out: any free port is taken")
                  .what());
  }
  EXPECT_NE(get("/first").find("here /first"), std::string::npos);
  stop();
}

TEST(LoopbackPort, IsFreeAgainAtOnce) {
  int port = 0;
  for (int i = 0; i < 3; ++i) {  // a connection that the server closes leaves the port in TIME_WAIT
    Loopback server("test", port, first_of_query);
    port = std::stoi(server.origin().substr(server.origin().rfind(':') + 1));
    std::atomic<bool> stop = false;
    std::thread thread([&] {
      server.run([](const HttpRequest&) { return HttpAnswer{.body = "x"}; }, [&stop] { return stop.load(); });
    });
    Client c(port);
    c.say("GET / HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(c.rest(10).starts_with("HTTP/1.1 403 "));
    stop = true;
    thread.join();
  }
}

TEST(Http, NamesOfFilesSurviveAnAddress) {
  const std::string name = "a b/ü%?#\"<>&+.html";
  const auto r =
      parse_head("GET /" + percent_encoded(name) + "?q=1&token=2&token=3&e HTTP/1.1\r\nHOST:  x \r\n\r\n");
  ASSERT_TRUE(r);
  EXPECT_EQ(r->path, "/" + name);
  EXPECT_EQ(r->query.at("token"), "2");
  EXPECT_EQ(r->query.at("e"), "");
  EXPECT_EQ(r->headers.at("host"), "x");
  for (const char* bad :
       {"", "\r\n\r\n", "GET", "GET / HTTP/2\r\n\r\n", "GET / \r\n\r\n", " / HTTP/1.1\r\n\r\n",
        "GET x HTTP/1.1\r\n\r\n", "GET /%zz HTTP/1.1\r\n\r\n", "GET /% HTTP/1.1\r\n\r\n"})
    EXPECT_FALSE(parse_head(bad)) << bad;
}

}  // namespace
}  // namespace isobar::report
