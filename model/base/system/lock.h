// A file lock by flock(2), which the kernel frees however its holder dies. A shared filesystem must support
// locks between nodes (NFS 4, Lustre with -o flock, GPFS).
//
//   const FileLock lock(dir / "lock", 5);
//   if (!lock.held()) throw ConfigError(…);      // another has had it for 5 s
#pragma once
#include <filesystem>

namespace isobar {

class FileLock {
 public:
  FileLock() = default;  // of nothing
  /// Creates the file and waits up to `wait_s` for another holder. Throws std::system_error where the file
  /// cannot be opened or the filesystem has no locks.
  FileLock(const std::filesystem::path& file, double wait_s);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  bool held() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace isobar
