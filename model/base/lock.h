// A file that one process at a time holds, by flock(2): free by itself once its holder has died, however it
// did. On a shared filesystem it needs one that passes locks on (NFS 4, Lustre with -o flock, GPFS).
//
//   const FileLock lock(dir / "lock", 5);
//   if (!lock.held()) throw ConfigError(…);      // another has had it for 5 s
#pragma once
#include <filesystem>

namespace isobar {

class FileLock {
 public:
  FileLock() = default;  // of nothing
  /// Makes the file. Waits up to `wait_s` for one who holds it. Throws std::system_error where the file
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
