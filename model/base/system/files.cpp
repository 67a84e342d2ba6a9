#include "model/base/system/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <thread>

#include "model/base/error.h"

namespace isobar {

namespace fs = std::filesystem;

namespace {

constexpr int kLockTries = 200;  // of 5 ms

[[noreturn]] void fail(const std::filesystem::path& path, const char* doing) {
  throw std::system_error(errno, std::generic_category(), std::string(doing) + " " + path.string());
}

class Descriptor {  // closes itself
 public:
  Descriptor(const std::filesystem::path& path, int flags, mode_t mode = 0644)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, mode)) {
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

// Only root may give a file to another owner; others keep theirs.
void keep_owner_and_mode(int fd, const struct stat& old, const fs::path& path) {
  struct stat now {};
  if (::fstat(fd, &now) != 0) fail(path, "cannot read");
  const bool given = (now.st_uid == old.st_uid && now.st_gid == old.st_gid) ||
                     ::fchown(fd, old.st_uid, old.st_gid) == 0 || ::fchown(fd, -1, old.st_gid) == 0;
  // Another group must not gain rights that the old one lacked.
  const mode_t mode = old.st_mode & (given ? 0777 : 0707);
  if ((now.st_mode & 0777) == mode) return;  // some filesystems store no other mode
  if (::fchmod(fd, mode) != 0) fail(path, "cannot set the mode of");
}

// Renames, and returns once the new name is on disk.
void give_name(const std::filesystem::path& temp, const std::filesystem::path& path) {
  if (::rename(temp.c_str(), path.c_str()) != 0) fail(path, "cannot rename onto");
  const std::filesystem::path dir = path.has_parent_path() ? path.parent_path() : ".";
  const Descriptor folder(dir, O_RDONLY | O_DIRECTORY);
  if (::fsync(folder.get()) != 0) fail(dir, "cannot sync");
}

// An unpredictable name in the same folder: in one that others may write, they could have put a link under a
// predictable name.
fs::path name_beside(const fs::path& path) {
  constexpr size_t kLongest = 200;  // of 255 bytes
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random))
    fail(path, "getrandom for");
  char end[32];
  std::snprintf(end, sizeof end, ".tmp.%016" PRIx64, random);
  return path.parent_path() / (path.filename().string().substr(0, kLongest) + end);
}

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

[[noreturn]] void refuse(const fs::path& path, const std::string& key, int error) {
  std::string mend = "check the path";
  if (error == ENOENT || error == ENOTDIR)
    mend = "check the path (relative paths start in the working directory)";
  else if (error == EACCES || error == EPERM)
    mend = "check the permissions of the file and of the directories above it: chmod, or ask its owner";
  else if (error == ELOOP)
    mend = "check the symbolic links: they point at each other";
  else if (error == EIO || error == ESTALE)
    mend = "check the disk";
  throw ConfigError(path.string(), key, std::string("cannot be read: ") + std::strerror(error), mend);
}

}  // namespace

void write_atomically(const std::filesystem::path& given, std::string_view bytes) {
  std::error_code unknown;
  // A link is written through, and so is what is no regular file (/dev/stdout, a fifo): neither may be
  // replaced.
  const std::filesystem::path path =
      std::filesystem::is_symlink(given, unknown) && std::filesystem::is_regular_file(given, unknown)
          ? std::filesystem::canonical(given)
          : given;
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown)) {
    const Descriptor file(path, O_WRONLY);
    return write_all(file.get(), bytes, path);
  }
  const std::filesystem::path dir = path.has_parent_path() ? path.parent_path() : ".";
  std::filesystem::create_directories(dir);
  // An existing file keeps its readers from the first moment on; a new file's are those that the umask
  // leaves.
  struct stat old {};
  const bool replaces = ::stat(path.c_str(), &old) == 0;
  const mode_t mode = replaces ? old.st_mode & 0777 : 0666;
  const fs::path temp = name_beside(path);
  const Descriptor file(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  try {
    write_all(file.get(), bytes, temp);
    if (replaces) keep_owner_and_mode(file.get(), old, temp);
    if (::fsync(file.get()) != 0) fail(temp, "cannot sync");
    give_name(temp, path);
  } catch (...) {
    ::unlink(temp.c_str());  // half a file is of no use
    throw;
  }
}

void rename_synced(const std::filesystem::path& temp, const std::filesystem::path& path) {
  {
    const Descriptor file(temp, O_RDWR);
    if (::fsync(file.get()) != 0) fail(temp, "cannot sync");
  }
  give_name(temp, path);
}

void append_line(const std::filesystem::path& path, std::string_view line) {
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
  Descriptor file(path, O_RDWR | O_CREAT | O_APPEND);
  // Writers take turns, so that none sees another's line half written. A writer that is stopped while it
  // holds the lock, or waits for a disk, must not block the others for ever: a line is a single write(2),
  // which stays whole without the lock.
  for (int tries = 0; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && tries < kLockTries; ++tries) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail(path, "cannot lock");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  // A kill may have left half a line: close it, so that only that line is lost.
  std::string out;
  const off_t end = ::lseek(file.get(), 0, SEEK_END);
  char last = '\n';
  if (end > 0 && ::pread(file.get(), &last, 1, end - 1) == 1 && last != '\n') out = "\n";
  out.append(line).append("\n");
  write_all(file.get(), out, path);
  if (::fsync(file.get()) != 0) fail(path, "cannot sync");
}

InputFile::InputFile(const fs::path& path, const std::string& key) {
  struct stat about {};
  // Checked before opening: open(2) alone waits for a pipe's writer, or rewinds a tape.
  if (::stat(path.c_str(), &about) != 0) refuse(path, key, errno);
  if (!S_ISREG(about.st_mode))
    throw ConfigError(path.string(), key, "is " + kind_of(about.st_mode) + ", not a file",
                      S_ISDIR(about.st_mode) ? "check the path: name a file in it"
                                             : "check the path: copy what it gives into a file first");
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) refuse(path, key, errno);
  if (::fstat(fd_, &about) == 0 && S_ISREG(about.st_mode)) {
    size_ = about.st_size;
    return;
  }
  ::close(fd_);
  throw ConfigError(path.string(), key, "became something else than a file", "try again");
}

InputFile::~InputFile() {
  ::close(fd_);
}

std::string read_file(const fs::path& path, int64_t bytes, const std::string& key) {
  const InputFile file(path, key);
  const auto too_long = [&] {
    return ConfigError(
        path.string(), key,
        "is longer than the " + std::to_string(bytes >> 20) + " MiB that are read of such a file",
        "check that it is the file that you mean, or shorten it");
  };
  if (file.size() > bytes) throw too_long();
  std::string out(static_cast<size_t>(file.size()), '\0');
  size_t have = 0;
  for (;;) {  // files of /proc report a size of 0, and others may be growing
    if (have == out.size()) out.resize(out.size() + 4096);
    const ssize_t n = ::read(file.fd(), out.data() + have, out.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse(path, key, errno);
    if (n == 0) break;
    have += static_cast<size_t>(n);
    if (static_cast<int64_t>(have) > bytes) throw too_long();
  }
  out.resize(have);
  return out;
}

}  // namespace isobar
