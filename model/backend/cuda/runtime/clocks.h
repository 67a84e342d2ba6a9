// The state of a GPU's clock, from NVIDIA's management library if it is there: samples that were taken while
// the clock was held down are no measurement of the code.
//
//   Clocks clocks(bus_of(0));                   // or of a PCI address, "0000:01:00.0"
//   if (throttled(clocks.read())) …             // unknown clocks count as good
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace isobar {

struct ClockState {
  unsigned mhz = 0, max_mhz = 0;  // of the multiprocessors
  uint64_t reasons = 0;           // why it is below the largest, NVML's bits
  double watts = 0;               // that the board takes; 0: not told
};

/// Heat or a power brake holds the clock down, or it has not risen from idling. The power limit does not
/// count: large products run into it on every healthy card.
bool throttled(const std::optional<ClockState>& state);

std::string bus_of(int device);  // its PCI address

class Clocks {
 public:
  /// `bus`: the GPU's PCI address. Where NVML is missing there are no readings, and why() says so.
  explicit Clocks(const std::string& bus);
  ~Clocks();
  std::optional<ClockState> read() const;
  std::optional<double> joules() const;  // that the board has taken since its driver was loaded (Volta on)
  const std::string& why() const { return why_; }  // empty where clocks are read

 private:
  struct Nvml;
  std::unique_ptr<Nvml> nvml_;
  void* device_ = nullptr;
  std::string why_;
};

}  // namespace isobar
