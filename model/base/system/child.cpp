#include "model/base/system/child.h"

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
#include "model/base/system/signal_name.h"

namespace isobar {
namespace {

using Clock = std::chrono::steady_clock;

bool is_child = false;

// A child's messages: a kind, the length, the bytes.
enum class Kind : char { progress = 'p', answer = 'a', refusal = 'r', error = 'e', memory = 'm' };
struct Head {
  Kind kind;
  uint64_t bytes;
};
constexpr uint64_t kLongest = uint64_t{256} << 20;  // a child whose memory is corrupt may claim any length

[[noreturn]] void fail(const char* doing) {
  throw std::system_error(errno, std::generic_category(), doing);
}

void write_all(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) ::_exit(1);  // the parent no longer reads
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

// RLIMIT_AS also counts what the parent had mapped already.
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
  is_child = true;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  for (const int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGXCPU})
    ::signal(s, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  const int quiet = ::open("/dev/null", O_RDWR);  // the C library prints a message of its own on abort
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

std::string memory_text(const ChildLimits& limits) {
  return "needs more than " + std::to_string(limits.memory_bytes >> 20) + " MiB of memory";
}

}  // namespace

bool in_a_child() {
  return is_child;
}

std::string ended_by(int signal) {
  return "ends the process that reads it with " + signal_name(signal);
}

ChildWork::ChildWork(const ChildLimits& limits, const std::function<std::string(const ChildProgress&)>& work)
    : limits_(limits) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    fail("fork");
  }
  if (pid_ == 0) live(ends[1], limits, parent, work);
  ::close(ends[1]);
  fd_ = ends[0];
}

ChildWork::~ChildWork() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    wait();
  }
  ::close(fd_);
}

int ChildWork::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

/// False at the end of the child's output.
bool ChildWork::read(void* data, size_t bytes, Clock::time_point until) const {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd ready{fd_, POLLIN, 0};
    const int n = ::poll(&ready, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("poll");
    if (n == 0) throw ChildDied("did not get on for " + std::to_string(limits_.wall_s) + " s");
    const ssize_t got = ::read(fd_, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got, bytes -= static_cast<size_t>(got);
  }
  return true;
}

void ChildWork::explain() {
  const int status = wait();
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
    throw ChildDied("takes more than " + std::to_string(limits_.cpu_s) + " s of processor time");
  if (WIFSIGNALED(status)) throw ChildDied(ended_by(WTERMSIG(status)));
  throw ChildDied("ends the process that reads it with exit code " + std::to_string(WEXITSTATUS(status)));
}

std::string ChildWork::answer(const ChildProgress& seen) {
  for (;;) {
    const auto until = Clock::now() + std::chrono::seconds(limits_.wall_s);
    Head head{};
    if (!read(&head, sizeof head, until)) explain();
    if (head.bytes > kLongest) throw ChildDied("makes the process that reads it answer nonsense");
    std::string text(head.bytes, '\0');
    if (!read(text.data(), text.size(), until)) explain();
    switch (head.kind) {
      case Kind::progress:
        if (seen) seen(std::atoll(text.c_str()));
        break;
      case Kind::answer:
        return text;
      case Kind::refusal:
        throw ConfigError::from_line(text);
      case Kind::memory:
        throw ChildDied(memory_text(limits_));
      case Kind::error:
        throw ChildFailed(text);
      default:
        throw ChildDied("makes the process that reads it answer nonsense");
    }
  }
}

}  // namespace isobar
