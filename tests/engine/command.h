// Runs the real `isobar` command as a child process and captures output, exit status and duration.
//
//   Ended e = isobar({"train", config, "--ranks", "2", "--set", "run.out=" + dir});
//   e.code == 0;  read_run(dir).losses.at(20)
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/nets.h"
#include "tests/paths.h"

namespace isobar {

namespace fs = std::filesystem;
using nlohmann::json;
inline std::string text_of(const fs::path& p) {
  std::ifstream in(p, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// seconds; generous for busy machines and sanitizers, because a hang lasts forever
constexpr double kQuickly = 100;

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Folder {  // a fresh directory that is removed with the test
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "isobar-engine-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

struct Ended {
  int code = 0;      // exit status; 1000 + signal if killed; -1: stopped by the test
  std::string text;  // stdout and stderr
  double seconds = 0;
};

class Child {
 public:
  explicit Child(const Words& words) : output_(folder_ / "output"), begun_(seconds_now()) {
    std::vector<char*> argv;
    Words copy = words;
    for (std::string& w : copy) argv.push_back(w.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      const int out = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644),
                in = ::open("/dev/null", O_RDONLY);
      ::dup2(in, 0);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::setenv("OMP_WAIT_POLICY", "passive", 1);
      if (std::find(copy.begin(), copy.end(), "--ranks") != copy.end()) {
        // MPI libraries never free some allocations; runs of one rank do not use MPI and are checked for
        // leaks.
        const char* now = std::getenv("ASAN_OPTIONS");
        ::setenv("ASAN_OPTIONS", (std::string(now ? now : "") + ":detect_leaks=0").c_str(), 1);
      }
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
  }
  ~Child() {
    if (pid_ > 0) wait(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }
  bool over() {  // true: it has exited
    if (!done_ && ::waitpid(pid_, &status_, WNOHANG) == pid_) done_ = true;
    return done_;
  }
  Ended wait(double limit_s = 900) {
    Ended e;
    while (!over() && seconds_now() - begun_ < limit_s)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const bool late = !over();
    if (late) {
      ::kill(-pid_, SIGTERM);  // lets mpiexec end its ranks
      for (int i = 0; i < 1000 && !over(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (!over()) ::kill(-pid_, SIGKILL);
      if (!over()) ::waitpid(pid_, &status_, 0), done_ = true;
    }
    e.seconds = seconds_now() - begun_;
    e.code = late ? -1 : WIFEXITED(status_) ? WEXITSTATUS(status_) : 1000 + WTERMSIG(status_);
    e.text = text_of(output_);
    pid_ = -1;
    return e;
  }

 private:
  Folder folder_;
  std::string output_;
  double begun_;
  pid_t pid_ = -1;
  int status_ = 0;
  bool done_ = false;
};

inline std::string command() {
  return build_dir() + "/isobar";
}
/// isobar train CONFIG --set a --set b … more
inline Words train_words(const std::string& config, const Words& set, const Words& more = {}) {
  Words words = {command(), "train", config};
  for (const std::string& s : set) words.insert(words.end(), {"--set", s});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}
inline Ended train_command(const Words& set, const Words& more = {}) {
  return Child(train_words(tiny(), set, more)).wait();
}

struct WrittenRun {
  std::vector<json> events;
  std::map<int64_t, double> losses;  // by step; after a resume the last value counts
  bool repeats_agree = true;
  json start, end;
};

inline WrittenRun read_run(const std::string& dir) {
  WrittenRun r;
  std::ifstream in(dir + "/result.jsonl");
  for (std::string line; std::getline(in, line);) {
    const json j = json::parse(line, nullptr, false);
    if (!j.is_object()) continue;  // incomplete after a kill
    r.events.push_back(j);
    if (j["event"] == "run_start") r.start = j;
    if (j["event"] == "run_end") r.end = j;
    if (j["event"] != "step") continue;
    const auto [at, fresh] = r.losses.try_emplace(j["step"], j["loss"].get<double>());
    if (!fresh && at->second != j["loss"].get<double>()) r.repeats_agree = false;
    at->second = j["loss"];
  }
  return r;
}

/// Child processes of `parent`.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> out;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string stat = text_of(entry.path() / "stat");
    const size_t paren = stat.rfind(')');
    if (paren == std::string::npos || paren + 4 >= stat.size()) continue;
    if (std::atoi(stat.c_str() + paren + 4) == parent) out.push_back(std::atoi(name.c_str()));
  }
  return out;
}

#ifndef ISOBAR_MPIEXEC  // otherwise MPICH's (tests/CMakeLists.txt)
#define ISOBAR_MPIEXEC "mpiexec"
#define ISOBAR_RANK_VARIABLE "OMPI_COMM_WORLD_RANK"
#define ISOBAR_OPEN_MPI
#endif

/// Command that starts this number of processes; append the program.
inline Words mpiexec(int ranks, const Words& options = {}) {
  Words words = {ISOBAR_MPIEXEC, "-n", std::to_string(ranks)};
#ifdef ISOBAR_OPEN_MPI
  words.insert(words.end(), {"--bind-to", "none", "--oversubscribe"});
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");
#endif
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

/// Rank of a process in its run; -1: none.
inline int rank_of(pid_t pid) {
  const std::string all = '\0' + text_of("/proc/" + std::to_string(pid) + "/environ");
  const std::string name = std::string(1, '\0') + ISOBAR_RANK_VARIABLE + "=";
  const size_t at = all.find(name);
  return at == std::string::npos ? -1 : std::atoi(all.c_str() + at + name.size());
}

/// Ranks, in order, of a run started by `train --ranks` (through mpiexec) or by mpiexec itself.
inline std::vector<pid_t> ranks_of(pid_t command) {
  std::vector<pid_t> all = children_of(command);
  for (size_t i = 0; i < all.size(); ++i)  // Hydra has a proxy process on each host
    if (rank_of(all[i]) < 0)
      for (const pid_t child : children_of(all[i])) all.push_back(child);
  std::erase_if(all, [](pid_t p) { return rank_of(p) < 0; });
  std::sort(all.begin(), all.end(), [](pid_t a, pid_t b) { return rank_of(a) < rank_of(b); });
  return all;
}

/// Processes whose command line contains `word`.
inline std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos && std::atoi(name.c_str()) != ::getpid() &&
        text_of(entry.path() / "cmdline").find(word) != std::string::npos)
      found.push_back(std::atoi(name.c_str()));
  }
  return found;
}

/// True if the process is gone or a zombie; waits some seconds.
inline bool gone(pid_t pid) {
  for (int i = 0; i < 6000; ++i) {
    const std::string stat = text_of("/proc/" + std::to_string(pid) + "/stat");
    const size_t paren = stat.rfind(')');
    if (paren == std::string::npos || paren + 2 >= stat.size() || stat[paren + 2] == 'Z') return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// Waits until the run in `dir` has logged `step`, or until `child` exits; true: it has.
inline bool reached(Child& child, const std::string& dir, int64_t step, double limit_s = 300) {
  const double begun = seconds_now();
  const std::string mark = "\"step\":" + std::to_string(step) + "}";
  while (seconds_now() - begun < limit_s) {
    if (text_of(dir + "/result.jsonl").find(mark) != std::string::npos) return true;
    if (child.over()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace isobar
