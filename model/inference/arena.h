// The memory block of a rank: exactly the bytes of the plan, zeroed and page-aligned. Throws OutOfMemory when
// the host cannot provide it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace isobar::inference {

class OutOfMemory : public std::runtime_error {
  using runtime_error::runtime_error;
};

class DeviceOutOfMemory : public OutOfMemory {  // on a GPU
  using OutOfMemory::OutOfMemory;
};

class Arena {
 public:
  explicit Arena(int64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  int64_t bytes_;
};

}  // namespace isobar::inference
