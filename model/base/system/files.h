// Files that survive a kill at any moment, and input files named by a user, which may be anything.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace isobar {

/// Writes beside `path`, fsyncs, renames over it and fsyncs the directory: readers see the old or the new
/// file.
void write_atomically(const std::filesystem::path& path, std::string_view bytes);
/// The second half of write_atomically(), for a file that a library has written whole. Throws
/// std::system_error.
void rename_synced(const std::filesystem::path& temp, const std::filesystem::path& path);
/// Appends one line with a single write(2) and fsync; a line torn by a kill is ignored by read_json_lines.
void append_line(const std::filesystem::path& path, std::string_view line);

/// Largest input by kind of file; a larger one is refused. The limits follow from memory: parsed YAML takes
/// up to 300 times the bytes of its text, JSON up to 25 times.
namespace most {
constexpr int64_t yaml = int64_t{4} << 20;
constexpr int64_t npy = int64_t{64} << 20;
constexpr int64_t table = int64_t{256} << 20;   // CSV, logs, JSON of one object
constexpr int64_t lines = int64_t{1024} << 20;  // JSON lines and traces, whose events are taken one by one
}  // namespace most

/// A regular file, open for reading: the only way in which files named by a user are opened. Throws
/// ConfigError(path, key, ...) where the path does not exist, is unreadable or is no regular file: a pipe
/// would block, a device never ends.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path, const std::string& key = "");
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  int fd() const { return fd_; }
  int64_t size() const { return size_; }  // bytes, when it was opened

 private:
  int fd_ = -1;
  int64_t size_ = 0;
};

/// All of a regular file; throws ConfigError as InputFile does, and for more than `bytes` bytes.
std::string read_file(const std::filesystem::path& path, int64_t bytes = most::lines,
                      const std::string& key = "");

}  // namespace isobar
