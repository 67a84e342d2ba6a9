// Inputs are read in a forked worker. Shared memory holds the current input's number, so that the parent
// knows which input ended the worker; it reads that input again alone, to separate its own effect from that
// of earlier inputs.
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <new>
#include <stdexcept>
#include <thread>

#include "model/base/error.h"
#include "tests/fuzz/fuzz.h"
#include "tests/pattern.h"

namespace isobar::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr double kHang_s = 20;
constexpr int64_t kMemory = int64_t{2} << 30;
constexpr size_t kTargets = 64;

struct Shared {  // memory shared by a worker and its parent
  volatile int64_t at;
  volatile bool done;
  Report reports[kTargets];
};

// The part that a message lacks of "FILE: 'KEY': what is wrong -> fix", where FILE is the input or a file
// beside it; a sweep's "FILE: axes: 'KEY': ..." also names the section.
std::string lacking(const std::string& message, const std::string& folder, const std::string& input,
                    bool keyed) {
  if (!message.starts_with(folder + "/")) return "names no file: ";
  const size_t mend = message.rfind(" -> ");
  if (mend == std::string::npos || mend + 4 >= message.size()) return "names no mend: ";
  if (message.find('\n') != std::string::npos) return "is no line: ";
  if (!keyed) return "";
  // A file named by the input may have any name, even with colons and spaces.
  const size_t suffix = message.starts_with(input + ":") ? input.size() : message.find(": '", folder.size());
  size_t key = suffix;
  const std::string rest = suffix == std::string::npos ? "" : message.substr(suffix, 40);
  key += first_match(rest, "^: (axes|set|zip|include|exclude|when|baselines)(\\[[0-9]+\\])?(\\.(if|axes))?")
             .size;
  if (key == std::string::npos || message.compare(key, 3, ": '") != 0 ||
      message.find("': ", key + 4) == std::string::npos)
    return "names no key: ";
  return "";
}

double cpu_of(int whose) {
  rusage used{};
  ::getrusage(whose, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/// Processor time of this process and of the children it has waited for.
double cpu_s() {
  return cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN);
}

std::string write_input(const Batch& b, int64_t number) {
  const Target& t = b.targets[static_cast<size_t>(number) % b.targets.size()];
  const std::string file = b.folder / t.file;
  std::ofstream(file, std::ios::binary) << input_of(t, b.seed, number);
  return file;
}

void tell(const Batch& b, int64_t number, const std::string& what) {
  const Target& t = b.targets[static_cast<size_t>(number) % b.targets.size()];
  std::error_code failed;
  fs::create_directories(b.keep, failed);
  const fs::path kept = b.keep / (std::to_string(b.seed) + "-" + std::to_string(number) + "-" +
                                  fs::path(t.file).filename().string());
  std::ofstream(kept, std::ios::binary) << input_of(t, b.seed, number);
  std::printf("WRONG: seed %llu input %lld (%s), kept as %s: %s\n", static_cast<unsigned long long>(b.seed),
              static_cast<long long>(number), t.name.c_str(), kept.c_str(), what.substr(0, 600).c_str());
}

[[noreturn]] void work(const Batch& b, Shared& s) {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers reserve address space
  const rlim_t most = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + kMemory);
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
#endif
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  for (int64_t i = b.first; i < b.first + b.count; ++i) {
    s.at = i;
    const size_t target = static_cast<size_t>(i) % b.targets.size();
    const Verdict v = try_one(b.targets[target], write_input(b, i));
    Report& r = s.reports[target];
    r.slowest_s = std::max(r.slowest_s, v.cpu_s);
    if (!v.wrong.empty()) {
      ++r.wrong;
      tell(b, i, v.wrong);
      std::fflush(stdout);
    } else {
      ++(v.accepted ? r.accepted : r.refused);
    }
  }
  s.done = true;
  ::_exit(0);
}

// The reason why the worker ended early; "" when it did not.
std::string follow(const Batch& b, Shared& s) {
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid == 0) work(b, s);
  clockid_t clock = 0;
  ::clock_getcpuclockid(pid, &clock);
  const auto cpu = [&] {  // a busy machine must not make an input count as slow
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  int64_t at = -1;
  double cpu_since = 0;
  auto since = std::chrono::steady_clock::now();
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) {
      if (s.done) return "";
      if (WIFSIGNALED(status)) return std::string("ended by ") + ::strsignal(WTERMSIG(status));
      return "ended with exit code " + std::to_string(WEXITSTATUS(status));
    }
    if (s.at != at) at = s.at, cpu_since = cpu(), since = std::chrono::steady_clock::now();
    const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
    // The worker's children, which read data files, have their own limit.
    if (cpu() - cpu_since > kHang_s || waited > 30 * kHang_s) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return "hangs";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

std::string input_of(const Target& t, uint64_t seed, int64_t number) {
  Random r(seed * 1'000'003 + static_cast<uint64_t>(number));
  std::string bytes = t.seeds[below(r, t.seeds.size())];
  for (size_t n = 1 + below(r, t.text ? 6 : 3); n > 0; --n) {
    const std::string& other = t.seeds[below(r, t.seeds.size())];
    t.text ? mutate_text(bytes, other, r) : mutate_bytes(bytes, other, r);
  }
  return bytes;
}

Verdict try_one(const Target& t, const std::string& file) {
  Verdict v;
  const double begin = cpu_s();
  std::string folder = file.substr(0, file.size() - t.file.size() - 1);
  try {
    t.read(file);
    v.accepted = true;
  } catch (const ConfigError& e) {
    const std::string what = lacking(e.what(), folder, file, t.keyed);
    if (!what.empty()) v.wrong = what + e.what();
  } catch (const std::bad_alloc&) {
    v.wrong = "takes more than 2 GiB";
  } catch (const std::exception& e) {
    v.wrong = std::string("another exception: ") + e.what();
  }
  v.cpu_s = cpu_s() - begin;
  if (v.wrong.empty() && v.cpu_s > kHang_s) v.wrong = "takes " + std::to_string(v.cpu_s) + " s";
  return v;
}

void run_batch(const Batch& whole, std::vector<Report>& reports) {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  Shared& s = *new (memory) Shared{};
  for (Batch b = whole; b.count > 0;) {
    s.done = false;
    s.at = b.first;
    const std::string why = follow(b, s);
    if (why.empty()) break;
    const int64_t culprit = s.at;
    Batch alone = b;
    alone.first = culprit, alone.count = 1;
    s.done = false;
    const std::string again = follow(alone, s);
    if (again.empty())
      tell(b, culprit, why + " after inputs " + std::to_string(b.first) + " and on, not alone");
    else
      tell(b, culprit, again);
    ++s.reports[static_cast<size_t>(culprit) % b.targets.size()].wrong;
    b.count -= culprit + 1 - b.first;
    b.first = culprit + 1;
  }
  for (size_t i = 0; i < reports.size(); ++i) {
    reports[i].accepted += s.reports[i].accepted;
    reports[i].refused += s.reports[i].refused;
    reports[i].wrong += s.reports[i].wrong;
    reports[i].slowest_s = std::max(reports[i].slowest_s, s.reports[i].slowest_s);
  }
  ::munmap(memory, sizeof(Shared));
}

}  // namespace isobar::fuzz
