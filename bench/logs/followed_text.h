// Lines of a file that another program writes, as they come. Progress bars end lines by \r.
//
//   FollowedText out("runs/first/output.txt");
//   out.read([&](const std::string& line, double written) { … });     // new ones, at most kMostAtOnce of
//   them out.end(…);                                                       // all others, and a last without
//   \n
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace isobar::logs {

class FollowedText {
 public:
  /// `written`: when the file was last written to, in seconds since 1970; exact if read as it is written
  using Use = std::function<void(const std::string& line, double written)>;
  /// From byte `from` on
  explicit FollowedText(std::filesystem::path file, int64_t from = 0) : file_(std::move(file)), read_(from) {}
  /// True if there was something. A program that writes faster than this reads does not hold it up.
  bool read(const Use& use);
  void end(const Use& use);
  /// Bytes of the file now, read or not.
  int64_t size() const;
  const std::filesystem::path& file() const { return file_; }
  /// Its last bytes that were read, for a verdict
  const std::string& last() const { return last_; }

 private:
  void split(std::string_view some, double written, const Use& use);
  std::filesystem::path file_;
  int64_t read_;
  std::string part_, last_;
};

/// When a file was last written to, in seconds since 1970; 0: there is none.
double written_at(const std::filesystem::path& file);

}  // namespace isobar::logs
