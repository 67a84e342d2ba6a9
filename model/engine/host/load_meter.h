// How a device is loaded while it trains, read twice a second beside the steps: readings of NVML take tens of
// milliseconds, which no step waits for.
//
//   LoadMeter meter([&] { return processor.load(); });
//   meter.run(); … steps …; meter.pause();
//   if (const auto load = meter.mean()) load->busy …
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "model/backend/device_load.h"

namespace isobar::engine {

class LoadMeter {
 public:
  using Read = std::function<std::optional<DeviceLoad>()>;

  /// Without a first reading, or without `read`, there is no thread and mean() has nothing.
  explicit LoadMeter(Read read);
  ~LoadMeter();
  LoadMeter(const LoadMeter&) = delete;
  LoadMeter& operator=(const LoadMeter&) = delete;

  void reset();  // discards what was read
  void run();
  void pause();
  std::optional<DeviceLoad> mean() const;

 private:
  void follow();

  Read read_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool running_ = false, over_ = false, fresh_ = false;  // fresh_: read now, not half a second later
  DeviceLoad sum_;
  int64_t readings_ = 0;
  std::thread thread_;
};

}  // namespace isobar::engine
