#include "bench/ranks/run_ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "bench/ranks/mpiexec.h"
#include "bench/sweep/run/classify.h"
#include "bench/sweep/run/proctree.h"
#include "model/base/error.h"
#include "model/base/system/signal_name.h"
#include "model/engine/liveness/result_log.h"
#include "model/engine/liveness/signals.h"
#include "model/records/results.h"

namespace isobar::ranks {
namespace {

constexpr std::array kHeard = {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD};

// The child after fork().
[[noreturn]] void become(const std::vector<char*>& argv, pid_t parent, const sigset_t& mask, int failure) {
  const auto give_up = [&] {
    const int error = errno;
    if (::write(failure, &error, sizeof error) < 0) ::_exit(126);
    ::_exit(127);
  };
  // A process group of its own: Ctrl-C and signals to a whole group reach it once, through its parent.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);       // the parent died before prctl took effect
  const int in = ::open("/dev/null", O_RDONLY);  // a group in the background must not read the terminal
  if (in < 0 || ::dup2(in, 0) < 0) give_up();
  ::setenv(engine::StopSignals::kStartedByTrain, "1", 1);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  ::execv(argv[0], argv.data());
  give_up();
  ::_exit(127);
}

class Ranks {
 public:
  explicit Ranks(std::vector<std::string> words) {
    sigemptyset(&heard_);
    for (const int s : kHeard) {
      struct sigaction now {};
      ::sigaction(s, nullptr, &now);
      if (s == SIGCHLD || now.sa_handler != SIG_IGN) sigaddset(&heard_, s);  // nohup's SIGHUP stays ignored
    }
    ::sigprocmask(SIG_BLOCK, &heard_, &before_);
    start(words);
  }
  ~Ranks() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int wait() {  // the exit code as a shell would give it
    for (int status = 0;;) {
      const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
      if (ended == pid_) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (ended < 0 && errno != EINTR)
        throw std::runtime_error("mpiexec is not this process's child any more");
      if (const int s = ::sigwaitinfo(&heard_, nullptr); s > 0 && s != SIGCHLD) pass_on(s);
    }
  }
  int asked() const { return asked_; }  // the first signal that asked it to stop; 0: none

 private:
  void start(std::vector<std::string>& words) {
    const std::vector<char*> argv = argv_of(words);
    int failure[2], error = 0;
    if (::pipe2(failure, O_CLOEXEC) != 0) throw std::runtime_error(std::strerror(errno));
    const pid_t self = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) become(argv, self, before_, failure[1]);
    if (pid_ < 0) error = errno;
    ::close(failure[1]);
    ssize_t n = 0;
    while (pid_ > 0 && (n = ::read(failure[0], &error, sizeof error)) < 0 && errno == EINTR) {
    }
    ::close(failure[0]);
    if (error != 0)
      throw std::runtime_error(std::string("cannot start mpiexec: ") + std::strerror(error) +
                               "; install Open MPI (isobar doctor says how)");
  }

  void pass_on(int s) {
    if (s == SIGTSTP) {  // Ctrl-Z: suspend mpiexec too, until this process continues
      ::kill(pid_, SIGTSTP);
      ::raise(SIGSTOP);
      ::kill(pid_, SIGCONT);
      return;
    }
    if (++count_ == 1) asked_ = s;
    if (count_ == 1)
      std::fprintf(stderr, "isobar: %s: stopping; a second one ends it at once\n", signal_name(s).c_str());
    send(count_ > 2 ? SIGKILL : count_ == 2 ? SIGTERM : s == SIGINT ? SIGUSR2 : SIGUSR1);
  }

  // To mpiexec, which forwards them. Hydra forwards only some, and orphans its ranks when it is killed: these
  // are signalled themselves, as descendants of mpiexec on this host.
  void send(int s) {
    if (passes_on_) {
      ::kill(pid_, s);
      return;
    }
    for (const pid_t p : sweep::descendants(pid_))
      if (sweep::environment_has(p, std::string(engine::StopSignals::kStartedByTrain) + "=1") &&
          is_this_program(p))
        ::kill(p, s);
    if (s == SIGKILL) ::kill(pid_, s);
  }
  static bool is_this_program(pid_t p) {
    std::error_code none;
    const auto theirs = std::filesystem::read_symlink("/proc/" + std::to_string(p) + "/exe", none);
    return !none && theirs == std::filesystem::read_symlink("/proc/self/exe", none);
  }

  sigset_t heard_, before_;
  pid_t pid_ = -1;
  int asked_ = 0, count_ = 0;
  const bool passes_on_ = mpi_family(comm::Mpi::version()) == "Open MPI";
};

// Open MPI's mpiexec waits for ever where it can open no further pipe for a rank.
void require_open_files(int64_t ranks) {
  const rlim_t needed = static_cast<rlim_t>(32 + 8 * ranks);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= needed) return;
  if (files.rlim_max < needed)
    throw ConfigError("ulimit -n", "",
                      "is " + std::to_string(files.rlim_max) + ", and mpiexec needs up to " +
                          std::to_string(needed) + " open files for " + std::to_string(ranks) + " ranks",
                      "raise the limit: ulimit -n 1024, or ask who set it");
  files.rlim_cur = needed;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

// As a shell would give it. Hydra gives a signal's own number where one ended a rank; no exit code of ours is
// that large (bench/cli/train/train.cpp).
int shell_code(int code) {
  return code > 4 && code < 32 && mpi_family(comm::Mpi::version()) != "Open MPI" ? 128 + code : code;
}

}  // namespace

int run_ranks(int64_t count, std::vector<std::string> words, const std::filesystem::path& run_dir) {
  require_open_files(count);
  const auto result = run_dir / "result.jsonl";
  const int64_t oom_before = sweep::oom_kills();
  std::error_code none;
  const auto size_before = std::filesystem::file_size(result, none);
  Ranks ranks(std::move(words));
  const int code = shell_code(ranks.wait());
  if (code == 0) return 0;
  const bool wrote = !run_dir.empty() && std::filesystem::exists(result) &&
                     (none || std::filesystem::file_size(result) > size_before);
  if (const records::ResultTail tail = wrote ? records::read_tail(result) : records::ResultTail{};
      tail.started) {
    sweep::ProcessOutcome outcome{.end = sweep::ProcessEnd::exited, .code = code};
    outcome.oom_kills = static_cast<int32_t>(sweep::oom_kills() - oom_before);
    if (ranks.asked() != 0) outcome.end = sweep::ProcessEnd::signalled, outcome.code = ranks.asked();
    const sweep::Verdict v = sweep::classify(outcome, tail, "");
    if (!tail.ended || v.run_class != records::RunClass::interrupted)
      engine::ResultLog(run_dir).end(
          {.status = "failed", .failure = records::name_of(v.run_class), .message = v.message});
  }
  return ranks.asked() != 0 ? 128 + ranks.asked() : code;
}

}  // namespace isobar::ranks
