#include "bench/guest/write_events.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace isobar::guest {

WriteEvents::WriteEvents(const std::vector<std::filesystem::path>& files)
    : descriptor_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  for (const auto& file : files) {
    std::ofstream(file, std::ios::app);
    if (descriptor_ >= 0) ::inotify_add_watch(descriptor_, file.c_str(), IN_MODIFY);
  }
}

WriteEvents::~WriteEvents() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void WriteEvents::forget() const {
  std::array<char, 4096> some;
  while (descriptor_ >= 0 && ::read(descriptor_, some.data(), some.size()) > 0) {
  }
}

}  // namespace isobar::guest
