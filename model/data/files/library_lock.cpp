#include "model/data/files/library_lock.h"

#include <hdf5.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <sstream>

#include "model/base/error.h"
#include "model/base/system/child.h"

namespace isobar::data {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr size_t kCount = std::size(kSignals);

// Protected by the lock, except that handlers on other threads read `inside` and `before`.
std::array<std::string, kCount> last_words;  // prepared in advance: a handler may not allocate
std::string their_file;
std::array<struct sigaction, kCount> before;
thread_local bool inside = false;

size_t place_of(int signal) {
  size_t i = 0;
  while (i + 1 < kCount && kSignals[i] != signal) ++i;
  return i;
}

void end_with_last_words(int signal) {
  const size_t i = place_of(signal);
  if (!inside) {  // not from the library: restore the previous handler and let the signal repeat
    ::sigaction(signal, &before[i], nullptr);
    if (signal == SIGABRT) ::raise(signal);
    return;
  }
  const std::string& line = last_words[i];
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t n = ::write(STDERR_FILENO, line.data() + written, line.size() - written);
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  ::_exit(2);  // no destructors or exit handlers: memory may be corrupt
}

/// A signal stack, for crashes by stack overflow: the library recurses on circular links.
class SpareStack {
 public:
  SpareStack() {
    stack_t now{};
    if (::sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;  // there is one already
    memory_ = std::make_unique<std::byte[]>(kBytes);
    stack_t own{};
    own.ss_sp = memory_.get(), own.ss_size = kBytes;
    if (::sigaltstack(&own, nullptr) != 0) memory_.reset();
  }
  ~SpareStack() {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    if (memory_) ::sigaltstack(&none, nullptr);
  }
  SpareStack(const SpareStack&) = delete;
  SpareStack& operator=(const SpareStack&) = delete;

 private:
  static constexpr size_t kBytes = 64 << 10;
  std::unique_ptr<std::byte[]> memory_;
};

/// HDF5 loads filters that a file asks for from these folders: a relative one is whatever folder the command
/// stands in.
void require_whole_plugin_paths() {
  const char* folders = std::getenv("HDF5_PLUGIN_PATH");
  std::istringstream in(folders ? folders : "");
  for (std::string one; std::getline(in, one, ':');)
    if (!one.empty() && one[0] != '/')
      throw ConfigError("HDF5_PLUGIN_PATH", "",
                        "holds '" + one + "': HDF5 would run libraries from the working directory",
                        "write paths that begin with /, or unset it");
}

std::mutex& mutex() {
  static std::mutex one;  // one per process, like the libraries' state
  return one;
}

}  // namespace

LibraryLock::LibraryLock(const std::string& file) : guard_(mutex()) {
  // At exit HDF5 would write files once more that it could not close, as on a full disk, and end in a signal.
  static const bool ends_quietly = H5dont_atexit() >= 0;
  static_cast<void>(ends_quietly);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  if (file.empty()) return;
  require_whole_plugin_paths();
  if (in_a_child()) return;  // its parent reports how a child ended
  static thread_local const SpareStack spare;
  struct sigaction own {};
  own.sa_handler = end_with_last_words;
  own.sa_flags = SA_ONSTACK | SA_NODEFER;
  if (file != their_file)
    for (size_t i = 0; i < kCount; ++i)
      last_words[i] =
          std::string("isobar: ") + ConfigError(file, "", ended_by(kSignals[i]), kHarmful).what() + "\n";
  their_file = file;
  for (size_t i = 0; i < kCount; ++i) ::sigaction(kSignals[i], &own, &before[i]);
  inside = armed_ = true;
}

LibraryLock::~LibraryLock() {
  if (!armed_) return;
  for (size_t i = 0; i < kCount; ++i) ::sigaction(kSignals[i], &before[i], nullptr);
  inside = false;
}

}  // namespace isobar::data
