#include "bench/sweep/run/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <set>
#include <system_error>
#include <thread>

#include "bench/sweep/run/proctree.h"
#include "bench/sweep/run/supervise.h"

namespace isobar::sweep {

WatchedProcess::WatchedProcess(const ProcessJob& job) {
  int control[2], report[2];
  if (::pipe2(control, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  if (::pipe2(report, O_CLOEXEC) != 0) {
    const int error = errno;
    ::close(control[0]);
    ::close(control[1]);
    throw std::system_error(error, std::generic_category(), "pipe");
  }
  supervisor_ = ::fork();
  if (supervisor_ == 0) {
    ::close(control[1]);
    ::close(report[0]);
    supervise(job, control[0], report[1]);
  }
  const int error = errno;
  ::close(control[0]);
  ::close(report[1]);
  control_ = control[1];
  report_ = report[0];
  if (supervisor_ < 0) {
    ::close(control_);
    ::close(report_);
    throw std::system_error(error, std::generic_category(), "fork");
  }
}

WatchedProcess::~WatchedProcess() {
  ::close(control_);  // end-of-file makes the supervisor end everything
  if (!ended_) {
    while (::waitpid(supervisor_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(report_);
}

bool WatchedProcess::wait(double seconds, int wakes) {
  if (ended_) return true;
  pollfd p[] = {{report_, POLLIN, 0}, {wakes, POLLIN, 0}};                // a negative one is left out
  if (::poll(p, 2, static_cast<int>(seconds * 1000)) <= 0) return false;  // also after a signal
  if (p[0].revents == 0) return false;
  ProcessOutcome received;
  ssize_t n = 0;
  while ((n = ::read(report_, &received, sizeof received)) < 0 && errno == EINTR) {
  }
  outcome_ = n == sizeof received ? received : ProcessOutcome{};
  ended_ = true;
  while (::waitpid(supervisor_, nullptr, 0) < 0 && errno == EINTR) {
  }
  return true;
}

void WatchedProcess::cancel() {
  tell('c');
}

void WatchedProcess::notify() {
  tell('n');
}

void WatchedProcess::tell(char byte) {
  // On a full or closed pipe the supervisor already knows, or is gone.
  if (!ended_ && ::write(control_, &byte, 1) < 0 && errno != EPIPE && errno != EAGAIN)
    throw std::system_error(errno, std::generic_category(), "cannot tell a trial to stop");
}

int kill_tagged(const std::string& entry) {
  std::set<pid_t> killed;
  for (int round = 0; round < 50; ++round) {
    int living = 0;
    for (pid_t pid : all_processes()) {
      if (pid == ::getpid() || !environment_has(pid, entry)) continue;
      ++living;
      if (::kill(pid, SIGKILL) == 0) killed.insert(pid);
    }
    if (living == 0) break;  // zombies have no environment
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return static_cast<int>(killed.size());
}

}  // namespace isobar::sweep
