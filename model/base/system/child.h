// Work on foreign input in a process of its own: on a damaged or malicious file, libraries that read other
// formats crash, loop for ever or take all memory.
//
//   std::string answer = in_child({}, [&](const ChildProgress& done) {
//     for (...) done(++step);                  // alive: the limits of time begin anew
//     return describe(open(path));             // ConfigError arrives in the parent as it was thrown
//   });                                        // ChildDied: what ended it
//
//   ChildWork child({}, work);                       // the same in two halves: it begins at once …
//   std::string answer = child.answer();         // … and is waited for
//
// The child is a fork: call it before other threads start that may hold a lock (the C library takes care of
// malloc's), before MPI_Init and before a device is opened. Only the answer comes back of the child's state.
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
  int64_t cpu_s = 10;                       // of processor time between two reports of progress
  int64_t wall_s = 300;  // between two reports of progress: a disk may be slow, but not for ever
};

/// what() says how it ended: "was ended by SIGSEGV", "takes more than 10 s of processor time".
struct ChildDied : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An exception of `work` other than ConfigError; what() is its text.
struct ChildFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The error for an input whose reader was ended by a signal, with its fix.
std::string ended_by(int signal);
inline const char* const kHarmful = "the file is damaged, or made to harm: copy or download it again";

/// True in such a child.
bool in_a_child();

using ChildProgress = std::function<void(int64_t done)>;

class ChildWork {  // ends with its owner
 public:
  ChildWork(const ChildLimits& limits, const std::function<std::string(const ChildProgress&)>& work);
  ~ChildWork();
  ChildWork(const ChildWork&) = delete;
  ChildWork& operator=(const ChildWork&) = delete;
  /// Waits, once, for the result of `work`, whose reports of progress go to `seen`. Throws the child's
  /// ConfigError, ChildFailed, ChildDied.
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
