// A GPU's clock state, from NVML if present: timings taken while the clock was throttled do not measure the
// code.
//
//   Clocks clocks(bus_of(0));                   // or of a PCI address, "0000:01:00.0"
//   if (throttled(clocks.read())) …             // unknown clocks count as good
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "model/backend/device_load.h"

namespace isobar {

struct ClockState {
  unsigned mhz = 0, max_mhz = 0;  // of the multiprocessors
  uint64_t reasons = 0;           // why it is below the maximum, as NVML's bits
  double watts = 0;               // board power; 0: unknown
};

/// True if heat or a power brake limits the clock, or it has not left idle. The power cap does not count:
/// large products reach it on every healthy card.
bool throttled(const std::optional<ClockState>& state);

std::string bus_of(int device);  // its PCI address

class Clocks {
 public:
  /// `bus`: the GPU's PCI address. Without NVML there are no readings, and why() gives the reason.
  explicit Clocks(const std::string& bus);
  ~Clocks();
  std::optional<ClockState> read() const;
  /// Busy in the last moments (up to a second), PCIe over 20 ms; takes tens of milliseconds.
  std::optional<DeviceLoad> load() const;
  std::optional<double> joules() const;  // the board's energy since the driver was loaded (Volta on)
  const std::string& why() const { return why_; }  // empty if clocks are readable

 private:
  struct Nvml;
  std::unique_ptr<Nvml> nvml_;
  void* device_ = nullptr;
  std::string why_;
};

}  // namespace isobar
