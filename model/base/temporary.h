// Files that are not to stay, and names for files that are not whole yet.
//
//   const TemporaryFile page("isobar-open-", ".html", text);   // in $TMPDIR, of this user alone
//   make_anew(part);                                           // then a library may write it
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace isobar {

/// In $TMPDIR, under a name that cannot be foreseen; only its user may read it, from the first moment on.
/// Goes away with the object.
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

/// An empty file of that name. What lies there is removed, never followed or written to: in a folder that
/// others may write, it may be a link to any file of the user. Throws std::system_error.
void make_anew(const std::filesystem::path& path);

}  // namespace isobar
