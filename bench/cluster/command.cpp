#include "bench/cluster/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "model/base/system/program.h"

namespace isobar::cluster {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int end[2] = {-1, -1};
  Pipe() {
    if (::pipe2(end, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  }
  ~Pipe() {
    shut(0);
    shut(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void shut(int i) {
    if (end[i] >= 0) ::close(end[i]);
    end[i] = -1;
  }
};

/// A job inherits these by sbatch's --export=ALL: its srun would bind and limit ranks as in the outer job.
void forget_job() {
  std::vector<std::string> names;
  for (char** at = environ; *at; ++at) {
    const std::string name = std::string(*at).substr(0, std::string(*at).find('='));
    if ((name.starts_with("SLURM_") || name.starts_with("SRUN_")) && name != "SLURM_CONF" &&
        name != "SLURM_JWT")
      names.push_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

[[noreturn]] void become(const std::filesystem::path& program, std::vector<std::string> words,
                         const SayOptions& o, const Pipe& out, const Pipe& err) {
  ::setpgid(0, 0);  // Ctrl-C is for the sweep: let a submission under way finish
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int in = ::open("/dev/null", O_RDONLY);
  if (in < 0 || ::dup2(in, 0) < 0 || ::dup2(out.end[1], 1) < 0 || ::dup2(err.end[1], 2) < 0) ::_exit(126);
  if (!o.cwd.empty() && ::chdir(o.cwd.c_str()) != 0) ::_exit(126);
  if (o.outside_job && std::getenv("SLURM_JOB_ID")) forget_job();
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  const std::string why = words[0] + ": " + std::strerror(errno) + "\n";
  if (::write(2, why.data(), why.size()) < 0) ::_exit(126);
  ::_exit(127);
}

}  // namespace

std::string reason_in(const Said& said) {
  const size_t error = said.err.find("error");
  if (error != std::string::npos) {
    const size_t begin = said.err.rfind('\n', error);  // npos + 1 is 0
    return first_line(said.err.substr(begin + 1));
  }
  if (!said.err.empty()) return first_line(said.err);
  const size_t end = said.out.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "it does not say why (exit code " + std::to_string(said.code) + ")";
  return first_line(said.out.substr(said.out.rfind('\n', end) + 1));
}

std::string submitted_id(const std::string& text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) return "";
  const std::string word = text.substr(text.find_last_of(" \t\r\n", last) + 1);
  return word[0] >= '0' && word[0] <= '9' ? word.substr(0, word.find_first_of(" \t\r\n")) : "";
}

Said say(const std::vector<std::string>& argv, const SayOptions& options) {
  const std::filesystem::path program = program_in_path(argv[0]);
  if (program.empty()) return {.code = 127, .err = argv[0] + ": " + std::strerror(ENOENT) + "\n"};
  Pipe out, err;
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) become(program, argv, options, out, err);
  out.shut(1);
  err.shut(1);
  Said said;
  const auto begin = Clock::now();
  bool late = false;
  while (out.end[0] >= 0 || err.end[0] >= 0) {
    pollfd p[2] = {{out.end[0], POLLIN, 0}, {err.end[0], POLLIN, 0}};  // poll ignores -1
    ::poll(p, 2, 200);
    for (int i = 0; i < 2; ++i) {
      Pipe& from = i == 0 ? out : err;
      if (from.end[0] < 0 || !p[i].revents) continue;
      char bytes[4096];
      const ssize_t n = ::read(from.end[0], bytes, sizeof bytes);
      if (n > 0) (i == 0 ? said.out : said.err).append(bytes, static_cast<size_t>(n));
      if (n == 0 || (n < 0 && errno != EINTR)) from.shut(0);
    }
    if (std::chrono::duration<double>(Clock::now() - begin).count() > options.timeout_s) {
      late = true;
      ::kill(-pid, SIGKILL);
      break;
    }
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  said.code = !late && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (late) said.err += argv[0] + " did not answer";
  return said;
}

}  // namespace isobar::cluster
