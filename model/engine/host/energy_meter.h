// Energy of training: a host's processors by RAPL through Linux's powercap files (Intel and AMD), a GPU by
// NVML. Counters only grow; time between training steps (validations, checkpoints) is excluded.
//
//   EnergyMeter meter(rapl_counters());
//   meter.run(); … steps …; meter.pause();
//   meter.joules() / meter.seconds()            // watts; without counters why() says why there are none
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace isobar::engine {

struct EnergyCounter {
  std::string name;                             // "package-0", "dram of package-0", "GPU"
  std::function<std::optional<double>()> read;  // joules since an arbitrary start; none: no answer
  double wraps_at = 0;                          // joules; 0: never
};

struct EnergyCounters {
  std::vector<EnergyCounter> all;
  std::string why;  // reason if there are no counters
};

/// Processor packages and their memory, for the whole host including other processes. Other RAPL domains are
/// parts of these.
EnergyCounters rapl_counters(const std::filesystem::path& powercap = "/sys/class/powercap");

class EnergyMeter {
 public:
  explicit EnergyMeter(EnergyCounters counters) : counters_(std::move(counters)) {}
  void reset();  // discards what was measured
  /// Measures until pause(). If already running, reads the counters often enough to notice every wrap.
  void run();
  void pause();
  bool on() const { return !counters_.all.empty(); }
  const std::string& why() const { return counters_.why; }
  double joules() const { return joules_; }
  double seconds() const { return seconds_; }
  std::string names() const;  // "package-0, package-1"

 private:
  void look();
  EnergyCounters counters_;
  std::vector<double> at_;  // last reading of each counter
  bool running_ = false;
  int64_t looked_ns_ = 0;
  double joules_ = 0, seconds_ = 0;
};

}  // namespace isobar::engine
