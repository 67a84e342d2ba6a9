// Scalars in TensorBoard's event files (event_file.h), while another program writes them.
//
//   EventReader read("runs/first/tensorboard/events.out.tfevents.…");
//   for (const EventScalar& s : read.more()) use(s.tag, s.step, s.value);     // those since the call before
//
// A record that is not whole yet is read by a later call. A checksum that is wrong ends the reading: fault().
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isobar::records {

struct EventScalar {
  double wall_time = 0;  // seconds since 1970
  int64_t step = 0;
  std::string tag;
  double value = 0;
};

/// The scalars of one Event message; none for its other contents, and for bytes that are no message.
std::vector<EventScalar> scalars_in(std::string_view event);

class EventReader {
 public:
  explicit EventReader(std::filesystem::path file) : file_(std::move(file)) {}
  std::vector<EventScalar> more();
  /// Why the rest of the file is not read: "byte 120: its checksum is wrong".
  const std::optional<std::string>& fault() const { return fault_; }

 private:
  std::filesystem::path file_;
  int64_t read_ = 0;
  std::optional<std::string> fault_;
};

}  // namespace isobar::records
