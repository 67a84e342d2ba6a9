#include "model/base/system/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

namespace isobar {

namespace fs = std::filesystem;

namespace {

class Fd {  // closes itself
 public:
  explicit Fd(int fd, const char* doing) : fd_(fd) {
    if (fd < 0) throw std::system_error(errno, std::generic_category(), doing);
  }
  ~Fd() { ::close(fd_); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& w : words) out.push_back(w.data());
  out.push_back(nullptr);
  return out;
}

void append_all(int fd, std::string& text) {
  char buffer[4096];
  for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) != 0;) {
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) break;
  }
}

}  // namespace

ProgramRun run_program(const std::vector<std::string>& argv, const std::atomic<bool>* unwanted) {
  ProgramRun run;
  const fs::path program = program_in_path(argv[0]);
  if (program.empty()) {
    run.err = argv[0] + ": is not in PATH";
    return run;
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const Fd out(ends[0], "pipe");
  // An anonymous file: with two pipes, each stream could wait for the other to be read.
  const Fd err(::memfd_create("stderr", MFD_CLOEXEC), "memfd_create");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err.get(), 2);
  std::vector<std::string> words = argv;
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, program.c_str(), &actions, nullptr, pointers_to(words).data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (error != 0) {
    run.err = argv[0] + ": " + std::strerror(error);
    return run;
  }
  for (pollfd ready{out.get(), POLLIN, 0}; unwanted && ::poll(&ready, 1, 100) <= 0;)
    if (*unwanted) ::kill(pid, SIGKILL);
  append_all(out.get(), run.out);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  ::lseek(err.get(), 0, SEEK_SET);
  append_all(err.get(), run.err);
  run.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return run;
}

}  // namespace isobar
