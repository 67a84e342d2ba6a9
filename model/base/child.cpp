#include "model/base/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <new>
#include <system_error>

#include "model/base/error.h"

namespace isobar {
namespace {

using Clock = std::chrono::steady_clock;

// What a child writes: a kind, the length, the bytes.
enum class Kind : char { progress = 'p', answer = 'a', refusal = 'r', error = 'e', memory = 'm' };
struct Head {
  Kind kind;
  uint64_t bytes;
};
constexpr uint64_t kLongest = uint64_t{256} << 20;  // a child that is out of its mind may claim any length

[[noreturn]] void fail(const char* doing) {
  throw std::system_error(errno, std::generic_category(), doing);
}

void write_all(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) ::_exit(1);  // nobody listens any more
    at += n, bytes -= static_cast<size_t>(n);
  }
}

void send(int fd, Kind kind, const std::string& text) {
  Head head;
  std::memset(&head, 0, sizeof head);
  head.kind = kind;
  head.bytes = text.size();
  write_all(fd, &head, sizeof head);
  write_all(fd, text.data(), text.size());
}

// A limit on the address space counts what the parent had mapped already.
void limit_memory(int64_t bytes) {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + bytes);
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
}

void limit_time(int64_t seconds) {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const rlimit limit{static_cast<rlim_t>(used.ru_utime.tv_sec + used.ru_stime.tv_sec + 1 + seconds),
                     RLIM_INFINITY};
  ::setrlimit(RLIMIT_CPU, &limit);
}

[[noreturn]] void live(int fd, const ChildLimits& limits, pid_t parent,
                       const std::function<std::string(const ChildProgress&)>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGXCPU})
    ::signal(s, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const int quiet = ::open("/dev/null", O_RDWR);  // the C library has last words of its own
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(quiet, stream);
  limit_memory(limits.memory_bytes);
  limit_time(limits.cpu_s);
  try {
    const std::string answer = work([&](int64_t done) {
      limit_time(limits.cpu_s);
      send(fd, Kind::progress, std::to_string(done));
    });
    send(fd, Kind::answer, answer);
  } catch (const ConfigError& e) {
    send(fd, Kind::refusal, e.what());
  } catch (const std::bad_alloc&) {
    send(fd, Kind::memory, "");
  } catch (const std::exception& e) {
    send(fd, Kind::error, e.what());
  }
  ::_exit(0);  // no destructor, no buffer of the parent's
}

class Child {  // ends with its owner
 public:
  Child(pid_t pid, int fd) : pid_(pid), fd_(fd) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      wait();
    }
    ::close(fd_);
  }
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }
  /// False at the end of what it says.
  bool read(void* data, size_t bytes, Clock::time_point until, int64_t wall_s) const {
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      pollfd ready{fd_, POLLIN, 0};
      const int n = ::poll(&ready, 1, static_cast<int>(std::max<int64_t>(left, 0)));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("poll");
      if (n == 0) throw ChildDied("did not get on for " + std::to_string(wall_s) + " s");
      const ssize_t got = ::read(fd_, at, bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got, bytes -= static_cast<size_t>(got);
    }
    return true;
  }

 private:
  pid_t pid_;
  int fd_;
};

std::string memory_text(const ChildLimits& limits) {
  return "needs more than " + std::to_string(limits.memory_bytes >> 20) + " MiB of memory";
}

[[noreturn]] void explain(int status, const ChildLimits& limits) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
    throw ChildDied("takes more than " + std::to_string(limits.cpu_s) + " s of processor time");
  if (WIFSIGNALED(status)) {
    const char* name = ::sigabbrev_np(WTERMSIG(status));
    throw ChildDied("ends the process that reads it with SIG" +
                    (name ? std::string(name) : std::to_string(WTERMSIG(status))));
  }
  throw ChildDied("ends the process that reads it with exit code " + std::to_string(WEXITSTATUS(status)));
}

}  // namespace

std::string in_child(const ChildLimits& limits, const std::function<std::string(const ChildProgress&)>& work,
                     const ChildProgress& seen) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    fail("fork");
  }
  if (pid == 0) live(ends[1], limits, parent, work);
  ::close(ends[1]);
  Child child(pid, ends[0]);
  for (;;) {
    const auto until = Clock::now() + std::chrono::seconds(limits.wall_s);
    Head head{};
    if (!child.read(&head, sizeof head, until, limits.wall_s)) explain(child.wait(), limits);
    if (head.bytes > kLongest) throw ChildDied("makes the process that reads it answer nonsense");
    std::string text(head.bytes, '\0');
    if (!child.read(text.data(), text.size(), until, limits.wall_s)) explain(child.wait(), limits);
    if (head.kind == Kind::progress) {
      if (seen) seen(std::atoll(text.c_str()));
      continue;
    }
    if (head.kind == Kind::answer) return text;
    if (head.kind == Kind::refusal) throw ConfigError::from_line(text);
    if (head.kind == Kind::memory) throw ChildDied(memory_text(limits));
    throw std::runtime_error(text);
  }
}

}  // namespace isobar
