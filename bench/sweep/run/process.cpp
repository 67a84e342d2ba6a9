#include "bench/sweep/run/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <set>
#include <system_error>
#include <thread>

#include "bench/sweep/run/proctree.h"

namespace isobar::sweep {
namespace {

// The supervisor of one command (see process.h); runs in a forked child and never returns.

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

// ---- child side of the fork ----------------------------------------------------------------------------
[[noreturn]] void become(const ProcessJob& job, pid_t supervisor, int failure_pipe) {
  const auto give_up = [&] {
    const int error = errno;
    if (::write(failure_pipe, &error, sizeof error) < 0) ::_exit(126);
    ::_exit(127);
  };
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != supervisor) ::_exit(127);  // it died before prctl took effect
  for (int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGUSR1}) ::signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int in = ::open("/dev/null", O_RDONLY);
  const int out = ::open(job.out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const int err = ::open(job.err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (in < 0 || out < 0 || err < 0) give_up();
  if (::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(err, 2) < 0) give_up();
  for (int fd : {in, out, err})
    if (fd > 2) ::close(fd);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // If the host runs out of memory, the kernel should kill the trial rather than the sweep. Best effort.
  if (const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); fd >= 0) {
    if (::write(fd, "500", 3) != 3) errno = 0;
    ::close(fd);
  }
  for (const auto& [name, value] : job.env) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& a : job.argv) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  give_up();
  ::_exit(127);
}

// ---- supervision ---------------------------------------------------------------------------------------
class Supervisor {
 public:
  Supervisor(const ProcessJob& job, int control, int report)
      : job_(job), control_(control), report_(report) {}

