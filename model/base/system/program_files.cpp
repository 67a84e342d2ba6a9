// Search for programs and files that a command uses by itself: program_in_path, file_of_program.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>

#include "model/base/error.h"
#include "model/base/names/search_paths.h"
#include "model/base/system/program.h"

namespace isobar {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMend = "take the permission from them (chmod go-w), or install Isobar anew";

// Users who may write the program itself can already run code as its users; only they and root are trusted.
class Writers {
 public:
  Writers() {
    const fs::path exe = own_program();
    struct stat folder {};
    if (::stat("/proc/self/exe", &program_) != 0) program_.st_uid = ::geteuid();
    if (::stat(exe.parent_path().c_str(), &folder) == 0 && (folder.st_mode & S_IWGRP)) group_ = folder.st_gid;
    if (program_.st_mode & S_IWGRP) group_ = program_.st_gid;
  }

  bool trusted(uid_t owner) const { return owner == 0 || owner == ::geteuid() || owner == program_.st_uid; }
  bool group_writes(const struct stat& s) const {
    return (s.st_mode & S_IWGRP) && s.st_gid != 0 && s.st_gid != group_;
  }

 private:
  struct stat program_ {};
  gid_t group_ = 0;
};

bool everybody_writes(const struct stat& s) {
  return !S_ISLNK(s.st_mode) && (s.st_mode & S_IWOTH);
}

// "", or the part of the path that is world-writable. In a sticky folder such as /tmp others may only add
// files, which is safe for files that exist.
std::string open_to_everybody(const fs::path& path, const Writers& writers) {
  bool sticky = false;
  fs::path at;
  for (const fs::path& part : path) {
    at /= part;
    struct stat s {};
    if (::lstat(at.c_str(), &s) != 0) return at.string() + " cannot be read";
    if (sticky && !writers.trusted(s.st_uid)) return at.string() + " is another user's";
    sticky = S_ISDIR(s.st_mode) && (s.st_mode & S_ISVTX) && everybody_writes(s);
    if (everybody_writes(s) && !sticky) return at.string() + " can be written by everybody";
  }
  return "";
}

std::string anybody_could_write(const fs::path& path, const Writers& writers) {
  std::error_code none;
  const std::string why = open_to_everybody(path, writers);
  return why.empty() ? open_to_everybody(fs::canonical(path, none), writers) : why;
}

// "", or the other user who could have written a file below a root of the program's tree.
std::string others_could_write(const fs::path& root, const fs::path& file) {
  const Writers writers;
  fs::path at = root;
  for (const fs::path& part : file) {
    at /= part;
    struct stat s {};
    if (::lstat(at.c_str(), &s) != 0) return at.string() + " cannot be read";
    if (!writers.trusted(s.st_uid)) return at.string() + " is another user's";
    if (!S_ISLNK(s.st_mode) && writers.group_writes(s)) return at.string() + " can be written by others";
  }
  struct stat s {};
  if (::stat(root.c_str(), &s) == 0 && writers.group_writes(s))
    return root.string() + " can be written by others";
  return anybody_could_write(root / file, writers);
}

bool may_be_run(const fs::path& file) {
  std::error_code none;
  return fs::is_regular_file(file, none) && ::access(file.c_str(), X_OK) == 0;
}

}  // namespace

fs::path own_program() {
  std::error_code none;
  const fs::path exe = fs::read_symlink("/proc/self/exe", none), folder = exe.parent_path();
  if (!exe.filename().string().starts_with("ld-linux") || folder.filename() != "glibc") return exe;
  return folder.parent_path().parent_path() / "bin/isobar";
}

fs::path program_in_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return may_be_run(name) ? fs::absolute(name) : fs::path();
  const char* path = std::getenv("PATH");
  const Writers writers;
  for (const std::string& folder : absolute_parts(path ? path : "/usr/bin:/bin")) {
    fs::path file = fs::path(folder) / name;
    if (!may_be_run(file)) continue;
    if (anybody_could_write(file, writers).empty()) return file;
  }
  return {};
}

fs::path file_of_program(const fs::path& file, std::string* refused) {
  const fs::path beside = own_program().parent_path();
  for (const fs::path& folder : {beside, beside.parent_path()}) {
    if (!folder.has_relative_path()) continue;
    for (const fs::path& inside : {file, "share/isobar" / file}) {
      std::error_code none;
      fs::path found = folder / inside;
      if (!fs::exists(found, none)) continue;
      const std::string why = others_could_write(folder, inside);
      if (why.empty()) return found;
      if (!refused) throw ConfigError(found.string(), "", "is not taken: " + why, kMend);
      *refused = found.string() + " is not taken: " + why + "; " + kMend;
      return {};
    }
  }
  return {};
}

fs::path drawing_python(std::string* refused) {
  if (const char* named = std::getenv("ISOBAR_REPORT_PYTHON"); named && *named) {
    const fs::path given(named);
    fs::path python = given.is_absolute() || !given.has_parent_path() ? program_in_path(named) : fs::path();
    if (python.empty())
      *refused = "ISOBAR_REPORT_PYTHON: " + showable(named) +
                 " is no program: name a Python by its whole path, or one of PATH";
    return python;
  }
  fs::path own = file_of_program(".venv-reports/bin/python", refused);
  return own.empty() && refused->empty() ? program_in_path("python3") : own;
}

}  // namespace isobar
