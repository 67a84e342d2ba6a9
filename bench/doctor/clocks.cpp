// Clocks: the cores' frequency (is it held down?), the cost of reading the time, agreement of the time of day
// between hosts; and energy meters.
#include <sys/timex.h>

#include <chrono>
#include <fstream>
#include <set>

#include "bench/doctor/check.h"
#include "bench/doctor/rates.h"
#include "model/base/text/printed.h"
#include "model/engine/host/energy_meter.h"

namespace isobar::doctor {
namespace {

namespace fs = std::filesystem;

std::string first_word(const fs::path& file) {
  std::string word;
  std::ifstream(file) >> word;
  return word;
}

double number_in(const fs::path& file) {
  double x = 0;
  return std::ifstream(file) >> x ? x : 0;
}

Check examine_frequency(const fs::path& sys) {
  std::set<std::string> governors;
  double lowest = 1, most_khz = 0;
  std::error_code none;
  for (const auto& cpu : fs::directory_iterator(sys / "devices/system/cpu", none)) {
    const fs::path of = cpu.path() / "cpufreq";
    if (!fs::exists(of / "scaling_governor", none)) continue;
    governors.insert(first_word(of / "scaling_governor"));
    const double can = number_in(of / "cpuinfo_max_freq"), may = number_in(of / "scaling_max_freq");
    most_khz = std::max(most_khz, can);
    if (can > 0 && may > 0) lowest = std::min(lowest, may / can);
  }
  if (governors.empty()) return {"frequency", "not reported by the system (typical of virtual machines)"};
  std::string found = printed("up to %.2f GHz", most_khz / 1e6);
  for (const std::string& g : governors) found += ", governor " + g;
  if (lowest < 0.95) {
    return {"frequency", found + printed(", held to %.0f %% of that", 100 * lowest), Health::look,
            "cpupower frequency-set --max, as root: the lower limit slows steps down"};
  }
  // intel_pstate's "powersave" follows the load; with other drivers it stays at the lowest frequency
  const bool follows = first_word(sys / "devices/system/cpu/cpu0/cpufreq/scaling_driver") == "intel_pstate";
  if (governors.contains("powersave") && !follows)
    return {"frequency", found, Health::look,
            "cpupower frequency-set -g performance, as root: this governor stays at the lowest frequency"};
  if (governors.size() > 1)
    return {"frequency", found, Health::look,
            "cpupower frequency-set -g performance, as root, for all cores"};
  return {"frequency", found};
}

// Tracing reads the clock twice an op.
Check examine_readings(const fs::path& sys) {
  constexpr int kReadings = 2000;
  constexpr double kDear =
      500e-9;  // by a system call and a device; a processor's counter takes a tenth of it
  const double each = best_seconds(10,
                                   [] {
                                     for (int i = 0; i < kReadings; ++i)
                                       (void)std::chrono::steady_clock::now();
                                   }) /
                      kReadings;
  const std::string source = first_word(sys / "devices/system/clocksource/clocksource0/current_clocksource");
  const std::string text =
      printed("%s, %.0f ns a reading", source.empty() ? "unknown" : source.c_str(), 1e9 * each);
  return {"clock", text, each > kDear ? Health::look : Health::ok,
          "traces read it twice an op: choose a faster one in "
          "/sys/devices/system/clocksource/clocksource0/current_clocksource (tsc, kvm-clock)"};
}

// Energy meters that `train` reads with its steps, where permitted.
Check examine_energy(const fs::path& sys) {
  const engine::EnergyMeter meter(engine::rapl_counters(sys / "class/powercap"));
  if (meter.on()) return {"energy", "metered: " + meter.names()};
  return {"energy", meter.why(), Health::absent,
          "runs do not report energy; if there are counters: chmod a+r "
          "/sys/class/powercap/*/energy_uj, as root"};
}

Check examine_time_of_day() {
  timex asked{};
  const int state = ::adjtimex(&asked);
  if (state == -1) return {"time of day", "the system does not report whether it is synchronised"};
  if (state != TIME_ERROR) {
    const std::string text = printed("synchronised, to %.1f ms", static_cast<double>(asked.esterror) / 1e3);
    return {"time of day", text};
  }
  return {"time of day", "not synchronised", Health::absent,
          "on a cluster, chrony or ntpd makes the hosts' logs comparable; measurements do not need it"};
}

}  // namespace

std::vector<Check> examine_clocks(const fs::path& sys) {
  return {examine_frequency(sys), examine_readings(sys), examine_energy(sys), examine_time_of_day()};
}

}  // namespace isobar::doctor
