// Files of runs: free space, working locks, and a run's data.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "bench/doctor/check.h"
#include "model/base/error.h"
#include "model/base/system/lock.h"
#include "model/base/text/printed.h"
#include "model/data/dataset.h"

namespace isobar::doctor {
namespace {

constexpr double kLeast = 64e6, kRoomy = 5e9;  // bytes free: for results alone; for a few checkpoints

std::string gigabytes(double bytes) {
  return bytes < 1e9 ? printed("%.0f MB", 1e-6 * bytes) : printed("%.1f GB", 1e-9 * bytes);
}

// "" where the lock excludes a second process, else the fault.
std::string locks_fail(const std::filesystem::path& file) {
  try {
    const FileLock held(file, 0);
    if (!held.held()) return "the lock of a new file is taken";
    const pid_t child = ::fork();
    if (child < 0) return std::string("cannot fork: ") + std::strerror(errno);
    if (child == 0) {
      const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
      ::_exit(fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    return status == 0 ? "" : "locks do not exclude other processes";
  } catch (const std::exception& e) {
    return e.what();
  }
}

Check examine_results(const std::filesystem::path& results) {
  const std::string where = std::filesystem::absolute(results).lexically_normal().string();
  std::string name = (results / ".isobar-doctor-XXXXXX").string();
  const int fd = ::mkstemp(name.data());
  if (fd < 0)
    return {"results", where + ": " + std::strerror(errno), Health::failed,
            "name a directory that you can write with --results", true};
  const std::string wrong = locks_fail(name);
  // Free space may be an empty promise: quotas count only when data are written.
  const std::string block(1 << 20, 'x');
  int error = 0;
  for (int i = 0; i < 8 && !error; ++i)
    if (::write(fd, block.data(), block.size()) != static_cast<ssize_t>(block.size()))
      error = errno ? errno : ENOSPC;
  if (!error && ::fsync(fd) != 0) error = errno;
  ::close(fd);
  ::unlink(name.c_str());
  struct statvfs space {};
  const double free_bytes = ::statvfs(results.c_str(), &space) == 0
                                ? static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize)
                                : 0;
  const std::string room = where + ", " + gigabytes(free_bytes) + " free";
  if (error || free_bytes < kLeast)
    return {"results", room + (error ? std::string(": ") + std::strerror(error) : ""), Health::failed,
            "free some space or quota, or name another directory with --results", true};
  if (!wrong.empty())
    return {"results", where + ": " + wrong, Health::failed,
            "two sweeps could write there at once: use a filesystem with flock(2) (Lustre: mount -o flock)",
            true};
  return {"results", room + ", locks work", free_bytes < kRoomy ? Health::look : Health::ok,
          "a few checkpoints may fill it"};
}

}  // namespace

std::vector<Check> examine_files(const Examination& e) {
  std::vector<Check> out;
  std::error_code unknown;
  const std::filesystem::path temp = std::filesystem::temp_directory_path(unknown);
  const bool writable = !unknown && ::access(temp.c_str(), W_OK) == 0;
  out.push_back({"temporary files", unknown ? "TMPDIR: " + unknown.message() : temp.string(),
                 writable ? Health::ok : Health::failed, "set TMPDIR to a directory that can be written",
                 true});
  out.push_back(examine_results(e.results));
  if (e.run) {
    const std::string file = e.run->data.train.empty() ? "synthetic noise" : e.run->data.train;
    try {
      data::require_data(*e.run);
      out.push_back({"data", file + " opens"});
    } catch (const ConfigError& refused) {
      out.push_back({"data", refused.what(), Health::failed, "", true});
    }
  }
  return out;
}

}  // namespace isobar::doctor
