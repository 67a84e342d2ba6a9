#include "bench/cli/train/last_words.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "model/base/error.h"

namespace isobar::cli {
namespace {

constexpr int64_t kShort = int64_t{64} << 20;  // bytes: below it a thread's stack or a library may not fit

// All of it without memory of its own: a signal's handler asks.
struct Room {
  int64_t taken = 0, allowed = -1;  // bytes of address space; -1: no limit
  int64_t free = -1;                // bytes that the host has; -1: not known
  bool is_short() const { return allowed >= 0 ? allowed - taken < kShort : free >= 0 && free < kShort; }
};

Room room_now() {
  Room room;
  char text[4096] = "";
  const auto slurp = [&](const char* file) {
    const int fd = ::open(file, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : ::read(fd, text, sizeof text - 1);
    if (fd >= 0) ::close(fd);
    text[n > 0 ? n : 0] = '\0';
  };
  slurp("/proc/self/statm");
  room.taken = std::atoll(text) * ::sysconf(_SC_PAGESIZE);
  slurp("/proc/meminfo");
  if (const char* at = std::strstr(text, "MemAvailable:")) room.free = std::atoll(at + 13) << 10;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    room.allowed = static_cast<int64_t>(limit.rlim_cur);
  return room;
}

struct Line {
  char text[256] = "";
};

Line line_of(const Room& room) {
  Line line;
  const auto mb = [](int64_t bytes) { return static_cast<long>(bytes >> 20); };
  if (room.allowed >= 0)
    std::snprintf(line.text, sizeof line.text,
                  "out of memory on the host: %ld MB of the %ld MB allowed (ulimit -v) were taken -> raise "
                  "the limit, or use a smaller net, batch or number of threads",
                  mb(room.taken), mb(room.allowed));
  else
    std::snprintf(line.text, sizeof line.text,
                  "out of memory on the host: %ld MB were taken, %ld MB free -> use a smaller net or batch",
                  mb(room.taken), mb(room.free));
  return line;
}

// Threads may run out together: the first one speaks for all, in one write.
[[noreturn]] void end_with(const char* line, int code) {
  static std::atomic<pid_t> speaker{0};
  const pid_t self = ::gettid();
  pid_t first = 0;
  if (!speaker.compare_exchange_strong(first, self)) {
    while (first != self) ::pause();
    ::_exit(code);  // it failed while it spoke
  }
  const auto part = [](const char* text) { return iovec{const_cast<char*>(text), std::strlen(text)}; };
  const iovec parts[] = {part("isobar: "), part(line), part("\n")};
  [[maybe_unused]] const ssize_t said = ::writev(STDERR_FILENO, parts, 3);
  ::_exit(code);
}

[[noreturn]] void on_terminate() {
  std::signal(SIGABRT, SIG_DFL);
  const Room room = room_now();
  const Line memory = line_of(room);
  const std::exception_ptr now = std::current_exception();
  if (!now) end_with(room.is_short() ? memory.text : "a thread was left behind", room.is_short() ? 4 : 1);
  try {
    std::rethrow_exception(now);
  } catch (const std::bad_alloc&) {
    end_with(memory.text, 4);
  } catch (const std::system_error& e) {
    if (is_of_memory(e.code())) end_with(memory.text, 4);
    end_with(showable(e.what()).c_str(), 1);
  } catch (const std::exception& e) {
    end_with(showable(e.what()).c_str(), 1);
  } catch (...) {
    end_with("an exception of no known type", 1);
  }
}

// A library that aborts, or uses what it did not get.
void on_deadly_signal(int signal) {
  const Room room = room_now();
  if (room.is_short()) end_with(line_of(room).text, 4);
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

bool is_of_memory(const std::error_code& code) {
  return code == std::errc::not_enough_memory || code == std::errc::resource_unavailable_try_again;
}

void tell_of_ends() {
  std::set_terminate(on_terminate);
  for (const int s : {SIGABRT, SIGSEGV, SIGBUS}) {
    struct sigaction before {};
    if (::sigaction(s, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
      std::signal(s, on_deadly_signal);
  }
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // loads what threads' ends need while there is memory for it
}

std::string path_error_text(const std::filesystem::filesystem_error& e) {
  return showable(e.path1().string()) + ": " + e.code().message() + " -> " +
         (e.code() == std::errc::permission_denied ? "check the permissions of it and of what is above it"
                                                   : "name a path that exists or can be made");
}

std::string out_of_memory_text() {
  return line_of(room_now()).text;
}

}  // namespace isobar::cli
