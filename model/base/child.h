// Work on foreign input in a process of its own, which may die of it: libraries that read other people's
// formats end in a signal, an endless loop or all of the memory when a file is damaged or made to harm.
//
//   std::string answer = in_child({}, [&](const ChildProgress& done) {
//     for (...) done(++step);                  // alive: the limits of time begin anew
//     return describe(open(path));             // ConfigError arrives in the parent as it was thrown
//   });                                        // ChildDied: what ended it
//
// The child is a fork: call it before other threads start that may hold a lock (of malloc the C library takes
// care), before MPI_Init and before a device is opened. Nothing of the child's state comes back but the
// answer.
#pragma once
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

using ChildProgress = std::function<void(int64_t done)>;

/// Runs `work` in a child and returns its answer. Throws the child's ConfigError; std::runtime_error with the
/// text of any other exception; ChildDied. `seen` gets in the parent what `work` reports.
std::string in_child(const ChildLimits& limits, const std::function<std::string(const ChildProgress&)>& work,
                     const ChildProgress& seen = {});

}  // namespace isobar
