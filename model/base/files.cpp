#include "model/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

#include "model/base/error.h"

namespace isobar {
namespace {

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

void write_atomically(const std::filesystem::path& given, std::string_view bytes) {
  std::error_code unknown;
  // A link is written through, and so is what is no file (/dev/stdout, a fifo): neither is to be replaced.
  const std::filesystem::path path =
      std::filesystem::is_symlink(given, unknown) && std::filesystem::exists(given, unknown)
          ? std::filesystem::canonical(given)
          : given;
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown)) {
    const Descriptor file(path, O_WRONLY);
    return write_all(file.get(), bytes, path);
  }
  const std::filesystem::path dir = path.has_parent_path() ? path.parent_path() : ".";
  std::filesystem::create_directories(dir);
  const std::filesystem::path temp = path.string() + ".tmp." + std::to_string(::getpid());
  try {
    Descriptor file(temp, O_WRONLY | O_CREAT | O_TRUNC);
    write_all(file.get(), bytes, temp);
    if (::fsync(file.get()) != 0) fail(temp, "cannot sync");
  } catch (...) {
    ::unlink(temp.c_str());  // half a file on a full disk is no use to anybody
    throw;
  }
  if (::rename(temp.c_str(), path.c_str()) != 0) fail(path, "cannot rename onto");
  Descriptor folder(dir, O_RDONLY | O_DIRECTORY);
  if (::fsync(folder.get()) != 0) fail(dir, "cannot sync");
}

void append_line(const std::filesystem::path& path, std::string_view line) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  Descriptor file(path, O_RDWR | O_CREAT | O_APPEND);
  // Writers take turns, so that none sees another's line half written.
  while (::flock(file.get(), LOCK_EX) != 0)
    if (errno != EINTR) fail(path, "cannot lock");
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
