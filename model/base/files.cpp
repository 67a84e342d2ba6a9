#include "model/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "model/base/error.h"

namespace isobar {
namespace {

constexpr int kLockTries = 200;  // of 5 ms

[[noreturn]] void fail(const std::filesystem::path& path, const char* doing) {
  throw std::system_error(errno, std::generic_category(), std::string(doing) + " " + path.string());
}

class Descriptor {  // closes itself
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) fail(path, "cannot open");
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

void write_all(int fd, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "cannot write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

void write_atomically(const std::filesystem::path& path, std::string_view bytes) {
  const std::filesystem::path dir = path.has_parent_path() ? path.parent_path() : ".";
  std::filesystem::create_directories(dir);
  const std::filesystem::path temp = path.string() + ".tmp." + std::to_string(::getpid());
  {
    Descriptor file(temp, O_WRONLY | O_CREAT | O_TRUNC);
    write_all(file.get(), bytes, temp);
    if (::fsync(file.get()) != 0) fail(temp, "cannot sync");
  }
  if (::rename(temp.c_str(), path.c_str()) != 0) fail(path, "cannot rename onto");
  Descriptor folder(dir, O_RDONLY | O_DIRECTORY);
  if (::fsync(folder.get()) != 0) fail(dir, "cannot sync");
}

void append_line(const std::filesystem::path& path, std::string_view line) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  Descriptor file(path, O_RDWR | O_CREAT | O_APPEND);
  // Writers take turns, so that none sees another's line half written. One that was stopped in its turn, or
  // waits for a disk, must not stop the others for ever: a line is one write, which stays whole without a
  // turn.
  for (int tries = 0; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && tries < kLockTries; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail(path, "cannot lock");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // A kill may have left half a line behind: close it, so that it stays the only one that is lost.
  std::string out;
  const off_t end = ::lseek(file.get(), 0, SEEK_END);
  char last = '\n';
  if (end > 0 && ::pread(file.get(), &last, 1, end - 1) == 1 && last != '\n') out = "\n";
  out.append(line).append("\n");
  write_all(file.get(), out, path);
  if (::fsync(file.get()) != 0) fail(path, "cannot sync");
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::is_directory(path))
    throw ConfigError(path.string(), "", "cannot be read", "check the path");
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace isobar