  [[noreturn]] void run() {
    ::setsid();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::prctl(PR_SET_NAME, "isobar-watch");
    for (int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(s, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, nullptr);
    signals_ = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    oom_before_ = oom_kills();
    start_ = Clock::now();
    if (start()) watch();
    finish();
  }

 private:
  bool start() {
    int failure[2];
    if (::pipe2(failure, O_CLOEXEC) != 0) return not_started(errno);
    const pid_t self = ::getpid();
    command_ = ::fork();
    if (command_ == 0) become(job_, self, failure[1]);
    const int fork_error = errno;
    ::close(failure[1]);
    int error = 0;
    ssize_t n = 0;
    if (command_ > 0)
      while ((n = ::read(failure[0], &error, sizeof error)) < 0 && errno == EINTR) {
      }
    ::close(failure[0]);
    if (command_ < 0) return not_started(fork_error);
    if (n == sizeof error) return not_started(error);
    return true;
  }

  bool not_started(int error) {
    outcome_.end = ProcessEnd::not_started;
    outcome_.code = error;
    return false;
  }

  void watch() {
    progress_at_ = Clock::now();
    progress_ = progress_mark();
    while (!command_ended_) {
      pollfd p[2] = {{signals_, POLLIN, 0}, {control_, POLLIN, 0}};
      ::poll(p, 2, job_.limits.memory_bytes ? 50 : 200);
      signalfd_siginfo drain;
      while (::read(signals_, &drain, sizeof drain) == sizeof drain) {
      }
      reap();
      if (p[1].revents) control();
      if (!command_ended_) enforce();
    }
  }

  void control() {
    char byte = 0;
    const ssize_t n = ::read(control_, &byte, 1);
    if (n == 0) {  // the owner died
      kill_all();
      ::_exit(1);
    }
    if (n == 1 && byte == 'n') ::kill(command_, SIGUSR1);
    if (n == 1 && byte == 'c') stop(ProcessEnd::cancelled);
  }

  void reap() {
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid != command_) continue;
      command_ended_ = true;
      if (stopping_) {
        outcome_.end = reason_;
        outcome_.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      } else {
        outcome_.end = WIFEXITED(status) ? ProcessEnd::exited : ProcessEnd::signalled;
        outcome_.code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
      }
    }
  }

  void enforce() {
    const ProcessLimits& l = job_.limits;
    if (stopping_) {
      if (seconds_since(stopped_at_) > l.grace_s) {
        kill_all();
        reap();
        command_ended_ = true;
        outcome_.end = reason_;
      }
      return;
    }
    if (const auto mark = progress_mark(); mark != progress_) {
      progress_ = mark;
      progress_at_ = Clock::now();
    }
    if (l.memory_bytes && over_memory()) {
      reason_ = outcome_.end = ProcessEnd::memory;
      stopping_ = true;
      kill_all();  // without grace period, which could exhaust the host's memory
      command_ended_ = true;
    } else if (l.timeout_s > 0 && seconds_since(start_) > l.timeout_s) {
      stop(ProcessEnd::timeout);
    } else if (l.hang_s > 0 && seconds_since(progress_at_) > l.hang_s) {
      stop(ProcessEnd::hang);
    }
  }

  void stop(ProcessEnd reason) {
    if (stopping_) return;
    stopping_ = true;
    reason_ = reason;
    stopped_at_ = Clock::now();
    ::kill(-command_, SIGTERM);  // mpiexec forwards it to its ranks
  }

  bool over_memory() {
    if (tree_.empty() || seconds_since(tree_at_) > std::min(1.0, 0.2 * seconds_since(start_))) {
      tree_ = descendants(::getpid());
      tree_at_ = Clock::now();
    }
    int64_t bytes = 0;
    for (pid_t pid : tree_) bytes += private_bytes(pid);
    outcome_.peak_private_bytes = std::max(outcome_.peak_private_bytes, bytes);
    return bytes > job_.limits.memory_bytes;
  }

  std::vector<int64_t> progress_mark() const {
    std::vector<int64_t> mark;
    for (const auto& file : job_.progress_files) {
      struct stat s {};
      if (::stat(file.c_str(), &s) != 0) s = {};
      mark.insert(mark.end(), {s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec});
    }
    return mark;
  }

  // Ends every descendant. All are stopped before the first is killed, so that no rank sees another die and
  // records a failure of its own.
  void kill_all() {
    const auto begin = Clock::now();
    while (seconds_since(begin) < 30) {
      std::set<pid_t> stopped;
      for (size_t before = 1; before != stopped.size();) {
        before = stopped.size();
        for (pid_t pid : descendants(::getpid()))
          if (stopped.insert(pid).second) ::kill(pid, SIGSTOP);
        if (stopped.empty()) break;
      }
      for (pid_t pid : stopped) ::kill(pid, SIGKILL);
      reap();
      if (::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  [[noreturn]] void finish() {
    outcome_.wall_s = seconds_since(start_);
    // Launcher helpers get a moment to exit; what remains is a stray.
    for (int i = 0; i < 20 && ::waitpid(-1, nullptr, WNOHANG) >= 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    outcome_.strays = static_cast<int32_t>(descendants(::getpid()).size());
    kill_all();
    rusage usage{};
    ::getrusage(RUSAGE_CHILDREN, &usage);
    outcome_.max_rss_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
    outcome_.oom_kills = static_cast<int32_t>(oom_kills() - oom_before_);
    const ssize_t n = ::write(report_, &outcome_, sizeof outcome_);
    ::_exit(n == sizeof outcome_ ? 0 : 1);
  }

  const ProcessJob& job_;
  int control_, report_, signals_ = -1;
  pid_t command_ = -1;
  bool command_ended_ = false, stopping_ = false;
  ProcessEnd reason_ = ProcessEnd::cancelled;
  Clock::time_point start_, stopped_at_, progress_at_, tree_at_;
  std::vector<int64_t> progress_;
  std::vector<pid_t> tree_;
  int64_t oom_before_ = 0;
  ProcessOutcome outcome_;
};

[[noreturn]] void supervise(const ProcessJob& job, int control, int report) {
  Supervisor(job, control, report).run();
}

}  // namespace

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
