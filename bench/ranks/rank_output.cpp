#include "bench/ranks/rank_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/base/text/printed.h"
#include "model/engine/host/host.h"

namespace isobar::ranks {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kPatience_s = 5;        // for a reader that does not take its output
constexpr size_t kLongestLine = 1 << 16;  // a longer line is split

// ---- the process that forwards lines

/// A destination of lines; abandoned, with one message on `complaints`, when it takes no more.
class Sink {
 public:
  Sink() = default;
  Sink(int fd, std::string name, int complaints) : fd_(fd), complaints_(complaints), name_(std::move(name)) {}
  bool open() const { return fd_ >= 0; }
  bool failed() const { return failed_; }
  void write(const std::string& text) {
    for (size_t done = 0; fd_ >= 0 && done < text.size();) {
      const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
      if (n > 0) done += static_cast<size_t>(n);
      if (n < 0 && errno == EAGAIN) {  // a terminal that another program made non-blocking
        pollfd p{fd_, POLLOUT, 0};
        ::poll(&p, 1, -1);
      } else if (n < 0 && errno != EINTR) {
        give_up(std::strerror(errno));
      }
    }
  }

 private:
  void give_up(const char* why) {
    fd_ = -1;
    failed_ = true;
    const std::string text = "isobar: " + name_ + ": cannot be written: " + why + "\n";
    if (::write(complaints_, text.data(), text.size()) < 0) complaints_ = -1;  // cannot be reported
  }

  int fd_ = -1, complaints_ = -1;
  bool failed_ = false;
  std::string name_;
};

struct RankStream {
  int from = -1;          // read end of the pipe
  Sink console = {};      // closed: lines go only to the file
  bool tagged = false;    // for the console
  std::string rest = {};  // an unfinished line
};

class Forwarder {
 public:
  Forwarder(std::string tag, fs::path file, std::array<RankStream, 2> streams, int go)
      : tag_(std::move(tag)), path_(std::move(file)), streams_(std::move(streams)), go_(go) {}

  int operator()() {
    while (streams_[0].from >= 0 || streams_[1].from >= 0) {
      std::array<pollfd, 3> p = {
          {{streams_[0].from, POLLIN, 0}, {streams_[1].from, POLLIN, 0}, {go_, POLLIN, 0}}};
      if (::poll(p.data(), p.size(), -1) < 0) continue;
      if (p[2].revents) begin_file();
      for (size_t i = 0; i < streams_.size(); ++i)
        if (p[i].revents) take(streams_[i]);
    }
    // The training was refused and its folder may be another's: print the held lines, so that none is lost.
    for (const Held& h : held_)
      if (!h.shown) streams_[1].console.write(tag_ + h.line);
    return streams_[0].console.failed() || streams_[1].console.failed() || file_.failed() ? 1 : 0;
  }

 private:
  struct Held {
    std::string line;
    bool shown;
  };

  void begin_file() {
    char word = 0;
    const ssize_t n = ::read(go_, &word, 1);
    if (n < 0 && errno == EINTR) return;
    ::close(std::exchange(go_, -1));
    if (n != 1) return;
    file_ = Sink(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666), path_.string(),
                 STDERR_FILENO);
    file_.write(tag_ + engine::utc_now() + "\n");
    for (const Held& h : std::exchange(held_, {})) file_.write(h.line);
  }

  void take(RankStream& s) {
    char bytes[1 << 14];
    const ssize_t n = ::read(s.from, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
      ::close(std::exchange(s.from, -1));
      if (!s.rest.empty()) pass(s, std::exchange(s.rest, {}) + "\n");
      return;
    }
    s.rest.append(bytes, static_cast<size_t>(n));
    size_t begin = 0;
    for (size_t end; (end = s.rest.find('\n', begin)) != std::string::npos; begin = end + 1)
      pass(s, s.rest.substr(begin, end + 1 - begin));
    s.rest.erase(0, begin);
    if (s.rest.size() > kLongestLine) pass(s, std::exchange(s.rest, {}) + "\n");
  }

  void pass(RankStream& s, const std::string& line) {
    s.console.write(s.tagged ? tag_ + line : line);  // in one write, so that lines of ranks do not mix
    if (go_ >= 0)
      held_.push_back({line, s.console.open()});
    else
      file_.write(line);
  }

