// Temporary files, and exclusive creation of files that are being written.
//
//   const TemporaryFile page("isobar-open-", ".html", text);   // in $TMPDIR, of this user alone
//   make_anew(part);                                           // then a library may write it
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace isobar {

/// A file in $TMPDIR under an unpredictable name, readable by its user alone from the first moment on. The
/// destructor removes it.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& begin, const std::string& end, std::string_view bytes);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Creates an empty file; throws std::system_error. An existing one is removed, never followed or written to:
/// in a folder that others may write, it may be a link to any file of the user.
void make_anew(const std::filesystem::path& path);

}  // namespace isobar
