// Work on foreign input in a process of its own, which may die of it: libraries that read other people's
// formats end in a signal, an endless loop or all of the memory when a file is damaged or made to harm.
//
//   std::string answer = in_child({}, [&](const ChildProgress& done) {
//     for (...) done(++step);                  // alive: the limits of time begin anew
//     return describe(open(path));             // ConfigError arrives in the parent as it was thrown
//   });                                        // ChildDied: what ended it
//
//   ChildWork child({}, work);                       // the same in two halves: it begins at once …
//   std::string answer = child.answer();         // … and is waited for
//
// The child is a fork: call it before other threads start that may hold a lock (of malloc the C library takes
// care), before MPI_Init and before a device is opened. Nothing of the child's state comes back but the
// answer.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace isobar {

struct ChildLimits {
  int64_t memory_bytes = int64_t{2} << 30;  // of address space, beyond what this process has
  int64_t cpu_s = 10;                       // of processor time without progress
  int64_t wall_s = 300;                     // without progress: a disk may be slow, but not for ever
};

/// what() says how it ended: "was ended by SIGSEGV", "takes more than 10 s of processor time".
struct ChildDied : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An exception of `work` that is no ConfigError: its text.
struct ChildFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What is said of an input whose reader ended by a signal, and its mend.
std::string ended_by(int signal);
inline const char* const kHarmful = "the file is damaged, or made to harm: copy or download it again";

/// Whether this process is such a child.
bool in_a_child();

using ChildProgress = std::function<void(int64_t done)>;

class ChildWork {  // ends with its owner
 public:
  ChildWork(const ChildLimits& limits, const std::function<std::string(const ChildProgress&)>& work);
  ~ChildWork();
  ChildWork(const ChildWork&) = delete;
  ChildWork& operator=(const ChildWork&) = delete;
  /// Waits for what `work` returns, once. Throws the child's ConfigError, ChildFailed, ChildDied. `seen` gets
  /// what `work` reports.
  std::string answer(const ChildProgress& seen = {});

 private:
  int wait();
  bool read(void* data, size_t bytes, std::chrono::steady_clock::time_point until) const;
  [[noreturn]] void explain();

  ChildLimits limits_;
  pid_t pid_ = -1;
  int fd_ = -1;
};

/// Runs `work` in a child and returns its answer.
inline std::string in_child(const ChildLimits& limits,
                            const std::function<std::string(const ChildProgress&)>& work,
                            const ChildProgress& seen = {}) {
  return ChildWork(limits, work).answer(seen);
}

}  // namespace isobar