  const std::string tag_;
  const fs::path path_;
  std::array<RankStream, 2> streams_;
  int go_;  // a byte from here allows the file; -1: there is none, or it is made
  Sink file_;
  std::vector<Held> held_;  // lines until then
};

// ---- the rank's side

struct Forwarding {
  pid_t process = -1;
  int go = -1;
  fs::path file;
};

std::optional<Forwarding>& forwarding() {  // one a process, as standard output is
  static std::optional<Forwarding> f;
  return f;
}

std::string tag_of_rank(int rank) {
  char host[256] = "?";
  if (::gethostname(host, sizeof host - 1) != 0) std::strcpy(host, "?");
  return "[rank " + std::to_string(rank) + " " + host + "] ";
}

std::array<int, 2> new_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  return ends;
}

template <typename Done>
void wait_for(const Done& done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPatience_s);
  while (!done() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

[[noreturn]] void forward(const std::string& how, int rank, const fs::path& file, int out, int err, int go) {
  ::setpgid(0, 0);  // must outlive a kill of the rank's group, to forward its last words
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGUSR1, SIGUSR2, SIGPIPE}) ::signal(s, SIG_IGN);
  const bool all = how == "all", first = rank == 0;
  Sink console_out, console_err(STDERR_FILENO, "standard error", STDERR_FILENO);
  if (all || first) console_out = Sink(STDOUT_FILENO, "standard output", STDERR_FILENO);
  Forwarder f(tag_of_rank(rank), file,
              {RankStream{.from = out, .console = console_out, .tagged = all},
               RankStream{.from = err, .console = console_err, .tagged = all || !first}},
              go);
  ::_exit(f());
}

}  // namespace

void begin_rank_output(const std::string& how, int rank, const fs::path& run_dir) {
  if (how == "first") return;
  Forwarding f;
  std::array<int, 2> go = {-1, -1};
  if (how == "files") {
    const std::string name = printed("rank-%04d.log", rank);
    f.file = run_dir / "ranks" / name;
    go = new_pipe();
  }
  const auto out = new_pipe(), err = new_pipe();
  std::fflush(nullptr);
  f.process = ::fork();
  if (f.process < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (f.process == 0) {
    for (const int end : {out[1], err[1], go[1]})
      if (end >= 0) ::close(end);
    forward(how, rank, f.file, out[0], err[0], go[0]);
  }
  for (const int end : {out[0], err[0], go[0]})
    if (end >= 0) ::close(end);
  ::dup2(out[1], STDOUT_FILENO);
  ::dup2(err[1], STDERR_FILENO);
  ::close(out[1]);
  ::close(err[1]);
  f.go = go[1];
  forwarding() = f;
}

void keep_rank_output() {
  if (!forwarding() || forwarding()->go < 0) return;
  const fs::path& file = forwarding()->file;
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  const int fd = failed ? -1 : ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0)
    throw ConfigError(file.string(), "",
                      "cannot be written: " + (failed ? failed.message() : std::strerror(errno)),
                      "make run.out writable, or leave out --rank-output files");
  ::close(fd);
  const int go = std::exchange(forwarding()->go, -1);
  if (::write(go, "g", 1) != 1) throw std::system_error(errno, std::generic_category(), file.string());
  ::close(go);
}

void settle_rank_output() {
  if (!forwarding()) return;
  std::fflush(nullptr);
  const auto taken = [](int fd) {
    int bytes = 0;
    return ::ioctl(fd, FIONREAD, &bytes) != 0 || bytes == 0;
  };
  wait_for([&] { return taken(STDOUT_FILENO) && taken(STDERR_FILENO); });
}

int end_rank_output(int code) {
  if (!forwarding()) return code;
  std::fflush(nullptr);
  if (forwarding()->go >= 0) ::close(forwarding()->go);
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  int status = 0;
  pid_t ended = 0;
  wait_for([&] { return (ended = ::waitpid(forwarding()->process, &status, WNOHANG)) != 0; });
  forwarding().reset();
  const bool failed = ended > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return code == 0 && failed ? 1 : code;
}

}  // namespace isobar::ranks
