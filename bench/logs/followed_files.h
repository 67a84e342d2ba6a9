// Files in which a training logs its numbers, followed as they grow: run.reads names them by
//
//   csv:PATH           a table with a column "step": Lightning's metrics.csv
//   tensorboard:PATH   event files of TensorBoard
//
// PATH is a file, or a folder below which the newest metrics.csv, or all event files, written since the
// program began are read. {out} in it is the run's folder.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/logs/quantities.h"
#include "model/records/files/event_reader.h"

namespace isobar::logs {

/// Lines of a file that another program writes, as they come. Progress bars end lines by \r.
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

class OutputReader;

/// True for a line of run.reads that names files.
bool is_file_to_follow(const std::string& reads);

/// Rows of a table, as its program appends them or writes it anew with further columns.
class FollowedTable {
 public:
  explicit FollowedTable(std::filesystem::path file) : file_(std::move(file)) {}
  /// `all`: also a last row without an end of line
  void read(OutputReader& to, bool all);
  /// Names of columns that are no number of a training
  const std::string& unread() const { return unread_; }

 private:
  std::filesystem::path file_;
  std::string unread_;
  double written_ = 0;
  uintmax_t size_ = 0;
  size_t rows_ = 0;  // read so far
};

class FollowedFiles {
 public:
  /// `begun`: when the program began, in seconds since 1970; files before it are others'.
  FollowedFiles(const std::string& reads, const std::string& out, double begun);
  /// Reads what is new in them; looks for new files at most once a second.
  void read(OutputReader& to, double now);
  /// All that is left.
  void end(OutputReader& to);
  /// Files that were never found, or are damaged
  std::vector<std::string> notes() const;

 private:
  struct Named {
    std::string reads;
    std::filesystem::path path;
    bool table = false;
  };
  struct Events {
    records::EventReader reader;
    Quantities q;  // of the newest step, whose further scalars may come
    std::optional<int64_t> step;
    double at = 0;
  };
  void look(const Named& n);
  void take(Events& e, OutputReader& to, bool all);

  std::vector<Named> named_;
  double begun_, looked_ = -1;
  std::map<std::filesystem::path, FollowedTable> tables_;
  std::map<std::filesystem::path, Events> events_;
  std::set<std::string> found_;  // entries of named_ that have a file
};

}  // namespace isobar::logs
