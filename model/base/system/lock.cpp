#include "model/base/system/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

namespace isobar {

FileLock::FileLock(const std::filesystem::path& file, double wait_s)
    : fd_(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  const auto fail = [&](const char* doing) {
    throw std::system_error(errno, std::generic_category(), std::string(doing) + " " + file.string());
  };
  if (fd_ < 0) fail("cannot open");
  const auto begin = std::chrono::steady_clock::now();
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    const bool taken = error == EWOULDBLOCK || error == EINTR;
    if (taken && waited.count() <= wait_s) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    ::close(std::exchange(fd_, -1));
    errno = error;
    if (!taken) fail("cannot lock");
    return;
  }
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

}  // namespace isobar
