// Tells at once when one of some files is written to, so that a line is timed when it comes and not when
// somebody looks. Where the system has no events to give (inotify(7)), it tells nothing: look now and then.
//
//   WriteEvents writes({"runs/first/output.txt"});
//   while (!process.wait(0.05, writes.descriptor())) writes.forget(), …;
#pragma once
#include <filesystem>
#include <vector>

namespace isobar::guest {

class WriteEvents {
 public:
  /// Files that there are not yet are made, empty.
  explicit WriteEvents(const std::vector<std::filesystem::path>& files);
  ~WriteEvents();
  WriteEvents(const WriteEvents&) = delete;
  WriteEvents& operator=(const WriteEvents&) = delete;

  /// Can be read once a file was written to; -1: there are no events.
  int descriptor() const { return descriptor_; }
  /// Empties the descriptor: what was written until now is known.
  void forget() const;

 private:
  int descriptor_;
};

}  // namespace isobar::guest
