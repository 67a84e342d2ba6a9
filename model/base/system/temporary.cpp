#include "model/base/system/temporary.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "model/base/error.h"

namespace isobar {

namespace fs = std::filesystem;

TemporaryFile::TemporaryFile(const std::string& begin, const std::string& end, std::string_view bytes) {
  std::error_code unknown;
  const fs::path folder = fs::temp_directory_path(unknown);
  if (unknown)
    throw ConfigError("TMPDIR", "", "is no folder: " + unknown.message(),
                      "name one that is yours, or unset it");
  std::string name = (folder / (begin + "XXXXXX" + end)).string();
  const int fd = ::mkostemps(name.data(), static_cast<int>(end.size()), O_CLOEXEC);  // of mode 600
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "cannot create " + name);
  path_ = name;
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      ::close(fd);
      ::unlink(name.c_str());
      throw std::system_error(error, std::generic_category(), "cannot write " + name);
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  ::close(fd);
}

TemporaryFile::~TemporaryFile() {
  ::unlink(path_.c_str());
}

void make_anew(const fs::path& path) {
  ::unlink(path.c_str());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "cannot create " + path.string());
  ::close(fd);
}

}  // namespace isobar
